"""A stateful mock server, made only from a service's description. Created items can be read, changed and deleted.

It is built from the catalogue's contracts, so it works for every format that can be imported. It depends on no other
service. Its modules:

- ``routes`` finds the operation of a request;
- ``access`` checks its credentials;
- ``wire`` reads its arguments;
- ``checking`` validates them against their schemas;
- ``endpoints`` groups the operations by the collection that they work on;
- ``state`` stores the items;
- ``shapes`` and ``values`` build answers;
- ``service`` joins these parts, and ``main`` serves them.
"""
