"""The compact planner backend.

``values`` (with ``dates`` and ``numbers``) finds what the request may hold as values; ``profile`` reads what each API
takes and gives; ``fit`` scores values against arguments and ``links`` outputs against arguments; ``chain`` composes a
call and the calls that feed it, ``objects`` builds arguments of several values, ``spread`` shares values out between
several calls of one API; ``segments`` and ``choose`` divide the request and pick APIs; ``answer`` picks the
outputs that answer; ``draft`` writes the plan; ``backend`` wires them.

Invariants: a value that its parameter's schema refuses is never used; a call that may change something is never made
to obtain a value, and never without words that ask for it; work is bounded whatever the request holds. Nothing here
knows any API: only English, types and schemas.
"""

from planner_svc.backends.compact.backend import CompactBackend

__all__ = ["CompactBackend"]
