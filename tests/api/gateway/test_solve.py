"""Every way a request can end, as an app sees it."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.api import ImportReport, ImportRequest
from services.contracts.demo import Demo
from services.contracts.outcome import Failed, InDoubt, Skipped, Succeeded
from services.contracts.planning import Decision, PlanRequest, PlanResponse, PolicyRule, Question
from services.contracts.rerun import RerunRequest
from services.contracts.retrieval import Candidate
from services.contracts.run import Run, RunStatus
from services.contracts.start import StartOptions
from services.errors import (
    DeadlineExceeded,
    InternalError,
    NotFound,
    Overloaded,
    ServiceError,
    ServiceUnavailable,
    ValidationFailed,
)
from tests.support.gateways import (
    ASK_BUG,
    ASK_HOLIDAYS,
    ASK_ROOM,
    FIND,
    HOLIDAYS,
    NESTED,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)


async def last_run(gateway: Gateway) -> Run:
    return await gateway.client.run((await gateway.client.runs(limit=1)).runs[0].id)


async def test_a_request_is_answered_with_everything_that_led_to_it(gateway: Gateway) -> None:
    await gateway.fakes.demos.add(Demo(query=ASK_HOLIDAYS, plan=NESTED))
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.query) == (RunStatus.SUCCEEDED, ASK_HOLIDAYS)
    assert [(v.name, v.value, v.step) for v in run.answer.values] == [
        ("holidays", ["Labour Day", "Portugal Day"], "var2")
    ]
    assert run.answer.text == "holidays:\n  - Labour Day\n  - Portugal Day"
    assert run.plan == NESTED
    assert run.proof is not None
    assert run.proof.stages == (("var1",), ("var2",))
    assert [record.outcome.kind for record in run.steps] == ["succeeded", "succeeded"]
    assert {c.api for c in run.candidates} >= {FIND.id, HOLIDAYS.id}
    assert [(d.query, d.level, d.similarity) for d in run.demos] == [(ASK_HOLIDAYS, "task", 1.0)]
    assert run.timings.total_ms >= run.timings.execute_ms
    assert run.problem is None
    assert await gateway.client.run(run.id) == run


@pytest.mark.parametrize("path", ["/solve", "/solve:stream", "/plan", "/v1/solve"])
async def test_a_time_zone_that_nobody_knows_is_a_problem_that_names_it(gateway: Gateway, path: str) -> None:
    asked = {"query": ASK_HOLIDAYS, "context": {"timezone": "Mars/Phobos"}}
    answer = await gateway.http.post(path, json=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "context.timezone" in answer.text
    assert (await gateway.client.runs()).runs == ()


async def test_the_planner_is_given_what_was_found(gateway: Gateway) -> None:
    gateway.fakes.executor.secrets = ("world.key",)
    await gateway.client.solve(ask(ASK_HOLIDAYS, top_k=1, demos=0))
    (asked,) = gateway.fakes.planner.requests
    assert [candidate.api.id for candidate in asked.candidates] == [HOLIDAYS.id]
    assert asked.credentials == ("world.key",)
    assert asked.context.now is not None
    assert "select" not in gateway.fakes.demos.calls


async def test_a_failed_step_is_data(gateway: Gateway) -> None:
    failed = Failed(reason="upstream_error", message="502 from world", status=502)
    gateway.fakes.executor.outcomes[FIND.id] = failed
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert run.status is RunStatus.FAILED
    assert [record.outcome for record in run.steps] == [failed, Skipped(because="var1")]
    assert run.answer.values == ()
    assert run.reason == "world.findCountry: 502 from world"
    assert run.problem is None


async def test_an_answer_that_is_not_there_is_explained(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[HOLIDAYS.id] = Succeeded(value=[], status=200)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert run.status is RunStatus.FAILED
    assert "holidays" in run.reason


async def test_a_call_in_doubt(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = InDoubt(message="no answer")
    assert (await gateway.client.solve(ask(ASK_HOLIDAYS))).status is RunStatus.IN_DOUBT


async def test_nothing_fits(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask("Make me a sandwich"))
    assert run.status is RunStatus.NO_PLAN
    assert run.reason
    assert run.plan is None
    assert "execute" not in gateway.fakes.executor.calls


async def test_what_no_api_tells_is_kept_with_the_run(gateway: Gateway) -> None:
    untold = "I can find the country; none of the APIs tells “anthem”."
    planned = await gateway.fakes.planner.plan(
        PlanRequest(query=ASK_HOLIDAYS, candidates=tuple(Candidate(api=api, score=1) for api in (FIND, HOLIDAYS)))
    )
    gateway.fakes.planner.answers[ASK_HOLIDAYS] = planned.model_copy(update={"untold": untold})
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.untold) == (RunStatus.SUCCEEDED, untold)
    assert run.answer.text.splitlines()[:2] == [untold, "holidays:"]
    assert (await gateway.client.run(run.id)).untold == untold
    dry = await gateway.client.solve(ask(ASK_HOLIDAYS, dry_run=True))
    assert (dry.status, dry.untold, dry.answer.text) == (RunStatus.PLANNED, untold, "")


async def test_an_unsure_plan_says_so_before_its_answer(gateway: Gateway) -> None:
    planned = await gateway.fakes.planner.plan(
        PlanRequest(query=ASK_HOLIDAYS, candidates=tuple(Candidate(api=api, score=1) for api in (FIND, HOLIDAYS)))
    )
    unsure = "I am not sure of this."
    gateway.fakes.planner.answers[ASK_HOLIDAYS] = planned.model_copy(
        update={"unsure": unsure, "untold": "And no more."}
    )
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, run.unsure) == (RunStatus.SUCCEEDED, unsure)
    assert run.answer.text.splitlines()[:2] == [unsure, "And no more."]


async def test_something_must_be_supplied(gateway: Gateway) -> None:
    question = Question(step="var1", api=FIND.id, argument="name", text="Which country?")
    gateway.fakes.planner.answers["Find a country"] = PlanResponse(
        status="needs_input", questions=(question,), backend="scripted"
    )
    run = await gateway.client.solve(ask("Find a country"))
    assert (run.status, run.questions) == (RunStatus.NEEDS_INPUT, (question,))
    assert await gateway.client.run(run.id) == run
    assert "execute" not in gateway.fakes.executor.calls


@pytest.mark.parametrize("by", ["option", "plan"])
@pytest.mark.parametrize("query", [ASK_HOLIDAYS, ASK_ROOM])
async def test_a_dry_run_and_plan_execute_nothing(gateway: Gateway, by: str, query: str) -> None:
    request = ask(query, dry_run=by == "option")
    run = await (gateway.client.plan(request) if by == "plan" else gateway.client.solve(request))
    assert run.status is (RunStatus.NEEDS_APPROVAL if query == ASK_ROOM else RunStatus.PLANNED)
    assert run.plan is not None
    assert run.proof is not None
    assert "execute" not in gateway.fakes.executor.calls
    assert await gateway.client.run(run.id) == run


@pytest.mark.parametrize(
    ("mutations", "status"),
    [("ask", RunStatus.NEEDS_APPROVAL), ("allow", RunStatus.SUCCEEDED), ("deny", RunStatus.NO_PLAN)],
)
async def test_calls_that_change_state_are_for_the_policy(gateway: Gateway, mutations: str, status: RunStatus) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM, mutations=mutations))
    assert run.status is status
    assert ("execute" in gateway.fakes.executor.calls) is (status is RunStatus.SUCCEEDED)


async def test_a_plan_that_is_unsure_is_not_approved_in_advance(gateway: Gateway) -> None:
    await make_unsure(gateway)
    run = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"))
    assert (run.status, [shown.step for shown in run.previews]) == (RunStatus.NEEDS_APPROVAL, ["var1"])
    assert "execute" not in gateway.fakes.executor.calls
    assert run.plan is not None
    approved = await gateway.client.approve(run.id, run.plan.id, digest=run.digest)
    assert approved.status is RunStatus.SUCCEEDED
    assert (await gateway.client.plan(ask(ASK_ROOM, mutations="allow_unsure"))).status is RunStatus.PLANNED


@pytest.mark.parametrize("by", ["option", "rule"])
async def test_a_plan_that_is_unsure_is_not_approved_by_running_it_again(tmp_path: Path, by: str) -> None:
    rules = (PolicyRule(decision=Decision.ALLOW),) if by == "rule" else ()
    options = StartOptions(mutations=Decision.ALLOW if by == "option" else Decision.ASK)
    async with open_gateway(tmp_path, policy_rules=rules) as gateway:
        await make_unsure(gateway)
        waiting = await gateway.client.solve(ask(ASK_ROOM, mutations=options.mutations.value))
        again = await gateway.client.rerun(waiting.id, RerunRequest(options=options))
        third = await gateway.client.rerun(again.id, RerunRequest(options=options))
        for one in (waiting, again, third):
            assert (one.status, one.unsure) == (RunStatus.NEEDS_APPROVAL, DOUBT)
        assert "execute" not in gateway.fakes.executor.calls
        assert again.plan is not None
        approved = await gateway.client.approve(again.id, again.plan.id, digest=again.digest)
        assert approved.status is RunStatus.SUCCEEDED


async def test_the_operators_policy_reaches_the_planner(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("policy")
    async with open_gateway(folder, policy_allow=("world.*",), policy_deny=("crm.*",)) as gateway:
        await gateway.client.solve(ask(ASK_ROOM))
        policy = gateway.fakes.planner.requests[0].policy
    assert (policy.allow, policy.deny) == (("world.*",), ("crm.*",))


DOUBT = "I am only 12% sure of this."


async def make_unsure(gateway: Gateway) -> None:
    """Let the planner doubt its plan for ASK_ROOM."""
    planner = gateway.fakes.planner
    assert (await gateway.client.plan(ask(ASK_ROOM, mutations="allow"))).status is RunStatus.PLANNED
    planned = await planner.plan(planner.requests[-1])
    planner.answers[ASK_ROOM] = planned.model_copy(update={"unsure": DOUBT})


PEERS = ["retriever", "demos", "planner", "executor"]
NAMES = {"retriever": "retriever_svc", "demos": "demo_svc", "planner": "planner_svc", "executor": "executor_svc"}


@pytest.mark.parametrize("peer", PEERS)
async def test_a_peer_that_is_down_is_named_and_the_run_kept(gateway: Gateway, peer: str) -> None:
    getattr(gateway.fakes, peer).down = True
    with pytest.raises(ServiceUnavailable) as caught:
        await gateway.client.solve(ask(ASK_HOLIDAYS))
    run = await last_run(gateway)
    assert caught.value.extensions == {"service": NAMES[peer], "run_id": run.id}
    assert run.status is RunStatus.FAILED
    assert run.problem is not None
    assert run.problem.type == "urn:nestor:problem:service-unavailable"
    assert NAMES[peer] in run.problem.detail
    ready = await gateway.http.get("/readyz")
    assert ready.status_code == 503
    checks = ready.json()["checks"]
    assert {name for name, result in checks.items() if result != "ok"} == {NAMES[peer]}
    assert (await gateway.http.get("/healthz")).status_code == 200
    getattr(gateway.fakes, peer).down = False
    assert (await gateway.http.get("/readyz")).status_code == 200
    assert (await gateway.client.solve(ask(ASK_HOLIDAYS))).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("peer", PEERS)
async def test_a_peer_that_is_too_slow_ends_the_run_at_its_deadline(gateway: Gateway, peer: str) -> None:
    getattr(gateway.fakes, peer).delay_s = 60
    with pytest.raises(DeadlineExceeded, match=NAMES[peer]):
        await asyncio.wait_for(gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=150)), 30)
    run = await last_run(gateway)
    assert run.status is RunStatus.FAILED
    assert run.problem is not None
    assert run.problem.type == "urn:nestor:problem:deadline-exceeded"


async def test_a_deadline_can_pass_between_two_peers(gateway: Gateway) -> None:
    for peer in (gateway.fakes.retriever, gateway.fakes.demos, gateway.fakes.planner):
        peer.delay_s = 0.06
    with pytest.raises(DeadlineExceeded):
        await gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=100))


async def test_reads_are_run_again_until_the_deadline(gateway: Gateway) -> None:
    gateway.fakes.executor.breaks = True
    with pytest.raises(ServiceUnavailable, match="executor_svc") as caught:
        await gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=400))
    run = await last_run(gateway)
    assert (run.status, caught.value.extensions["run_id"]) == (RunStatus.FAILED, run.id)
    assert len(gateway.fakes.executor.requests) > 1
    solving = asyncio.create_task(gateway.client.solve(ask(ASK_HOLIDAYS)))
    before = len(gateway.fakes.executor.requests)
    await until(lambda: len(gateway.fakes.executor.requests) > before)
    gateway.fakes.executor.breaks = False
    assert (await solving).status is RunStatus.SUCCEEDED


async def test_a_caller_is_answered_at_the_deadline_while_a_run_that_may_change_something_goes_on(
    gateway: Gateway,
) -> None:
    executor = gateway.fakes.executor
    executor.breaks = True
    with pytest.raises(ServiceUnavailable, match="The run continues") as caught:
        await gateway.client.solve(ask(ASK_ROOM, mutations="allow", deadline_ms=300))
    run_id = caught.value.extensions["run_id"]
    assert caught.value.extensions["service"] == "executor_svc"
    assert (await gateway.client.run(run_id)).status is RunStatus.RUNNING
    executor.breaks = False
    run = await ended(gateway.client, run_id)
    assert (run.status, run.answer.text, executor.sent) == (RunStatus.SUCCEEDED, "booking: bkg_1", [(run_id, "var1")])


async def test_what_the_executor_had_not_begun_by_the_deadline_is_not_begun_after_it(gateway: Gateway) -> None:
    executor = gateway.fakes.executor
    gateway.fakes.planner.delay_s = 0.2
    solving = asyncio.create_task(gateway.client.solve(ask(ASK_ROOM, mutations="allow", deadline_ms=600)))
    await until(lambda: "plan" in gateway.fakes.planner.calls)
    executor.down = True
    with pytest.raises(ServiceUnavailable, match="executor_svc") as caught:
        await solving
    executor.down = False
    run = await ended(gateway.client, caught.value.extensions["run_id"])
    assert run.status is RunStatus.FAILED
    assert run.problem is not None
    assert "nothing was sent" in run.problem.detail
    assert executor.sent == []


@pytest.mark.parametrize("bug", [RuntimeError("secret detail"), KeyError("x"), ValueError(), AssertionError()])
async def test_a_bug_leaves_a_failed_run_and_tells_nothing(gateway: Gateway, bug: Exception) -> None:
    gateway.fakes.planner.answers[ASK_BUG] = bug
    with pytest.raises(InternalError):
        await gateway.client.solve(ask(ASK_BUG))
    run = await last_run(gateway)
    assert run.status is RunStatus.FAILED
    assert run.problem is not None
    assert run.problem.type == "urn:nestor:problem:internal-error"
    assert "secret" not in run.model_dump_json()


async def test_a_peers_refusal_is_passed_on(gateway: Gateway) -> None:
    with pytest.raises(ValidationFailed, match="no planner backend 'other'"):
        await gateway.client.solve(ask(ASK_HOLIDAYS, backend="other"))
    assert (await last_run(gateway)).problem is not None


async def test_too_many_runs_at_once_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with open_gateway(tmp_path_factory.mktemp("busy"), max_concurrent_runs=1, run_wait_s=0) as gateway:
        waiting = await gateway.client.solve(ask(ASK_ROOM))
        gateway.fakes.executor.gate = asyncio.Event()
        first = asyncio.create_task(gateway.client.solve(ask(ASK_HOLIDAYS)))
        while "execute" not in gateway.fakes.executor.calls:  # noqa: ASYNC110 - the fake has no event for it
            await asyncio.sleep(0.005)
        assert waiting.plan is not None
        refused: list[ServiceError] = []
        for attempt in (
            gateway.client.solve(ask(ASK_HOLIDAYS)),
            anext(gateway.client.solve_events(ask(ASK_HOLIDAYS))),
            gateway.client.approve(waiting.id, waiting.plan.id),
        ):
            with pytest.raises(Overloaded) as caught:
                await attempt
            refused.append(caught.value)
        assert [error.extensions for error in refused] == [{"retry_after_s": 1}] * 3
        response = await gateway.http.post("/solve:stream", json={"query": ASK_HOLIDAYS})
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        gateway.fakes.executor.gate.set()
        assert (await first).status is RunStatus.SUCCEEDED
        approved = await gateway.client.approve(waiting.id, waiting.plan.id)
        assert approved.status is RunStatus.SUCCEEDED


async def test_the_catalogue_and_the_demos_are_reached_through_the_gateway(gateway: Gateway) -> None:
    client = gateway.client
    assert await client.api(FIND.id) == await gateway.fakes.retriever.get(FIND.id)
    assert [hit.id for hit in (await client.search_apis("holidays", limit=1)).hits] == [HOLIDAYS.id]
    head = '"openapi": "3.1.0", "info": {"title": "Zoo", "version": "1"}'
    document = f'{{{head}, "paths": {{"/a/b": {{"get": {{"operationId": "a/b"}}}}}}}}'
    events = [event async for event in client.import_apis(ImportRequest(document=document))]
    assert isinstance(events[-1], ImportReport)
    assert (await client.api("zoo.a/b")).path == "/a/b"
    await client.delete_provider("zoo")
    with pytest.raises(NotFound):
        await client.api("zoo.a/b")
    demo = await client.add_demo(Demo(query=ASK_HOLIDAYS, plan=NESTED))
    assert (await client.demos(api=FIND.id)).demos == (demo,)
    await client.delete_demo(demo.id)
    assert (await client.demos()).total == 0


async def test_everything_is_also_under_v1(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/solve", json={"query": ASK_HOLIDAYS})
    assert response.json()["status"] == "succeeded"
    assert (await gateway.http.get(f"/v1/runs/{response.json()['id']}")).json() == response.json()
    wrong = await gateway.http.delete("/v1/demos")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


async def test_metrics_count_runs_by_status(gateway: Gateway) -> None:
    await gateway.client.solve(ask(ASK_HOLIDAYS))
    await gateway.client.solve(ask("Make me a sandwich"))
    text = (await gateway.http.get("/metrics")).text
    assert 'nestor_runs_total{status="succeeded"} 1.0' in text
    assert 'nestor_runs_total{status="no_plan"} 1.0' in text
