"""A planner's answer and its judge: how likely it is right, and what is too unlikely to be answered with."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from planner_svc.backends.compact.second_stage import Judge
from planner_svc.cascade import BackendAnswer, CascadePolicy
from planner_svc.judging.judge import AnswerJudge, Weigh
from planner_svc.judging.signs import SIGNS, signs_of
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import Fault, PlanDraft
from planner_svc.service import PlannerService
from services.compute import ComputePool, for_tenant
from services.contracts.api import Api
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import Plan
from services.contracts.planning import Decision, PlanRequest, PlanResponse, Policy
from services.contracts.retrieval import Candidate
from services.errors import LANGUAGE_MODEL, DeadlineExceeded, Overloaded, ServiceError, ServiceUnavailable
from services.trees import Trees
from tests.unit.planner_svc.building import api, param, plan, record, step

FIND = api("find", param("name"), returns=record(code={"type": "string"}))
HOLIDAYS = api("holidays", param("country", required=True))
NEWS = api("news")
BOOK = api("book", param("room"), method="POST")
REQUEST = PlanRequest(
    query="holidays in Portugal, please",
    candidates=tuple(Candidate(api=a, score=1, relevance=0.5) for a in (FIND, HOLIDAYS, NEWS, BOOK)),
    policy=Policy(mutating=Decision.ALLOW),
)
GOOD = plan(step("a", "find", name="Portugal"), step("b", "holidays", country="$a.code$"))
OTHER = plan(step("n", "news"))
ASKS = plan(step("b", "holidays"))
CHANGE = plan(step("c", "book", room="12"))


class Scripted:
    """A backend that drafts what it is told to; it reads as many APIs as it is told to."""

    def __init__(self, name: str, draft: PlanDraft | Exception, read: int = 0) -> None:
        self.name, self._draft, self._read = name, draft, read
        self.known: list[Api] = []

    async def read(self, apis: Sequence[Api]) -> int:
        self.known += apis
        return self._read

    async def plan(self, request: PlanRequest) -> PlanDraft:
        if isinstance(self._draft, Exception):
            raise self._draft
        return self._draft


def holding(likely: float) -> Weigh:
    """A judge of a fixed opinion."""
    return lambda _, answer: likely


def service(
    pool: ComputePool,
    draft: PlanDraft | Exception,
    weigh: Weigh | None = None,
    *others: Scripted,
    policy: CascadePolicy | None = None,
    of_model: Weigh | None = None,
) -> PlannerService:
    return PlannerService(
        {one.name: one for one in (Scripted("compact", draft), *others)},
        "compact",
        pool,
        backend_timeout_s=5,
        metrics=PlannerMetrics(CollectorRegistry()),
        policy=policy,
        weigh={name: one for name, one in (("compact", weigh), ("served", of_model)) if one is not None},
    )


@pytest.mark.parametrize("backend", [None, "compact"])
async def test_a_word_is_as_likely_right_as_the_judge_says(pool: ComputePool, backend: str | None) -> None:
    asked = service(pool, PlanDraft(GOOD, 0.95), holding(0.3))
    response = await asked.plan(REQUEST.model_copy(update={"backend": backend}))
    assert (response.plan, response.confidence) == (GOOD, 0.3)
    assert [(one.backend, one.confidence, one.judged, one.stood) for one in response.asked] == [
        ("compact", 0.95, 0.3, True)
    ]


async def test_a_refusal_and_a_question_are_words_too(pool: ComputePool) -> None:
    refused = await service(pool, PlanDraft(None, 0.9, reason="Nothing fits."), holding(0.6)).plan(REQUEST)
    assert (refused.status, refused.reason, refused.confidence) == ("no_plan", "Nothing fits.", 0.6)
    asked = await service(pool, PlanDraft(ASKS, 0.6), holding(0.5)).plan(REQUEST)
    assert (asked.status, asked.confidence) == ("needs_input", 0.5)
    assert [question.argument for question in asked.questions] == ["country"]


@pytest.mark.parametrize("error", [Overloaded("full"), DeadlineExceeded("late")])
async def test_who_fails_has_no_word_to_judge(pool: ComputePool, error: Exception) -> None:
    with pytest.raises(type(error)):
        await service(pool, error, holding(0.9)).plan(REQUEST)


async def test_a_judge_that_gets_no_turn_is_a_planner_that_gets_none(pool: ComputePool) -> None:
    def full(*_: object) -> float:
        raise Overloaded("full")

    model = Scripted("served", PlanDraft(OTHER, 0.8))
    policy = CascadePolicy("compact_first")
    response = await service(pool, PlanDraft(GOOD, 0.9), full, model, policy=policy).plan(REQUEST)
    assert [(one.backend, one.outcome) for one in response.asked] == [("compact", "busy"), ("served", "planned")]


SURE = CascadePolicy(abstain_below=0.2, abstain_changes_below=0.5)


async def test_a_plan_that_is_not_likely_enough_is_told_of_so_that_one_may_insist(pool: ComputePool) -> None:
    asked = service(pool, PlanDraft(GOOD, 0.9), holding(0.15), policy=SURE)
    response = await asked.plan(REQUEST)
    assert (response.status, response.plan, response.compiled) == ("no_plan", None, None)
    assert response.confidence == pytest.approx(0.85)
    assert 'a t.find(name="Portugal"), then b t.holidays(country=a.code)' in response.reason
    assert "15%" in response.reason
    insisted = await asked.plan(REQUEST.model_copy(update={"backend": response.backend}))
    assert (insisted.status, insisted.plan, insisted.confidence) == ("planned", GOOD, 0.15)


async def test_a_change_must_be_likelier_than_a_read(pool: ComputePool) -> None:
    unsure = service(pool, PlanDraft(CHANGE, 0.9), holding(0.4), policy=SURE)
    assert (await unsure.plan(REQUEST)).status == "no_plan"
    sure = service(pool, PlanDraft(CHANGE, 0.9), holding(0.5), policy=SURE)
    assert (await sure.plan(REQUEST)).plan == CHANGE
    reads = service(pool, PlanDraft(GOOD, 0.9), holding(0.4), policy=SURE)
    assert (await reads.plan(REQUEST)).plan == GOOD


async def test_a_denied_change_is_told_of(pool: ComputePool) -> None:
    denying = REQUEST.model_copy(update={"policy": Policy(mutating=Decision.DENY)})
    response = await service(pool, PlanDraft(CHANGE, 0.9), holding(0.6)).plan(denying)
    assert response.status == "no_plan"
    assert "denied" in response.reason or "policy" in response.reason


async def test_a_language_models_word_is_not_judged_by_the_judge_of_another(pool: ComputePool) -> None:
    model = Scripted("served", PlanDraft(OTHER, 0.8))
    first = service(pool, PlanDraft(GOOD, 1), holding(0.4), model)
    assert first.backends().cascade == ("served", "compact")
    response = await first.plan(REQUEST)
    assert response.confidence == 0.8
    assert [(one.backend, one.judged) for one in response.asked] == [("served", None)]
    dead = Scripted("served", PlanDraft(None, fault=Fault("down", "it is down", outage=True)))
    without = await service(pool, PlanDraft(GOOD, 1), holding(0.4), dead).plan(REQUEST)
    assert [(one.backend, one.stood) for one in without.asked] == [("served", False), ("compact", True)]


@pytest.mark.parametrize(("kind", "error"), [("busy", Overloaded), ("down", ServiceUnavailable)])
async def test_an_outage_of_the_only_model_that_was_asked_names_it(
    pool: ComputePool, kind: Literal["busy", "down"], error: type[ServiceError]
) -> None:
    model = Scripted("served", PlanDraft(None, fault=Fault(kind, "no answer", outage=True)))
    asking = service(pool, PlanDraft(GOOD, 1), holding(0.4), model)
    with pytest.raises(error) as caught:
        await asking.plan(REQUEST.model_copy(update={"backend": "served"}))
    assert caught.value.extensions == {"service": LANGUAGE_MODEL}


async def test_the_judge_says_whether_a_language_model_is_asked(pool: ComputePool) -> None:
    model = Scripted("served", PlanDraft(OTHER, 0.8))
    policy = CascadePolicy("compact_first", escalate_below=0.5)
    unsure = await service(pool, PlanDraft(GOOD, 1), holding(0.4), model, policy=policy).plan(REQUEST)
    assert (unsure.backend, unsure.plan) == ("served", OTHER)
    sure = await service(pool, PlanDraft(GOOD, 0.1), holding(0.6), model, policy=policy).plan(REQUEST)
    assert [one.backend for one in sure.asked] == ["compact"]


_REFUSES, _ASKS = PlanDraft(None, 0.9, reason="The model says that nothing fits."), PlanDraft(ASKS, 0.8)
_MODELS = PlanDraft(OTHER, 0.8)


@pytest.mark.parametrize(
    ("likely", "drafted", "of_compact", "asked", "stands"),
    [
        (0.5, _MODELS, 0.9, ["served"], "served"),
        (0.3, _MODELS, 0.4, ["served", "compact"], "compact"),
        (0.3, _MODELS, 0.2, ["served", "compact"], "served"),
        (0.5, _REFUSES, 0.9, ["served"], "served"),
        (0.3, _REFUSES, 0.4, ["served", "compact"], "compact"),
        (0.3, _ASKS, 0.4, ["served", "compact"], "compact"),
        (0.3, _ASKS, 0.2, ["served", "compact"], "served"),
    ],
)
async def test_a_model_asked_first_is_followed_where_its_word_is_unlikely(
    pool: ComputePool, likely: float, drafted: PlanDraft, of_compact: float, asked: list[str], stands: str
) -> None:
    policy = CascadePolicy("model_first", escalate_below=0.5, unsure_below=0.5)
    model = Scripted("served", drafted)
    judged = service(pool, PlanDraft(GOOD, 1), holding(of_compact), model, policy=policy, of_model=holding(likely))
    response = await judged.plan(REQUEST)
    assert [one.backend for one in response.asked] == asked
    assert (response.backend, [one.backend for one in response.asked if one.stood]) == (stands, [stands])
    assert response.confidence == (likely if stands == "served" else of_compact)
    assert (response.asked[0].confidence, response.asked[0].judged) == (drafted.confidence, likely)
    assert bool(response.unsure) == (response.status == "planned" and response.confidence < 0.5)


@pytest.mark.parametrize(
    ("of_compact", "first", "likely", "drafted", "stands"),
    [
        (0.4, PlanDraft(GOOD, 1), 0.7, _MODELS, "served"),
        (0.4, PlanDraft(GOOD, 1), 0.45, _MODELS, "served"),
        (0.4, PlanDraft(GOOD, 1), 0.3, _MODELS, "compact"),
        (0.4, PlanDraft(GOOD, 1), 0.3, _REFUSES, "compact"),
        (0.4, PlanDraft(ASKS, 1), 0.3, _MODELS, "compact"),
        (0.7, PlanDraft(None, 0.9), 0.3, _MODELS, "compact"),
        (0.2, PlanDraft(None, 0.9), 0.3, _MODELS, "served"),
    ],
)
async def test_a_model_asked_second_is_followed_where_its_word_is_likelier(
    pool: ComputePool, of_compact: float, first: PlanDraft, likely: float, drafted: PlanDraft, stands: str
) -> None:
    policy = CascadePolicy("compact_first", escalate_below=0.5)
    model = Scripted("served", drafted)
    judged = service(pool, first, holding(of_compact), model, policy=policy, of_model=holding(likely))
    response = await judged.plan(REQUEST)
    assert [(one.backend, one.judged) for one in response.asked] == [("compact", of_compact), ("served", likely)]
    assert (response.backend, response.confidence) == (stands, likely if stands == "served" else of_compact)


async def test_a_plan_of_a_model_that_is_not_likely_enough_is_withheld(pool: ComputePool) -> None:
    model = Scripted("served", _MODELS)
    judged = service(pool, PlanDraft(None, 0.9), holding(0.05), model, policy=SURE, of_model=holding(0.1))
    response = await judged.plan(REQUEST)
    assert (response.status, response.backend) == ("no_plan", "served")
    assert "10%" in response.reason


@pytest.mark.parametrize(
    ("drafted", "outcome", "stands"),
    [
        (PlanDraft(None, fault=Fault("down", "it is down", outage=True)), "down", "compact"),
        (PlanDraft(None, 0.8, needs=("paint a house",)), "needs", "served"),
    ],
)
async def test_what_answers_nothing_is_not_judged(
    pool: ComputePool, drafted: PlanDraft, outcome: str, stands: str
) -> None:
    policy = CascadePolicy("model_first", escalate_below=0.5)
    model = Scripted("served", drafted)
    judged = service(pool, PlanDraft(GOOD, 1), holding(0.9), model, policy=policy, of_model=holding(0.1))
    response = await judged.plan(REQUEST)
    assert (response.asked[0].outcome, response.asked[0].judged, response.backend) == (outcome, None, stands)


async def test_what_was_demonstrated_is_not_judged(pool: ComputePool) -> None:
    shown = REQUEST.model_copy(
        update={"demos": (SelectedDemo(demo=Demo(query="x", plan=OTHER), similarity=0.9, level="task"),)}
    )
    asked = service(pool, PlanDraft(GOOD), holding(0.1), Scripted("demonstrated", PlanDraft(OTHER, 0.9)))
    response = await asked.plan(shown)
    assert [(one.backend, one.judged) for one in response.asked] == [("demonstrated", None)]
    assert response.confidence == 0.9
    assert (asked.backends().default, asked.backends().cascade) == ("compact", ("demonstrated", "compact"))


async def test_apis_are_read_by_the_default_planner(pool: ComputePool) -> None:
    reader, other = Scripted("compact", PlanDraft(None), read=1), Scripted("demonstrated", PlanDraft(None))
    backends = {one.name: one for one in (reader, other)}
    metrics = PlannerMetrics(CollectorRegistry())
    asked = PlannerService(backends, "compact", pool, backend_timeout_s=1, metrics=metrics)
    assert (await asked.read([NEWS])).read == 1
    assert (reader.known, other.known) == ([NEWS], [])


async def test_apis_are_read_for_the_tenant_they_are_of(pool: ComputePool, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Scripted("compact", PlanDraft(None))
    heard: list[tuple[str, str]] = []

    async def read(apis: Sequence[Api]) -> int:
        heard.extend((api.id, for_tenant.get()) for api in apis)
        if any(api.tenants == ("red",) for api in apis):
            raise DeadlineExceeded("It takes more than 3 s of processor time.")
        return len(apis)

    monkeypatch.setattr(backend, "read", read)
    metrics = PlannerMetrics(CollectorRegistry())
    asked = PlannerService({"compact": backend}, "compact", pool, backend_timeout_s=1, metrics=metrics)
    red, blue = (NEWS.model_copy(update={"id": f"x.{name}", "tenants": (name,)}) for name in ("red", "blue"))
    assert (await asked.read([red, blue, NEWS])).read == 2
    assert heard == [("x.red", "red"), ("x.blue", "blue"), (NEWS.id, "")]
    assert for_tenant.get() == ""
    with pytest.raises(DeadlineExceeded):
        await asked.read([red])


async def test_without_a_judge_a_planner_is_taken_at_its_word(pool: ComputePool, tmp_path: Path) -> None:
    assert AnswerJudge.load(tmp_path) is None
    response = await service(pool, PlanDraft(GOOD, 0.6)).plan(REQUEST)
    assert (response.plan, response.confidence) == (GOOD, 0.6)
    assert response.asked[0].judged is None


def answer_of(proposed: Plan | None, sure: float = 0.5) -> BackendAnswer:
    """As the service makes it, but for the proof."""
    response = PlanResponse(status="no_plan", backend="compact", confidence=sure)
    return BackendAnswer(response, "no_plan" if proposed is None else "planned", plan=proposed, own_confidence=sure)


def named_signs(answer: BackendAnswer, request: PlanRequest = REQUEST) -> dict[str, float]:
    return dict(zip(SIGNS, signs_of(request, answer), strict=True))


def test_words_that_nothing_accounts_for_speak_against_a_plan() -> None:
    unaccounted, changed = "words unaccounted for", "calls that change something"
    assert named_signs(answer_of(GOOD))[unaccounted] < named_signs(answer_of(OTHER))[unaccounted]
    assert (named_signs(answer_of(GOOD))[changed], named_signs(answer_of(CHANGE))[changed]) == (0, 1)


ALLERGIES = {"type": "array", "items": record(substance={"type": "string", "description": "What to avoid."})}


@pytest.mark.parametrize(
    ("query", "share"),
    [
        ("allergies of 12", 0.0),  # a field
        ("substances of 12", 0.0),  # a field in a list in it
        ("what should 12 avoid?", 0.0),  # the description of that
        ("charts of 12", 0.0),  # the path
        ("the beds of 12", 0.5),
    ],
)
def test_answers_account_for_words(query: str, share: float) -> None:
    patient = api("get_one", param("id"), path="/charts/{id}", returns=record(allergies=ALLERGIES))
    candidates = (Candidate(api=patient, score=1),)
    request = REQUEST.model_copy(update={"query": query, "candidates": candidates})
    signs = named_signs(answer_of(plan(step("p", "get_one", id="12"))), request)
    assert signs["words unaccounted for"] == share


def test_what_is_said_and_left_out_speaks_against_a_plan() -> None:
    status = param("state", {"type": "string", "enum": ["open", "closed"]})
    tickets = api("list_tickets", status, param("assignee"), path="/tickets")
    candidates = (Candidate(api=tickets, score=1),)
    request = REQUEST.model_copy(update={"query": "open tickets, assignee Ada", "candidates": candidates})
    named, option, unaccounted = SIGNS[-3:]
    whole = named_signs(answer_of(plan(step("t", "list_tickets", state="open", assignee="Ada"))), request)
    assert (whole[named], whole[option], whole[unaccounted]) == (0, 0, 0)
    every = named_signs(answer_of(plan(step("t", "list_tickets"))), request)
    assert every[named] == every[option] == pytest.approx(math.log(2))
    assert (every["words unaccounted for"], every[unaccounted]) == (0.5, 0.75)


@pytest.mark.parametrize("query", ["?", "x" * 20_000, "\ud800 \x00 ' \" \\", "9" * 5_000, "\u202e" * 50])
def test_signs_of_any_text_are_numbers(query: str) -> None:
    request = REQUEST.model_copy(update={"query": query})
    odd = plan(step("a", "find", name={"a": [query, None, True, 1e300]}), step("b", "nobody_knows"))
    for answer in (answer_of(odd, 0.0), answer_of(None, 1.0), answer_of(odd)):
        assert all(abs(sign) < 1e6 for sign in named_signs(answer, request).values())


def leaning(sign: str, *, low: float, high: float) -> Judge:
    """One tree: log-odds ``low`` where the sign is 0, ``high`` where it is more."""
    trees = Trees(
        base=np.array(0, np.float32),
        feature=np.array([[SIGNS.index(sign), 0, 0]], np.int32),
        split=np.array([[0.5, 0, 0]], np.float32),
        children=np.array([[[1, 2], [1, 1], [2, 2]]], np.int32),
        value=np.array([[0, low, high]], np.float32),
        depth=np.array(1, np.int16),
    )
    return Judge(SIGNS, trees)


@pytest.mark.parametrize(("said", "meant"), [(math.nan, 0.0), (7.0, 1.0), (-1.0, 0.0)])
async def test_a_judge_that_says_what_is_no_probability_harms_nobody(
    pool: ComputePool, said: float, meant: float
) -> None:
    response = await service(pool, PlanDraft(GOOD, 0.9), holding(said)).plan(REQUEST)
    assert (response.plan, response.confidence, response.asked[0].judged) == (GOOD, meant, meant)
