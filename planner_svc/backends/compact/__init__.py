"""The compact backend: a small trained network reads the request together with its candidates (docs/planning.md).

``items`` splits an API into the parts that a request can mean, and ``encodings`` caches encoded APIs. ``inputs`` and
``reader`` run the network. ``decode`` turns its output into calls, with ``forms`` for how values are written and
``demo_hints`` for what demonstrations show. ``confidence`` estimates how likely a draft is right. ``backend`` connects
them.

Invariants: a value that its parameter's schema rejects is never used; a call that may change something is never made to
obtain a value; work is bounded for every request.
"""

from planner_svc.backends.compact.backend import CompactBackend

__all__ = ["CompactBackend"]
