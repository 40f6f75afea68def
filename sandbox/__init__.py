"""A real world to solve in: one offline HTTP service that plays a customer's API estate.

About sixty endpoints in more than a dozen domains compute real answers with well-kept libraries and fixed, dated
data files. The service knows nothing of the rest of the project and is learnt, like any customer's, only through the
OpenAPI 3.1 document it publishes at ``/openapi.json``.

Invariants:

- every answer is a function of the request, the data files and the state this app instance holds (nothing is fetched);
- whatever depends on "now" takes a date or a time as an optional parameter;
- state lives in memory on ``app.state``, one per app, and every collection has a cap;
- any input gets a 2xx or a 4xx ``application/problem+json``; only ``/lab`` answers 5xx, and only when told to.
"""
