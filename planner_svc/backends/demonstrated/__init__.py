"""The demonstrated backend: a request that was solved before is solved the same way again. It is no network.

``wording`` reads a request once: its words and the moments, numbers and listed values that they say; ``times`` writes
moments as an API wants them; ``leaves`` are the literals of a demonstration's plan; ``said`` finds which words of its
request say which of them, and ``readers`` read other words in their place; ``pattern`` matches what is left, the
pattern, with a new request; ``transfer`` writes the new plan.

The rule for the values of demonstrations, which are other people's data, is the same for all of them:

- What the demonstration's words say is replaced by what the new request's words say, or it does not appear.
- What they do not say is part of the pattern, as a unit or a limit is, and stays; the application's own value
  (``context.values``) of that argument's name goes before it. It does not stay where it holds a word that was replaced,
  nor where it is a moment and another moment has changed: it was worked out of those. Then there is no draft.
- A parameter for secrets (``format: password``, ``writeOnly``) never gets a demonstration's value.
"""

from planner_svc.backends.demonstrated.backend import DemonstratedBackend

__all__ = ["DemonstratedBackend"]
