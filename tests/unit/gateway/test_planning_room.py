"""Plans in the making hold a bounded number of bytes of candidates and demonstrations, all together."""

import asyncio
from collections import Counter

import pytest

from gateway.peers import Peers
from gateway.planning_room import PlanningRoom
from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.api import Api
from services.contracts.demo import Demo, SelectDemosRequest
from services.contracts.plan import LiteralValue, Plan, Step
from services.contracts.retrieval import MAX_ANSWER_BYTES, LookupRequest, RetrieveRequest, RetrieveResponse
from services.errors import Overloaded, ServiceUnavailable
from tests.fakes.demos import FakeDemos
from tests.fakes.executor import FakeExecutor
from tests.fakes.planner import FakePlanner
from tests.fakes.retriever import FakeRetriever

LIMIT = 10_000_000
ASKED = RetrieveRequest(query="list things", k=100)


class SizedRetriever(FakeRetriever):
    """Says that its candidates have so many bytes, and counts the bytes that it is asked for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        return (await super().retrieve(request, timeout_s)).model_copy(update={"size": self.size})


class Room:
    """A room, and what it charged."""

    def __init__(self, retriever: FakeRetriever, demos: FakeDemos | None = None) -> None:
        self.peers = Peers(retriever, demos or FakeDemos(), FakePlanner(), FakeExecutor())
        self.charged = Counter[str]()
        self.room = PlanningRoom(LIMIT, self._charge)
        self.inside = Counter[str]()
        self.most = Counter[str]()
        self._runs = 0

    def _charge(self, tenant: str, size: int) -> None:
        self.charged[tenant] += size

    async def plan(self, tenant: str, hold_s: float = 0.01, timeout_s: float = 20) -> None:
        self._runs += 1
        async with self.room.plan(self.peers, str(self._runs), tenant) as bounded:
            await bounded.retrieve(ASKED, timeout_s)
            self.inside[tenant] += 1
            self.most[tenant] = max(self.most[tenant], self.inside[tenant])
            await asyncio.sleep(hold_s)
            self.inside[tenant] -= 1


async def test_few_plans_with_large_candidates_are_made_at_once() -> None:
    room = Room(SizedRetriever(50_000_000))
    await asyncio.gather(*(room.plan(tenant) for tenant in ("red", "blue") for _ in range(10)))
    assert room.most == {"red": 1, "blue": 1}
    assert room.charged == dict.fromkeys(("red", "blue"), 10 * MAX_ANSWER_BYTES)


async def test_usual_plans_are_asked_for_once_and_made_together() -> None:
    retriever = SizedRetriever(100_000)
    room = Room(retriever)
    await asyncio.gather(*(room.plan("red", 0.3) for _ in range(32)))
    assert room.most == {"red": 32}
    assert len(retriever.asked) == 32
    assert room.charged == {"red": 32 * 100_000}


async def test_large_candidates_are_not_asked_for_before_there_is_room() -> None:
    retriever = SizedRetriever(MAX_ANSWER_BYTES)
    room = Room(retriever)
    first = asyncio.create_task(room.plan("red", 0.3))
    await asyncio.sleep(0.1)
    with pytest.raises(Overloaded):
        await room.plan("red", timeout_s=0.1)
    assert [one.most_bytes for one in retriever.asked] == [256_000, MAX_ANSWER_BYTES, 256_000]
    await first
    await room.plan("red", timeout_s=0.1)


async def test_all_searches_of_one_plan_share_its_bytes() -> None:
    retriever = SizedRetriever(3_000_000)
    room = Room(retriever)
    async with room.room.plan(room.peers, "1", "red") as bounded:
        await asyncio.gather(*(bounded.retrieve(ASKED) for _ in range(4)))
    assert room.charged == {"red": MAX_ANSWER_BYTES}
    assert retriever.asked[-1].most_bytes == 0


async def test_demonstrations_and_looked_up_apis_count() -> None:
    value = LiteralValue(value="x" * 50_000)
    demos = FakeDemos(Demo(query="list things", plan=Plan(steps=(Step(id="a", api="p.a", arguments={"q": value}),))))
    large = Api(id="p.a", provider="p", name="a", description="x" * 70_000)
    room = Room(FakeRetriever(large), demos)
    async with room.room.plan(room.peers, "1", "red") as bounded:
        assert (await bounded.select(SelectDemosRequest(query="list things"))).demos
    assert 50_000 < room.charged["red"] < 51_000
    async with room.room.plan(room.peers, "2", "red") as bounded:
        assert (await bounded.lookup(LookupRequest(ids=("p.a",)))).apis
    assert 120_000 < room.charged["red"] < 122_000


async def test_a_plan_that_fails_while_its_search_waits_keeps_no_room() -> None:
    """A search that began beside something that failed goes on without its plan."""
    room = Room(SizedRetriever(MAX_ANSWER_BYTES))

    async def fail() -> None:
        await asyncio.sleep(0.05)
        raise ServiceUnavailable("executor_svc does not answer.")

    async def failing() -> None:
        async with room.room.plan(room.peers, "1", "red") as bounded:
            await asyncio.gather(bounded.retrieve(ASKED), fail())

    first = asyncio.create_task(room.plan("red", 0.2))
    await asyncio.sleep(0.02)
    with pytest.raises(ServiceUnavailable):
        await failing()
    await first
    await asyncio.gather(*(room.plan("red", timeout_s=1) for _ in range(3)))
