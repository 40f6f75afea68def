"""Draft, prove, repair: the service's rules, with backends whose drafts the test writes."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from planner_svc.cascade import CascadePolicy
from planner_svc.main import create_app
from planner_svc.metrics import PlannerMetrics
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.service import PlannerService
from planner_svc.settings import PlannerSettings
from services.clients.base import open_http
from services.clients.planner import PlannerClient
from services.clients.transport import InProcessTransport
from services.compute import ComputePool, for_tenant
from services.contracts.api import Api, SecretKind, SecurityRequirement
from services.contracts.context import Context
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.plan import ObjectValue, Plan
from services.contracts.planning import CompileRequest, Decision, DiagnosticCode, PlanRequest, Policy, PolicyRule
from services.contracts.retrieval import Candidate
from services.errors import DeadlineExceeded, NotReady, Overloaded, ServiceUnavailable, ValidationFailed
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, plan, record, step

FIND = api("find", param("name"), returns=record(code={"type": "string"}))
HOLIDAYS = api("holidays", param("country", required=True), param("year", WHOLE))
NEWS = api("news")
REQUEST = PlanRequest(query="holidays?", candidates=tuple(Candidate(api=a, score=1) for a in (FIND, HOLIDAYS, NEWS)))
GOOD = plan(step("a", "find", name="Portugal"), step("b", "holidays", country="$a.code$"))
ASKS = plan(step("b", "holidays"))
WRONG = plan(step("b", "holidays", country="$a.code$"))


class Scripted:
    """A backend that answers what it is told to, after a while."""

    name = "scripted"

    def __init__(self, draft: PlanDraft | Exception, delay_s: float = 0) -> None:
        self._draft = draft
        self._delay_s = delay_s

    async def read(self, apis: Sequence[Api]) -> int:
        """There is nothing to get ready."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        await asyncio.sleep(self._delay_s)
        if isinstance(self._draft, Exception):
            raise self._draft
        return self._draft


def service(pool: ComputePool, draft: PlanDraft | Exception, delay_s: float = 0, **more: Any) -> PlannerService:
    metrics = PlannerMetrics(CollectorRegistry())
    backends = {"scripted": Scripted(draft, delay_s)} | more.pop("others", {})
    limit_s = 0.2 if delay_s else 20  # a busy machine is no slow backend
    return PlannerService(backends, "scripted", pool, backend_timeout_s=limit_s, metrics=metrics, **more)


async def test_a_draft_that_compiles_is_planned(pool: ComputePool) -> None:
    response = await service(pool, PlanDraft(GOOD, confidence=0.9)).plan(REQUEST)
    assert (response.status, response.confidence, response.backend) == ("planned", 0.9, "scripted")
    assert response.compiled is not None
    assert response.plan == response.compiled.plan == GOOD


LOCKED = api("locked", security=((SecurityRequirement(scheme="k", kind=SecretKind.API_KEY, secret="t.k"),),))
CALLS_LOCKED = plan(step("a", "locked"))


