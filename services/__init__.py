"""The chassis every Nestor service is built on.

It knows no service: nothing here imports ``gateway``, ``retriever_svc``, ``demo_svc``, ``planner_svc``,
``executor_svc``, ``sandbox`` or ``deploy`` (import-linter enforces it). What crosses a service boundary is
defined once, in :mod:`services.contracts`, and travels through one typed client per service, in
:mod:`services.clients`.
"""
