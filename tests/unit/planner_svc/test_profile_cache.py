"""An API is read once, whoever asks for it; what is kept is bounded, and never another API's."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from planner_svc.backends.demonstrated import DemonstratedBackend
from planner_svc.cascade import BackendAnswer
from planner_svc.judging.signs import signs_of
from planner_svc.models import PlanDraft
from planner_svc.proving.prover import Prover
from planner_svc.proving.untold import missing_from_plan, untold
from planner_svc.reading import profile as reading
from planner_svc.reading.effects import Effect, effect_of
from planner_svc.reading.profile import ProfileCache
from services.compute import ComputePool
from services.contracts.api import Api, Location
from services.contracts.context import Context
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import Plan
from services.contracts.planning import PlanRequest
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import TEXT, api, param, plan, record, step

GET = api("getOrder", param("orderId", required=True), returns=record(total=TEXT))
OTHER = api("getCourier", param("courierId"), returns=record(name=TEXT))
CANCEL = api(
    "cancelOrder",
    param("orderId", required=True, at=Location.PATH),
    method="DELETE",
    path="/orders/{orderId}",
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the APIs that are read, once for each time."""
    seen: list[str] = []
    effect = effect_of  # each reading asks for it once, whoever imports what

    def counted(one: Api) -> Effect:
        seen.append(one.id)
        return effect(one)

    monkeypatch.setattr(reading, "effect_of", counted)
    return seen


@pytest.mark.parametrize(
    ("query", "drafted"),
    [
        ('Which courier has orderId "17"?', plan(step("a", "getOrder", orderId="17"))),
        ('Cancel the order with orderId "17".', plan(step("a", "cancelOrder", orderId="17"))),
    ],
)
async def test_an_api_is_read_once_by_all_that_need_it(reads: list[str], query: str, drafted: Plan) -> None:
    demo = Demo(query=query, plan=drafted)
    pool = ComputePool(1)
    try:
        for _ in range(2):
            # a request of its own each time: other objects with the same content
            apis = [one.model_copy(update={"content_hash": query}) for one in (GET, OTHER, CANCEL)]
            request = PlanRequest(
                query=query,
                candidates=tuple(Candidate(api=one, score=1) for one in apis),
                demos=(SelectedDemo(demo=demo, similarity=1, level="task"),),
                context=Context(),
            )
            DemonstratedBackend(pool).draft(request)
            answer = await Prover(pool).answer(PlanDraft(drafted, 0.9), request, "compact")
            assert isinstance(answer, BackendAnswer)
            assert answer.response.compiled is not None
            proved = answer.response.compiled
            untold(query, proved.plan, proved.apis, apis)
            missing_from_plan(query, proved.plan, proved.apis)
            signs_of(request, answer)
    finally:
        await pool.close()
    assert sorted(reads) == sorted({*(step.api for step in drafted.steps), *reads})


def test_a_cache_that_many_threads_use_stays_within_its_bounds_and_mixes_nothing_up() -> None:
    cache = ProfileCache(max_profiles=3)
    apis = [api(f"a{n % 6}", param(f"p{n}"), content_hash=str(n)) for n in range(12)]

    def read(number: int) -> bool:
        one = apis[number % len(apis)]
        return cache.profile(one).api is one and len(cache._cache) <= 3

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(2_000)))
    assert len(cache._cache) == 3


@pytest.mark.parametrize("hashes", [{}, {"content_hash": "1"}])
def test_another_api_of_the_same_name_is_read_itself(hashes: dict[str, Any]) -> None:
    cache = ProfileCache()
    first = api("find", param("old"), **hashes)
    changed: dict[str, Any] = {"content_hash": "2"} if hashes else {}
    second = api("find", param("new"), **changed)
    assert [slot.name for one in (first, second, first) for slot in cache.profile(one).slots] == ["old", "new", "old"]


def test_an_equal_api_is_not_read_again(reads: list[str]) -> None:
    cache = ProfileCache()
    cache.profile(api("find", param("q")))
    cache.profile(api("find", param("q")))
    assert reads == ["t.find"]
