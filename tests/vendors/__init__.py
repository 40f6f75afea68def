"""The proving ground: thirty vendors' documents, twins made of them, and people's requests to each.

The documents are read from the folder that ``NESTOR_TEST_VENDORS`` names; what we wrote ourselves is in ``documents/``.
``requests/NAME.yaml`` holds the requests to one vendor, each with the calls that serve it. They were written by hand,
one by one, from the documents' operations; what Nestor makes of them had no say in the choice.
"""
