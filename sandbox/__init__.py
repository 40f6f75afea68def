"""An offline HTTP service that stands in for a customer's APIs, so that requests can be solved end to end.

About sixty endpoints in more than a dozen domains compute real answers with well-maintained libraries and fixed, dated
data files. The service is independent of the rest of the project. Like any customer's service, it is known only through
the OpenAPI 3.1 document that it publishes at ``/openapi.json``.

Invariants:

- Every answer is a function of the request, the data files and the state of this app instance. Nothing is fetched.
- Every endpoint that depends on the current time takes a date or a time as an optional parameter.
- State is kept in memory on ``app.state``, one per app, and every collection has a size limit.
- Any input gets a 2xx or a 4xx ``application/problem+json``. Only ``/lab`` answers 5xx, and only on request.
"""
