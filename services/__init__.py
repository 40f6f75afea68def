"""The shared base of all Nestor services.

It depends on no service: nothing here imports ``gateway``, ``retriever_svc``, ``demo_svc``, ``planner_svc``,
``executor_svc``, ``sandbox`` or ``deploy`` (import-linter enforces this). :mod:`services.contracts` defines the
types that cross a service boundary. :mod:`services.clients` has one typed client per service.
"""
