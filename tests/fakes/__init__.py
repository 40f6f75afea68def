"""One fake per typed client, for tests of code that calls a service.

A fake implements the client's protocol in memory, without HTTP. It has the exceptions and the order of events of the
real service. Tests give it what it finds, plans or answers, so it says nothing about quality. With ``down`` set, every
call raises :class:`~services.errors.ServiceUnavailable`. With ``delay_s`` set, calls with a shorter deadline raise
:class:`~services.errors.DeadlineExceeded`. ``tests/congruence`` compares the fakes with the real services.
"""

from tests.fakes.demos import FakeDemos
from tests.fakes.executor import FakeExecutor
from tests.fakes.planner import FakePlanner, prove
from tests.fakes.retriever import FakeRetriever

__all__ = ["FakeDemos", "FakeExecutor", "FakePlanner", "FakeRetriever", "prove"]