@pytest.mark.parametrize(("credentials", "missing"), [((), ("t.k",)), (("t.k",), ())])
async def test_a_plan_says_which_keys_are_missing(
    pool: ComputePool, credentials: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    candidates = (*REQUEST.candidates, Candidate(api=LOCKED, score=1))
    request = REQUEST.model_copy(update={"candidates": candidates, "credentials": credentials})
    response = await service(pool, PlanDraft(CALLS_LOCKED, confidence=0.9)).plan(request)
    assert (response.status, response.plan) == ("planned", CALLS_LOCKED)
    assert response.compiled is not None
    assert response.compiled.proof.missing == missing


async def test_a_draft_that_does_not_compile_is_refused_with_its_first_error(pool: ComputePool) -> None:
    response = await service(pool, PlanDraft(WRONG)).plan(REQUEST)
    assert response.status == "no_plan"
    assert response.plan is None
    assert response.diagnostics[0].code is DiagnosticCode.UNKNOWN_STEP
    assert "step 'b', country" in response.reason


async def test_missing_input_is_asked_for_in_the_backends_words(pool: ComputePool) -> None:
    hint = MissingValue("b", "country", "For which country?")
    response = await service(pool, PlanDraft(ASKS, confidence=0.7, missing=(hint,))).plan(REQUEST)
    assert response.status == "needs_input"
    assert response.plan is None
    assert response.compiled is None
    assert [question.text for question in response.questions] == ["For which country?"]


async def test_a_change_that_is_denied_is_refused(pool: ComputePool) -> None:
    save, other = api("save", param("x", required=True), method="POST"), api("note", method="POST")
    candidates = tuple(Candidate(api=a, score=1) for a in (save, other, NEWS))
    rule = PolicyRule(decision=Decision.DENY, api="t.save")
    request = REQUEST.model_copy(update={"candidates": candidates, "policy": Policy(rules=(rule,))})
    for best in (plan(step("s", "save", x="1")), plan(step("s", "save"))):
        response = await service(pool, PlanDraft(best)).plan(request)
        assert response.status == "no_plan"
        assert "the policy does not allow calls of t.save" in response.reason


NOTE = api("note", param("about", required=True), param("text"), method="POST", summary="Write a note")
NOTED = PlanRequest(query='note "call back" about Portugal', candidates=(Candidate(api=NOTE, score=1),))


async def test_a_change_that_leaves_out_what_was_said_is_not_offered(pool: ComputePool) -> None:
    bare, whole = plan(step("n", "note", about="Portugal")), plan(step("n", "note", about="Portugal", text="call back"))
    response = await service(pool, PlanDraft(bare, confidence=0.9)).plan(NOTED)
    assert (response.status, response.plan, response.compiled) == ("needs_input", None, None)
    assert [question.argument for question in response.questions] == ["text"]
    assert "would not use" in response.reason
    better = await service(pool, PlanDraft(whole, confidence=0.9)).plan(NOTED)
    assert (better.status, better.plan) == ("planned", whole)
    said = NOTED.model_copy(update={"context": Context(values={"text": None})})
    assert (await service(pool, PlanDraft(bare)).plan(said)).status == "planned"


async def test_a_question_about_a_place_inside_an_object_can_be_answered(pool: ComputePool) -> None:
    send = api("send", param("note", {**record(text=TEXT), "required": ["text"]}, required=True), method="POST")
    request = PlanRequest(query="send a note", candidates=(Candidate(api=send, score=1),))
    draft = PlanDraft(plan(step("s", "send", note=ObjectValue(fields={}))))
    response = await service(pool, draft).plan(request)
    assert (response.status, [question.argument for question in response.questions]) == ("needs_input", ["note.text"])
    answered = request.model_copy(update={"context": Context(values={"note.text": "hello"})})
    planned = await service(pool, draft).plan(answered)
    assert planned.plan == plan(step("s", "send", note={"text": "hello"}))


async def test_order_and_literal_types_are_repaired(pool: ComputePool) -> None:
    crooked = plan(
        step("b", "holidays", country="$a.code$", year="2027"), step("a", "find", name="Portugal"), answer="$b$"
    )
    response = await service(pool, PlanDraft(crooked)).plan(REQUEST)
    assert response.plan is not None
    assert [s.id for s in response.plan.steps] == ["a", "b"]
    assert response.plan.steps[1].arguments["year"].value == 2027  # type: ignore[union-attr]


async def test_a_text_that_is_only_warned_of_is_left_alone(pool: ComputePool) -> None:
    subject = plan(step("a", "find", name="x"), step("b", "holidays", country="in $a.code$ now", year="2027"))
    response = await service(pool, PlanDraft(subject)).plan(REQUEST)
    assert response.plan is not None
    assert response.plan.steps[1].arguments["country"] == subject.steps[1].arguments["country"]


@pytest.mark.parametrize(("confidence", "unsure"), [(0.49, True), (0.5, False)])
async def test_an_unlikely_plan_says_so_and_what_it_calls(pool: ComputePool, confidence: float, unsure: bool) -> None:
    response = await service(pool, PlanDraft(GOOD, confidence), policy=CascadePolicy(unsure_below=0.5)).plan(REQUEST)
    assert response.status == "planned"
    assert ("49%" in response.unsure and GOOD.steps[0].api in response.unsure) if unsure else response.unsure == ""


async def test_a_limit_that_a_plan_is_just_below_is_not_said_to_be_reached(pool: ComputePool) -> None:
    policy = CascadePolicy.of(PlannerSettings(unsure_below=0.65))
    assert "only 64% sure" in (await service(pool, PlanDraft(GOOD, 0.6499), policy=policy).plan(REQUEST)).unsure


async def test_abstaining_is_an_answer(pool: ComputePool) -> None:
    response = await service(pool, PlanDraft(None, confidence=0.8, reason="No API for that.")).plan(REQUEST)
    assert (response.status, response.reason, response.confidence) == ("no_plan", "No API for that.", 0.8)


@pytest.mark.parametrize(("claimed", "kept"), [(7.0, 1.0), (-1.0, 0.0), (float("nan"), 0.0)])
async def test_a_backend_is_not_trusted_with_probabilities(pool: ComputePool, claimed: float, kept: float) -> None:
    assert (await service(pool, PlanDraft(GOOD, confidence=claimed)).plan(REQUEST)).confidence == kept


async def test_a_slow_backend_is_a_clear_problem(pool: ComputePool) -> None:
    with pytest.raises(DeadlineExceeded, match="scripted"):
        await service(pool, PlanDraft(GOOD), delay_s=5).plan(REQUEST)


async def test_a_backends_error_is_passed_on(pool: ComputePool) -> None:
    with pytest.raises(ServiceUnavailable, match="model server"):
        await service(pool, ServiceUnavailable("the model server is down", service="model")).plan(REQUEST)


async def test_an_unknown_backend_is_refused(pool: ComputePool) -> None:
    with pytest.raises(ValidationFailed, match="there is scripted"):
        await service(pool, PlanDraft(GOOD)).plan(REQUEST.model_copy(update={"backend": "served"}))
    with pytest.raises(ValueError, match="default"):
        PlannerService({}, "compact", pool, backend_timeout_s=1, metrics=None)  # type: ignore[arg-type]


async def test_two_different_apis_of_one_id_are_refused(pool: ComputePool) -> None:
    other = FIND.model_copy(update={"summary": "another"})
    with pytest.raises(ValidationFailed, match=r"t\.find"):
        await service(pool, PlanDraft(GOOD)).compile(CompileRequest(plan=GOOD, apis=(FIND, other)))
    same = await service(pool, PlanDraft(GOOD)).compile(CompileRequest(plan=GOOD, apis=(FIND, FIND, HOLIDAYS)))
    assert same.compiled is not None


UNSURE = CascadePolicy(escalate_to="other", escalate_below=0.5)
OTHER = plan(step("n", "news"))


@pytest.mark.parametrize(
    ("found", "unsure"),
    [(plan(step("a", "find", name="Portugal")), ""), (plan(step("a", "find")), "does not use “Portugal”")],
)
async def test_a_read_that_leaves_a_value_out_is_unsure(pool: ComputePool, found: Plan, unsure: str) -> None:
    request = REQUEST.model_copy(update={"query": 'What is the code of "Portugal"?'})
    response = await service(pool, PlanDraft(found, 0.9), policy=CascadePolicy(unsure_below=0.5)).plan(request)
    assert response.status == "planned"
    assert (unsure in response.unsure) if unsure else response.unsure == ""


async def test_an_unlikely_read_that_leaves_a_value_out_says_both(pool: ComputePool) -> None:
    request = REQUEST.model_copy(update={"query": 'What is the code of "Portugal"?'})
    found = PlanDraft(plan(step("a", "find")), 0.4)
    response = await service(pool, found, policy=CascadePolicy(unsure_below=0.5)).plan(request)
    assert "only 40% sure of this, it does not use “Portugal”: " in response.unsure


@pytest.mark.parametrize(
    ("query", "unsure", "forbidden"),
    [
        ("Cancel order 5", "", False),
        ("Cancel order 5 but do not cancel it", "the request also says “do not cancel it”: t.cancelOrder(", True),
        ("Cancel order 5 but not my subscription", "whether it keeps to “not my subscription”: t.cancelOrder(", False),
    ],
)
async def test_a_change_that_the_request_forbids_or_restricts_is_unsure(
    pool: ComputePool, query: str, unsure: str, forbidden: bool
) -> None:
    cancel = api("cancelOrder", param("order", WHOLE), method="POST", path="/orders", summary="Cancel an order")
    asked = REQUEST.model_copy(update={"query": query, "candidates": (Candidate(api=cancel, score=1),)})
    draft = PlanDraft(plan(step("a", "cancelOrder", order=5)), 0.9)
    planner = service(pool, draft, policy=CascadePolicy(unsure_below=0.5))
    response = await planner.plan(asked)
    assert response.status == "planned"
    assert (unsure in response.unsure) if unsure else response.unsure == ""
    in_advance = await planner.plan(asked.model_copy(update={"policy": Policy(mutating=Decision.ALLOW)}))
    assert in_advance.status == ("no_plan" if forbidden else "planned")  # nobody would see the remark in time
    assert ("“do not cancel it”" in in_advance.reason) is forbidden


async def test_a_change_that_there_was_no_time_to_check_is_unsure(
    pool: ComputePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_asked: object) -> str:
        raise Overloaded("busy")

    monkeypatch.setattr("planner_svc.service.forbidden_change", busy)
    cancel = api("cancelOrder", param("order", WHOLE), method="POST", path="/orders", summary="Cancel an order")
    asked = REQUEST.model_copy(update={"query": "Cancel order 5", "candidates": (Candidate(api=cancel, score=1),)})
    policy = CascadePolicy(unsure_below=0.5)
    response = await service(pool, PlanDraft(plan(step("a", "cancelOrder", order=5)), 0.9), policy=policy).plan(asked)
    assert "no time" in response.unsure
    assert (await service(pool, PlanDraft(GOOD, 0.9), policy=policy).plan(REQUEST)).unsure == ""


async def test_an_unsure_answer_gives_way_to_the_plan_of_another_backend(pool: ComputePool) -> None:
    others = {"other": Scripted(PlanDraft(OTHER, confidence=0.6))}
    unsure = await service(pool, PlanDraft(GOOD, confidence=0.4), others=others, policy=UNSURE).plan(REQUEST)
    assert (unsure.backend, unsure.plan, unsure.confidence) == ("other", OTHER, 0.6)
    sure = await service(pool, PlanDraft(GOOD, confidence=0.5), others=others, policy=UNSURE).plan(REQUEST)
    assert (sure.backend, sure.plan) == ("scripted", GOOD)


async def test_of_two_plans_the_surer_one_stands(pool: ComputePool) -> None:
    others = {"other": Scripted(PlanDraft(OTHER, confidence=0.3))}
    response = await service(pool, PlanDraft(GOOD, confidence=0.4), others=others, policy=UNSURE).plan(REQUEST)
    assert (response.backend, response.plan, response.confidence) == ("scripted", GOOD, 0.4)
    assert [(one.backend, one.stood) for one in response.asked] == [("scripted", True), ("other", False)]


@pytest.mark.parametrize("draft", [PlanDraft(None), ServiceUnavailable("down", service="llm"), Overloaded("busy")])
async def test_an_unsure_answer_stands_where_the_other_backend_has_none(
    pool: ComputePool, draft: PlanDraft | Exception
) -> None:
    asked = service(pool, PlanDraft(GOOD, confidence=0.4), others={"other": Scripted(draft)}, policy=UNSURE)
    assert (await asked.plan(REQUEST)).plan == GOOD


@pytest.mark.parametrize(
    ("draft", "status"), [(PlanDraft(OTHER, confidence=0.1), "planned"), (PlanDraft(None), "no_plan")]
)
async def test_where_there_is_no_plan_the_other_backend_answers(
    pool: ComputePool, draft: PlanDraft, status: str
) -> None:
    asked = service(pool, PlanDraft(None, 0.99), others={"other": Scripted(draft)}, policy=UNSURE)
    response = await asked.plan(REQUEST)
    assert (response.backend, response.status) == ("other", status)


async def test_who_names_a_backend_gets_its_answer(pool: ComputePool) -> None:
    others = {"other": Scripted(PlanDraft(OTHER, confidence=0.6))}
    asked = service(pool, PlanDraft(GOOD, confidence=0.1), others=others, policy=UNSURE)
    assert (await asked.plan(REQUEST.model_copy(update={"backend": "scripted"}))).plan == GOOD


async def test_a_plan_that_nobody_is_sure_of_is_not_answered_with(pool: ComputePool) -> None:
    asked = service(pool, PlanDraft(GOOD, confidence=0.1), policy=CascadePolicy(abstain_below=0.2))
    response = await asked.plan(REQUEST)
    assert (response.status, response.plan, response.confidence) == ("no_plan", None, 0.9)
    assert "10%" in response.reason


SHOWN = REQUEST.model_copy(
    update={"demos": (SelectedDemo(demo=Demo(query="x", plan=OTHER), similarity=0.9, level="task"),)}
)


def demonstrating(pool: ComputePool, draft: PlanDraft | Exception, own: PlanDraft | Exception) -> PlannerService:
    others = {"demonstrated": Scripted(draft)}
    return service(pool, own, others=others, policy=CascadePolicy(escalate_below=0.99, abstain_below=0.2))


async def test_what_was_demonstrated_goes_before_all_others(pool: ComputePool) -> None:
    asked = demonstrating(pool, PlanDraft(OTHER, 0.9), PlanDraft(GOOD, 1.0))
    response = await asked.plan(SHOWN)
    assert (response.backend, response.plan) == ("demonstrated", OTHER)
    assert [one.backend for one in response.asked] == ["demonstrated"]
    assert asked.backends().cascade == ("demonstrated", "scripted")
    assert asked.backends().default == "scripted"


async def test_without_demonstrations_nobody_is_asked_for_them(pool: ComputePool) -> None:
    response = await demonstrating(pool, PlanDraft(OTHER, 0.9), PlanDraft(GOOD, 1.0)).plan(REQUEST)
    assert [one.backend for one in response.asked] == ["scripted"]


async def test_who_names_a_backend_gets_no_demonstrated_plan(pool: ComputePool) -> None:
    asked = demonstrating(pool, PlanDraft(OTHER, 0.9), PlanDraft(GOOD, 1.0))
    response = await asked.plan(SHOWN.model_copy(update={"backend": "scripted"}))
    assert [one.backend for one in response.asked] == ["scripted"]
    alone = await asked.plan(SHOWN.model_copy(update={"backend": "demonstrated"}))
    assert (alone.backend, alone.plan) == ("demonstrated", OTHER)


@pytest.mark.parametrize("draft", [PlanDraft(None), PlanDraft(ASKS), PlanDraft(WRONG), Overloaded("busy")])
async def test_demonstrations_that_do_not_fit_say_nothing_of_a_request(
    pool: ComputePool, draft: PlanDraft | Exception
) -> None:
    response = await demonstrating(pool, draft, PlanDraft(GOOD, 0.5)).plan(SHOWN)
    assert (response.backend, response.plan) == ("scripted", GOOD)
    assert [(one.backend, one.stood) for one in response.asked] == [("demonstrated", False), ("scripted", True)]
    with pytest.raises(ServiceUnavailable):  # no "nothing fits" in its place
        await demonstrating(pool, draft, ServiceUnavailable("down", service="llm")).plan(SHOWN)


def test_a_backend_to_escalate_to_must_be_there(pool: ComputePool) -> None:
    with pytest.raises(ValueError, match="'other' is not among scripted"):
        service(pool, PlanDraft(GOOD), policy=UNSURE)


async def test_a_busy_planner_is_ready_and_one_that_stands_still_is_not() -> None:
    settings = PlannerSettings(compute_workers=2, compute_waiting=2)
    app = create_app(settings, backends={settings.default_backend: Scripted(PlanDraft(GOOD))})
    gate, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:  # without a checkpoint
        begun.release()
        gate.wait(60)

    async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
        planner, pool = PlannerClient(http), app.state.service._pool
        await planner.ready()
        tasks = [asyncio.create_task(pool.run(long)) for _ in range(3)]
        for_tenant.set("acme")
        tasks.append(asyncio.create_task(pool.run(long)))
        for _ in range(2):
            assert await asyncio.to_thread(begun.acquire, True, 60)
        await planner.ready()  # though it is full
        pool._progress_at -= 1_000
        with pytest.raises(NotReady, match="computations"):
            await planner.ready()
        gate.set()
        await asyncio.gather(*tasks)
        await planner.ready()
