"""A server made from a service's description alone, which remembers: what is created can be read, changed and deleted.

It is built from the catalogue's contracts, so it speaks for every format that is imported. ``routes`` finds the
operation of a request, ``access`` asks for its credentials, ``wire`` reads its arguments, ``checking`` holds them
against their schemas, ``families`` says which operations are about the same things, ``state`` keeps those,
``shapes`` and ``values`` make answers, ``service`` joins them, ``main`` serves it. It knows no other service.
"""
