"""The gateway: the one service that apps call. It takes requests, orchestrates the other services and stores runs.

Invariants:

- It uses the other services only through :mod:`services.contracts` and :mod:`services.clients`.
- An accepted run continues when its client disconnects, and ends in a final state that is stored.
- Nothing is executed that the planner's compiler has not proved; a mutating call waits for an approval bound to
  the plan.
- If another service is down, the gateway answers 503 and names it. It never makes up an answer without it.

``solve.py`` contains the whole pipeline, in order.
"""
