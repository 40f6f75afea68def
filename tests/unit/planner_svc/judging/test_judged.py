"""Two planners and a judge: both are asked, and the likelier word stands, if it is likely enough."""

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from planner_svc.backends.compact.judging import Judge, JudgeError
from planner_svc.cascade import PAIR, CascadePolicy, Word
from planner_svc.judging.judge import SIGNS, Weigh, WordJudge, file_of
from planner_svc.judging.signs import calls_of, signs_of
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import Fault, PlanDraft
from planner_svc.service import PlannerService
from services.compute import ComputePool
from services.contracts.api import Api, Candidate
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import Plan
from services.contracts.planning import Decision, PlanRequest, PlanResponse, Policy
from services.encoder import PLANNER_MODEL, model_directory
from services.errors import DeadlineExceeded, Overloaded, ServiceUnavailable
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


def holding(rules: float, compact: float) -> Weigh:
    """A judge of a fixed opinion."""
    return lambda _, words: [0.0 if word is None else p for word, p in zip(words, (rules, compact), strict=True)]


def service(
    pool: ComputePool,
    rules: PlanDraft | Exception,
    compact: PlanDraft | Exception,
    weigh: Weigh | None = None,
    *others: Scripted,
    policy: CascadePolicy | None = None,
) -> PlannerService:
    backends = {one.name: one for one in (Scripted("rules", rules), Scripted("compact", compact), *others)}
    return PlannerService(
        backends,
        "judged",
        pool,
        backend_timeout_s=5,
        max_alternatives=2,
        metrics=PlannerMetrics(CollectorRegistry()),
        policy=policy,
        weigh=weigh,
    )


@pytest.mark.parametrize(
    ("weigh", "backend", "wanted", "sure"),
    [(holding(0.3, 0.6), "compact", GOOD, 0.6), (holding(0.7, 0.6), "rules", OTHER, 0.7)],
)
async def test_the_likelier_word_stands_with_what_the_judge_says(
    pool: ComputePool, weigh: Weigh, backend: str, wanted: Plan, sure: float
) -> None:
    response = await service(pool, PlanDraft(OTHER, 0.95), PlanDraft(GOOD, 0.2), weigh).plan(REQUEST)
    assert (response.backend, response.plan, response.confidence) == (backend, wanted, sure)
    assert [(one.backend, one.confidence, one.stood) for one in response.asked] == [
        ("rules", 0.95, backend == "rules"),
        ("compact", 0.2, backend == "compact"),
    ]
    assert [one.judged for one in response.asked] == weigh(REQUEST, [_word(OTHER), _word(GOOD)])


async def test_a_refusal_and_a_question_are_words_too(pool: ComputePool) -> None:
    nothing, asks = PlanDraft(None, 0.6, reason="Nothing fits."), PlanDraft(ASKS, 0.6)
    refused = await service(pool, PlanDraft(OTHER, 0.95), nothing, holding(0.3, 0.6)).plan(REQUEST)
    assert (refused.status, refused.reason, refused.confidence) == ("no_plan", "Nothing fits.", 0.6)
    asked = await service(pool, asks, nothing, holding(0.5, 0.2)).plan(REQUEST)
    assert (asked.status, asked.confidence) == ("needs_input", 0.5)
    assert [question.argument for question in asked.questions] == ["country"]


async def test_a_question_counts_for_less_than_a_plan(pool: ComputePool) -> None:
    response = await service(pool, PlanDraft(GOOD, 0.5), PlanDraft(ASKS, 0.9), holding(0.3, 0.5)).plan(REQUEST)
    assert (response.status, response.backend, response.confidence) == ("planned", "rules", 0.3)


async def test_both_are_asked_at_the_same_time(pool: ComputePool) -> None:
    both = asyncio.Barrier(2)

    class Waiting(Scripted):
        async def plan(self, request: PlanRequest) -> PlanDraft:
            await both.wait()
            return await super().plan(request)

    pair = {name: Waiting(name, PlanDraft(GOOD, 0.5)) for name in PAIR}
    metrics = PlannerMetrics(CollectorRegistry())
    asked = PlannerService(pair, "judged", pool, backend_timeout_s=5, max_alternatives=0, metrics=metrics)
    assert (await asked.plan(REQUEST)).plan == GOOD


