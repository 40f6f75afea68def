"""One fake per typed client, for tests of whoever calls a service.

A fake implements the client's protocol in memory, with the exceptions and the order of events of the real service, and
no HTTP. What it finds, plans or answers is given to it: it never claims quality. Set ``down`` and every call raises
:class:`~services.errors.ServiceUnavailable`; set ``delay_s`` and calls with a shorter deadline raise
:class:`~services.errors.DeadlineExceeded`. ``tests/congruence`` holds fakes and real services against each other.
"""

from tests.fakes.demos import FakeDemos
from tests.fakes.executor import FakeExecutor
from tests.fakes.planner import FakePlanner, prove
from tests.fakes.retriever import FakeRetriever

__all__ = ["FakeDemos", "FakeExecutor", "FakePlanner", "FakeRetriever", "prove"]
