"""How backends read requests and APIs: English text, types and schemas, without a model.

``text`` has words and names. ``numbers`` and ``dates`` find what words mean, ``renderings`` writes moments, and
``values`` finds everything in a request that may be a value. ``profile`` reads what an API takes and returns.
``readings`` lists what words may mean as an argument. ``context`` reads what the application knows.
"""