@pytest.mark.parametrize("error", [Overloaded("full"), DeadlineExceeded("late")])
async def test_where_one_fails_the_other_ones_word_is_there(pool: ComputePool, error: Exception) -> None:
    response = await service(pool, error, PlanDraft(GOOD, 0.4), holding(0.9, 0.5)).plan(REQUEST)
    assert (response.backend, response.plan, response.confidence) == ("compact", GOOD, 0.5)
    assert [(one.outcome in ("busy", "late"), one.judged) for one in response.asked] == [(True, None), (False, 0.5)]
    with pytest.raises(type(error)):
        await service(pool, error, error).plan(REQUEST)


SURE = CascadePolicy(abstain_below=0.2, abstain_changes_below=0.5)


async def test_a_plan_that_is_not_likely_enough_is_told_of_so_that_one_may_insist(pool: ComputePool) -> None:
    asked = service(pool, PlanDraft(OTHER, 0.9), PlanDraft(GOOD, 0.9), holding(0.1, 0.15), policy=SURE)
    response = await asked.plan(REQUEST)
    assert (response.status, response.plan, response.compiled) == ("no_plan", None, None)
    assert response.confidence == pytest.approx(0.85)
    assert 'a t.find(name="Portugal"), then b t.holidays(country=a.code)' in response.reason
    assert "15%" in response.reason
    insisted = await asked.plan(REQUEST.model_copy(update={"backend": response.backend}))
    assert (insisted.status, insisted.plan) == ("planned", GOOD)
    judged = await asked.plan(REQUEST.model_copy(update={"backend": "judged"}))
    assert (judged.plan, judged.confidence) == (GOOD, 0.15)


async def test_a_change_must_be_likelier_than_a_read(pool: ComputePool) -> None:
    unsure = service(pool, PlanDraft(None), PlanDraft(CHANGE, 0.9), holding(0.1, 0.4), policy=SURE)
    assert (await unsure.plan(REQUEST)).status == "no_plan"
    sure = service(pool, PlanDraft(None), PlanDraft(CHANGE, 0.9), holding(0.1, 0.5), policy=SURE)
    assert (await sure.plan(REQUEST)).plan == CHANGE
    reads = service(pool, PlanDraft(None), PlanDraft(GOOD, 0.9), holding(0.1, 0.4), policy=SURE)
    assert (await reads.plan(REQUEST)).plan == GOOD


async def test_a_denied_change_is_not_replaced_where_it_is_what_was_meant(pool: ComputePool) -> None:
    denying = REQUEST.model_copy(update={"policy": Policy(mutating=Decision.DENY)})
    response = await service(pool, PlanDraft(CHANGE, 0.9), PlanDraft(OTHER, 0.9), holding(0.6, 0.3)).plan(denying)
    assert (response.status, response.backend) == ("no_plan", "rules")
    assert "denied" in response.reason or "policy" in response.reason


async def test_the_cascade_goes_round_the_pair_as_round_one_planner(pool: ComputePool) -> None:
    model = Scripted("served", PlanDraft(OTHER, 0.8))
    first = service(pool, PlanDraft(GOOD, 1), PlanDraft(GOOD, 1), holding(0.3, 0.4), model)
    assert first.backends().cascade == ("served", "judged")
    assert [one.backend for one in (await first.plan(REQUEST)).asked] == ["served"]
    dead = Scripted("served", PlanDraft(None, fault=Fault("down", "it is down", outage=True)))
    without = await service(pool, PlanDraft(GOOD, 1), PlanDraft(GOOD, 1), holding(0.3, 0.4), dead).plan(REQUEST)
    assert [(one.backend, one.stood) for one in without.asked] == [
        ("served", False),
        ("rules", False),
        ("compact", True),
    ]
    last = CascadePolicy("compact_first", escalate_below=0.5)
    unsure = await service(pool, PlanDraft(GOOD, 1), PlanDraft(GOOD, 1), holding(0.3, 0.4), model, policy=last).plan(
        REQUEST
    )
    assert (unsure.backend, unsure.plan) == ("served", OTHER)
    sure = await service(pool, PlanDraft(GOOD, 1), PlanDraft(GOOD, 1), holding(0.3, 0.6), model, policy=last).plan(
        REQUEST
    )
    assert [one.backend for one in sure.asked] == ["rules", "compact"]


