"""One fake per typed client, for tests of whoever calls a service.

A fake implements the client's protocol in memory, with the exceptions and the order of events of the real service, and
no HTTP. What it finds, plans or answers is given to it: it never claims quality. Set ``down`` and every call raises
:class:`~services.errors.ServiceUnavailable`; set ``delay_s`` and calls with a shorter deadline raise
:class:`~services.errors.DeadlineExceeded`. ``tests/congruence`` holds fakes and real services against each other.
"""

from services.testing.demos import FakeDemos
from services.testing.executor import FakeExecutor
from services.testing.planner import FakePlanner, prove
from services.testing.retriever import FakeRetriever

__all__ = ["FakeDemos", "FakeExecutor", "FakePlanner", "FakeRetriever", "prove"]
