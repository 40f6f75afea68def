"""A benchmark with thirty vendors' documents, twins that simulate their APIs, and people's requests to each.

The documents are read from the folder that ``NESTOR_TEST_VENDORS`` names. Documents that we wrote are in
``documents/``. ``requests/NAME.yaml`` holds the requests to one vendor, each with the calls that serve it. The requests
were written by hand from the documents' operations, without regard to Nestor's results.
"""
