"""What no answer tells is said, and only what no answer tells."""

import pytest
from prometheus_client import CollectorRegistry

from planner_svc.cascade import CascadePolicy
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import PlanDraft
from planner_svc.proving.untold import missing_from_plan, untold
from planner_svc.proving.wrong_target import Vocabulary
from planner_svc.service import PlannerService
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import Decision, PlanRequest, Policy
from services.contracts.retrieval import Candidate
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, plan, record, step, used_up
from tests.unit.planner_svc.judging.test_judge import Scripted

ITEMS = {"type": "array", "items": record(product=TEXT, quantity=WHOLE)}
ORDER = api(
    "getOrder",
    param("id", about="Number of the order."),
    path="/orders/{id}",
    summary="Get an order.",
    returns=record(status=TEXT, total=WHOLE, items=ITEMS),
)
PLAN = plan(step("a", "getOrder", id="4471"))
MISSING = "I can find the order; none of the APIs tells “{}”."


def said(query: str, called: Api = ORDER, *others: Api, proposed: Plan = PLAN) -> str:
    return untold(query, proposed, {called.id: called}, [called, *others])


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("how heavy is order 4471?", "how heavy it is"),
        ("which carrier has order 4471?", "carrier"),
        ("What is the carrier of order 4471?", "carrier"),
        ("what carrier does order 4471 have?", "carrier"),
        ("please tell me the carrier for order 4471", "carrier"),
        ("order 4471: how many parcels is it?", "parcels"),
    ],
)
def test_what_no_answer_tells_is_said(query: str, asked: str) -> None:
    assert said(query) == MISSING.format(asked)


@pytest.mark.parametrize(
    "query",
    [
        "what is the status of order 4471?",
        "which products are in order 4471?",  # a field of a list in it
        "how many items has order 4471?",
        "what is order 4471?",
        "what else is in order 4471?",
        "how much is order 4471?",
        "how old is order 4471?",
        "order 4471",
        "what arrived last Friday?",  # a verb names nothing
        "Which Grundfos has 4471?",  # it may be a value
        "",
    ],
)
def test_nothing_is_said_of_what_may_be_there(query: str) -> None:
    order = plan(step("a", "getOrder", id="Grundfos 4471"))
    assert said(query, proposed=order) == ""


@pytest.mark.parametrize(
    "other",
    [
        api("shipments", returns=record(weight=WHOLE)),
        api("measure", summary="How heavy something is."),
        api("list", param("sort", {"enum": ["weight", "name"]})),
    ],
)
def test_what_another_candidate_may_tell_is_not_denied(other: Api) -> None:
    assert said("how heavy is order 4471?", ORDER, other) == ""


@pytest.mark.parametrize(
    "answer",
    [
        {},
        TEXT,
        {"type": "object"},
        record(id=TEXT, more={"type": "object"}),
        record(id=TEXT, more={"type": "array"}),
        record(id=TEXT, more={"type": "array", "items": {"type": "object"}}),
        record(**{f"field{n}": TEXT for n in range(200)}),
    ],
)
def test_an_answer_that_is_not_declared_in_full_may_tell_anything(answer: dict[str, object]) -> None:
    called = api("getOrder", param("id"), returns=answer)
    assert said("how heavy is order 4471?", called) == ""


def test_what_changes_something_is_not_spoken_of() -> None:
    called = ORDER.model_copy(update={"method": "POST"})
    assert said("which carrier has order 4471?", called) == ""


@pytest.mark.parametrize("query", ["which " * 5_000, "which \ud800\x00?", "how " * 9_000, "what's the " + "a-" * 9_000])
def test_any_text_is_read(query: str) -> None:
    said(query)


def test_a_thousand_questions_are_not_all_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word would be compared with all words of all candidates."""
    compared: list[str] = []

    class Noting(Vocabulary):
        def __contains__(self, word: str) -> bool:
            compared.append(word)
            return super().__contains__(word)

    monkeypatch.setattr("planner_svc.proving.untold.Vocabulary", Noting)
    names = [f"zorble{one}{two}" for one in "bcdfghjklm" for two in "bcdfghjklmnpqrstvwxz"]
    others = [api(f"other{number}", returns=record(weight=WHOLE)) for number in range(10)]
    told = said("Get the order. " + " ".join(f"which {name} has it?" for name in names), ORDER, *others)
    assert told == MISSING.replace("“{}”", "“zorblebb”, “zorblebc” or “zorblebd”")
    assert len(compared) <= 20 * 4 * 11


def planner_of(
    pool: ComputePool, sure: float, policy: CascadePolicy | None = None, registry: CollectorRegistry | None = None
) -> PlannerService:
    """A planner whose one backend has the plan, so sure of it."""
    return PlannerService(
        {"compact": Scripted("compact", PlanDraft(PLAN, sure))},
        "compact",
        pool,
        backend_timeout_s=5,
        metrics=PlannerMetrics(registry or CollectorRegistry()),
        policy=policy or CascadePolicy(),
    )


async def test_a_plan_stands_where_looking_for_what_is_missing_takes_too_long(
    pool: ComputePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner_svc.proving.untold.checkpoint", used_up)
    request = PlanRequest(
        query="which carrier has order 4471?",
        candidates=(Candidate(api=ORDER, score=1),),
        policy=Policy(mutating=Decision.ALLOW),
    )
    response = await planner_of(pool, 0.9).plan(request)
    assert (response.status, response.untold) == ("planned", "")


@pytest.mark.parametrize(("below", "status"), [(0.0, "planned"), (0.9, "no_plan")])
async def test_the_planner_says_so_with_its_plan_or_instead_of_it(pool: ComputePool, below: float, status: str) -> None:
    request = PlanRequest(
        query="which carrier has order 4471?",
        candidates=(Candidate(api=ORDER, score=1),),
        policy=Policy(mutating=Decision.ALLOW),
    )
    registry = CollectorRegistry()
    planner = planner_of(pool, 0.5, CascadePolicy(abstain_below=below), registry)
    response = await planner.plan(request)
    assert (response.status, response.untold) == (status, MISSING.format("carrier"))
    assert response.reason.startswith(MISSING.format("carrier")) is (status == "no_plan")
    assert registry.get_sample_value("nestor_planner_untold_total") == 1
    told = await planner.plan(request.model_copy(update={"query": "which status has order 4471?"}))
    assert told.untold == ""


async def test_what_only_another_api_may_tell_makes_the_plan_unsure(pool: ComputePool) -> None:
    parcel = api("getParcel", param("id"), path="/parcels/{id}", returns=record(weight=WHOLE))
    query = "how heavy is order 4471?"
    assert missing_from_plan(query, PLAN, {ORDER.id: ORDER}) == ("how heavy it is",)
    request = PlanRequest(
        query=query,
        candidates=(Candidate(api=ORDER, score=0.9), Candidate(api=parcel, score=0.2)),
        policy=Policy(mutating=Decision.ALLOW),
    )

    async def planned(unsure_below: float) -> tuple[str, str]:
        planner = planner_of(pool, 0.9, CascadePolicy(unsure_below=unsure_below))
        response = await planner.plan(request)
        assert (response.status, response.plan) == ("planned", PLAN)
        return response.untold, response.unsure

    unsure = 'I am not sure of this, what is called does not tell “how heavy it is”: t.getOrder(id="4471").'
    assert await planned(0.5) == ("", unsure)
    assert await planned(0) == ("", "")
