"""The gateway: the one door apps use. It takes a request, orchestrates the other services, keeps the runs.

Invariants:

- It knows its peers through :mod:`services.contracts` and :mod:`services.clients` only.
- A run, once accepted, goes on when its client goes away, and ends in a final state that is stored.
- Nothing is executed that the planner's compiler has not proved; a mutating call waits for an approval bound to
  the plan.
- A peer that is down is a 503 that names it, never an answer made up without it.

``solve.py`` is the whole road, read from top to bottom.
"""
