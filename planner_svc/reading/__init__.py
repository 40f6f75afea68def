"""What every backend reads requests and APIs with: no backend, no model, only English, types and schemas.

``text`` has words and names; ``numbers`` and ``dates`` find what words mean, ``renderings`` writes moments, ``values``
finds all that a request may hold as values; ``profile`` reads what an API takes and gives; ``readings`` says what
words may be as an argument; ``context`` what the application knows.
"""
