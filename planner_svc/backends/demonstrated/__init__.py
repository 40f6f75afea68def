"""The demonstrated backend: solves a request that was solved before in the same way. It uses no network.

``wording`` reads a request once: its words, and the moments, numbers and listed values in them. ``times`` writes
moments as an API expects them. ``leaves`` lists the literals of a demonstration's plan. ``mentions`` finds the words of
its request that say each literal, and ``readers`` read other words in their place. ``pattern`` matches the remaining
words, the pattern, with a new request. ``transfer`` writes the new plan.

Demonstrations contain other people's data. The same rules apply to all their values:

- A value that the demonstration's words say is replaced by what the new request's words say, or it does not appear.
- A value that they do not say, such as a unit or a limit, is part of the pattern and stays. The application's own value
  (``context.values``) for that argument's name has priority. There is no draft if the value contains a word that was
  replaced, or if it is a moment and another moment changed: it was derived from those.
- A parameter for secrets (``format: password``, ``writeOnly``) never gets a demonstration's value.
"""

from planner_svc.backends.demonstrated.backend import DemonstratedBackend

__all__ = ["DemonstratedBackend"]