async def test_what_was_demonstrated_goes_before_the_pair(pool: ComputePool) -> None:
    shown = REQUEST.model_copy(
        update={"demos": (SelectedDemo(demo=Demo(query="x", plan=OTHER), similarity=0.9, level="task"),)}
    )
    asked = service(pool, PlanDraft(GOOD), PlanDraft(GOOD), None, Scripted("demonstrated", PlanDraft(OTHER, 0.9)))
    assert [one.backend for one in (await asked.plan(shown)).asked] == ["demonstrated"]
    assert (asked.backends().default, asked.backends().cascade) == ("judged", ("demonstrated", "judged"))
    assert asked.backends().available == ("compact", "demonstrated", "judged", "rules")


async def test_apis_are_read_by_both(pool: ComputePool) -> None:
    pair = [Scripted("rules", PlanDraft(None)), Scripted("compact", PlanDraft(None), read=1)]
    metrics = PlannerMetrics(CollectorRegistry())
    backends = {one.name: one for one in pair}
    asked = PlannerService(backends, "judged", pool, backend_timeout_s=1, max_alternatives=0, metrics=metrics)
    assert (await asked.read([NEWS])).read == 1
    assert [one.known for one in pair] == [[NEWS], [NEWS]]


def test_without_the_pair_nothing_is_judged(pool: ComputePool) -> None:
    metrics = PlannerMetrics(CollectorRegistry())
    alone = {"rules": Scripted("rules", PlanDraft(None))}
    with pytest.raises(ValueError, match="'judged' is not among rules"):
        PlannerService(alone, "judged", pool, backend_timeout_s=1, max_alternatives=0, metrics=metrics)


async def test_a_judge_that_has_learnt_nothing_takes_them_at_their_word(pool: ComputePool, tmp_path: Path) -> None:
    weigh = WordJudge.load(tmp_path).weigh
    response = await service(pool, PlanDraft(OTHER, 0.5), PlanDraft(GOOD, 0.6), weigh).plan(REQUEST)
    assert (response.plan, response.confidence) == (GOOD, 0.6)
    down = ServiceUnavailable("down", service="x")
    with pytest.raises(ServiceUnavailable):
        await service(pool, down, down, weigh).plan(REQUEST)


def _word(proposed: Plan | None, sure: float = 0.5) -> Word:
    """As the service makes it, but for the proof."""
    response = PlanResponse(status="no_plan", backend="rules", confidence=sure)
    return Word(response, "no_plan" if proposed is None else "planned", plan=proposed, sure=sure)


def told(*words: Word | None, request: PlanRequest = REQUEST) -> dict[str, float]:
    return dict(zip(SIGNS, signs_of(request, words), strict=True))


def test_plans_are_the_same_whatever_their_steps_are_called_and_stand() -> None:
    one = plan(step("a", "find", name="x"), step("n", "news"), answer=None)
    two = plan(step("m", "news"), step("b", "find", name="x"), answer=None)
    assert calls_of(one) == calls_of(two) != calls_of(GOOD)
    assert (told(_word(one), _word(two))["same plan"], told(_word(one), _word(GOOD))["same plan"]) == (1, 0)
    shared = told(_word(one), _word(GOOD))
    assert shared["APIs in common"] == pytest.approx(1 / 3)
    assert shared["calls in common"] == 0
    assert told(_word(GOOD), _word(None))["same plan"] == 0


def test_a_step_twice_is_not_the_same_as_once() -> None:
    once, twice = plan(step("a", "news")), plan(step("a", "news"), step("b", "news"))
    signs = told(_word(once), _word(twice))
    assert (signs["same plan"], signs["same APIs"], signs["calls in common"]) == (0, 1, 0.5)


