"""The compact backend: a small trained network reads the request beside its candidates (docs/planning.md).

``items`` is what of an API a request can mean, ``encodings`` keeps APIs as they were read; ``inputs`` and ``reader``
run the network; ``decode`` turns what it says into calls, with ``forms`` for how values are written and ``shown`` for
what demonstrations show; ``confidence`` says how likely a draft is right; ``backend`` wires them.

Invariants: a value that its parameter's schema refuses is never used; a call that may change something is never made
to obtain a value; work is bounded whatever the request holds.
"""

from planner_svc.backends.compact.backend import CompactBackend

__all__ = ["CompactBackend"]
