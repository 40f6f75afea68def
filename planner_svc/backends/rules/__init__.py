"""The rules backend: plans without training, and without knowing any API.

``fit`` scores values against arguments and ``links`` outputs against arguments; ``chain`` composes a call and the
calls that feed it, ``objects`` builds arguments of several values, ``spread`` shares values out between several calls
of one API; ``segments`` and ``choose`` divide the request and pick APIs; ``answer`` picks the outputs that answer;
``draft`` writes the plan; ``backend`` wires them.

Invariants: a value that its parameter's schema refuses is never used; a call that may change something is never made
to obtain a value, and never without words that ask for it; work is bounded whatever the request holds.
"""

from planner_svc.backends.rules.backend import RulesBackend

__all__ = ["RulesBackend"]