def test_words_that_nothing_accounts_for_speak_against_a_plan() -> None:
    signs = told(_word(GOOD), _word(OTHER))
    assert signs["rules words unaccounted for"] < signs["compact words unaccounted for"]
    said, changed = told(_word(GOOD), _word(CHANGE)), "calls that change something"
    assert (said[f"rules {changed}"], said[f"compact {changed}"]) == (0, 1)


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
    signs = told(_word(plan(step("p", "get_one", id="12"))), None, request=request)
    assert signs["rules words unaccounted for"] == share


@pytest.mark.parametrize("query", ["?", "x" * 20_000, "\ud800 \x00 ' \" \\", "9" * 5_000, "\u202e" * 50])
def test_signs_of_any_text_are_numbers(query: str) -> None:
    request = REQUEST.model_copy(update={"query": query})
    odd = plan(step("a", "find", name={"a": [query, None, True, 1e300]}), step("b", "nobody_knows"))
    for words in ([None, None], [_word(odd, 0.0), _word(None, 1.0)], [_word(odd), None]):
        signs = told(*words, request=request)
        assert all(abs(sign) < 1e6 for sign in signs.values())


def leaning(sign: str, *, low: float, high: float, base: float = 0.0) -> Judge:
    """One tree: log-odds ``low`` where the sign is 0, ``high`` where it is more."""
    trees = Trees(
        base=np.array(base, np.float32),
        feature=np.array([[SIGNS.index(sign), 0, 0]], np.int32),
        split=np.array([[0.5, 0, 0]], np.float32),
        children=np.array([[[1, 2], [1, 1], [2, 2]]], np.int32),
        value=np.array([[0, low, high]], np.float32),
        depth=np.array(1, np.int16),
    )
    return Judge(SIGNS, trees)


JUDGE = WordJudge({name: leaning("same plan", low=0, high=2, base=n) for n, name in enumerate(PAIR)})


def test_a_judge_is_kept_beside_the_model(tmp_path: Path) -> None:
    JUDGE.save(tmp_path)
    kept = WordJudge.load(tmp_path)
    assert kept.weigh(REQUEST, [_word(GOOD), _word(GOOD)]) == pytest.approx([0.881, 0.953], abs=1e-3)
    assert kept.weigh(REQUEST, [_word(GOOD), _word(OTHER)]) == pytest.approx([0.5, 0.731], abs=1e-3)
    assert kept.weigh(REQUEST, [None, _word(GOOD)])[0] == 0


@pytest.mark.parametrize("damage", ["gone", "text", "cut", "signs", "tree"])
def test_a_damaged_judge_is_refused(tmp_path: Path, damage: str) -> None:
    JUDGE.save(tmp_path)
    file = tmp_path / file_of("compact")
    whole = file.read_bytes()
    file.unlink()
    match damage:
        case "text":
            file.write_text("[1]")
        case "cut":
            file.write_bytes(whole[: len(whole) // 2])
        case "signs":
            dataclasses.replace(JUDGE.trees["compact"], signs=SIGNS[1:]).save(file)
        case "tree":
            judge = JUDGE.trees["compact"]
            far = dataclasses.replace(judge.trees, feature=judge.trees.feature + 1_000)
            dataclasses.replace(judge, trees=far).save(file)
    with pytest.raises(JudgeError, match=file.name):
        WordJudge.load(tmp_path)


async def test_a_judge_that_says_what_is_no_probability_harms_nobody(pool: ComputePool) -> None:
    response = await service(pool, PlanDraft(OTHER, 0.9), PlanDraft(GOOD, 0.9), holding(math.nan, 7.0)).plan(REQUEST)
    assert (response.plan, response.confidence) == (GOOD, 1.0)
    assert [one.judged for one in response.asked] == [0.0, 1.0]


def test_a_judge_ships_with_the_planner() -> None:
    assert WordJudge.load(model_directory(PLANNER_MODEL)).trees.keys() == set(PAIR)
