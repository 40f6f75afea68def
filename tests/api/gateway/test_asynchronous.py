"""Asynchronous runs: accepted, found again, requested twice, ended early."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from services.contracts.execution import ExecuteRequest, ExecutionEvent
from services.contracts.outcome import Failed, InDoubt, Skipped, Succeeded
from services.contracts.planning import PlanResponse, Question
from services.contracts.run import Run, RunStatus
from services.errors import LANGUAGE_MODEL, Conflict, InternalError, NotFound, Overloaded, ServiceUnavailable
from tests.support.gateways import (
    ASK_BUG,
    ASK_HOLIDAYS,
    ASK_ROOM,
    ASK_TWO_ROOMS,
    BOOK,
    FIND,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)

NO_WAIT = {"query": ASK_HOLIDAYS, "wait": False}


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_run_that_is_not_waited_for_is_found_at_its_location(gateway: Gateway, prefix: str) -> None:
    gateway.fakes.planner.delay_s = 1  # longer than the two requests, on a busy machine as well
    response = await gateway.http.post(f"{prefix}/solve", json=NO_WAIT)
    run = Run.model_validate_json(response.content)
    assert (response.status_code, run.status) == (202, RunStatus.PLANNING)
    assert response.headers["location"] == f"{prefix}/runs/{run.id}"
    assert (await gateway.http.get(response.headers["location"])).json()["status"] == "planning"
    done = await ended(gateway.client, run.id)
    assert (done.status, done.answer.values[0].value) == (RunStatus.SUCCEEDED, ["Labour Day", "Portugal Day"])
    assert done.created_at == run.created_at


@pytest.mark.parametrize("query", [ASK_BUG, "Make me a sandwich", ASK_ROOM])
async def test_how_a_run_ends_is_in_the_run(gateway: Gateway, query: str) -> None:
    gateway.fakes.planner.answers[ASK_BUG] = RuntimeError("secret detail")
    accepted = await gateway.client.solve(ask(query).model_copy(update={"wait": False}))
    run = await ended(gateway.client, accepted.id)
    assert run.status is {ASK_BUG: RunStatus.FAILED, ASK_ROOM: RunStatus.NEEDS_APPROVAL}.get(query, RunStatus.NO_PLAN)
    assert (run.problem is not None) is (query == ASK_BUG)


async def test_the_same_key_and_request_give_the_same_run(gateway: Gateway) -> None:
    first = await gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k1")
    assert await gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k1") == first
    unhurried = ask(ASK_HOLIDAYS).model_copy(update={"wait": False})
    assert await gateway.client.solve(unhurried, idempotency_key="k1") == first
    events = [event async for event in gateway.client.solve_events(ask(ASK_HOLIDAYS), idempotency_key="k1")]
    assert [event.kind for event in events][::5] == ["planned", "finished"]
    assert len(gateway.fakes.planner.requests) == 1
    for other in (ask(ASK_ROOM), ask(ASK_HOLIDAYS, top_k=3)):
        with pytest.raises(Conflict, match="another request") as caught:
            await gateway.client.solve(other, idempotency_key="k1")
        assert caught.value.extensions == {"run_id": first.id}
    assert (await gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k2")).id != first.id
    assert (await gateway.client.solve(ask(ASK_HOLIDAYS))).id != first.id


async def test_a_failed_run_is_given_back_too(gateway: Gateway) -> None:
    gateway.fakes.planner.answers[ASK_BUG] = RuntimeError()
    with pytest.raises(InternalError) as caught:
        await gateway.client.solve(ask(ASK_BUG), idempotency_key="k")
    again = await gateway.client.solve(ask(ASK_BUG), idempotency_key="k")
    assert (again.id, again.status) == (caught.value.extensions["run_id"], RunStatus.FAILED)


async def test_of_many_equal_requests_at_once_one_is_run(database_url: str) -> None:
    fakes = Fakes()
    fakes.planner.delay_s = 0.1
    async with open_gateway(database_url, fakes) as one, open_gateway(database_url, fakes) as two:
        asked = ask(ASK_ROOM, mutations="allow")
        runs = await asyncio.gather(
            *(gateway.client.solve(asked, idempotency_key="same") for gateway in (one, two) * 8)
        )
        assert {(run.id, run.status) for run in runs} == {(runs[0].id, RunStatus.SUCCEEDED)}
        assert len((await one.client.runs()).runs) == 1
    assert len(fakes.planner.requests) == 1
    assert fakes.executor.sent == [(runs[0].id, "var1")]


@pytest.mark.parametrize("key", ["", "k" * 256, "é", "a\tb", "\x7f"])
async def test_a_key_that_is_none(gateway: Gateway, key: str) -> None:
    for path in ("/solve", "/solve:stream"):
        headers = {b"Idempotency-Key": key.encode()}
        response = await gateway.http.post(path, json={"query": ASK_HOLIDAYS}, headers=headers)
        assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert (await gateway.client.runs()).runs == ()
    await gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k" * 255)


async def begin(gateway: Gateway, query: str, call: str, **options: Any) -> str:
    """Begin a run and wait until the peer gets that call."""
    request = ask(query, **options).model_copy(update={"wait": False})
    run = await gateway.client.solve(request)
    peers = (gateway.fakes.planner, gateway.fakes.executor)
    await until(lambda: any(call in peer.calls for peer in peers))
    return run.id


async def test_planning_is_stopped(gateway: Gateway) -> None:
    gateway.fakes.planner.delay_s = 20
    run_id = await begin(gateway, ASK_HOLIDAYS, "plan")
    response = await gateway.http.post(f"/runs/{run_id}:cancel")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    assert await gateway.client.run(run_id) == Run.model_validate_json(response.content)
    with pytest.raises(Conflict, match="has ended already"):
        await gateway.client.cancel(run_id)
    assert "execute" not in gateway.fakes.executor.calls


async def test_reads_are_cut_and_what_was_read_is_told(gateway: Gateway) -> None:
    gate = gateway.fakes.executor.gate = asyncio.Event()
    run_id = await begin(gateway, ASK_HOLIDAYS, "execute")
    events = gateway.client.events(run_id)
    while (await anext(events)).event.kind != "step_started":
        pass
    gate.set()
    gateway.fakes.executor.gate = asyncio.Event()
    while (await anext(events)).event.kind != "step_finished":
        pass
    run = await gateway.client.cancel(run_id)
    assert run.status is RunStatus.CANCELLED
    assert [(record.step, record.outcome.kind) for record in run.steps] == [("var1", "succeeded")]
    assert [event.event.kind async for event in events][-1] == "finished"


async def test_who_waits_for_a_run_that_is_cancelled_gets_the_run(gateway: Gateway) -> None:
    gateway.fakes.planner.delay_s = 20
    solving = asyncio.create_task(gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k"))
    await until(lambda: "plan" in gateway.fakes.planner.calls)
    replay = asyncio.create_task(gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k"))
    (line,) = (await gateway.client.runs()).runs
    assert (await gateway.client.cancel(line.id)).status is RunStatus.CANCELLED
    assert (await solving).status is (await replay).status is RunStatus.CANCELLED


async def test_calls_in_flight_are_waited_for(gateway: Gateway) -> None:
    executor = gateway.fakes.executor
    executor.gate = asyncio.Event()
    run_id = await begin(gateway, ASK_TWO_ROOMS, "execute", mutations="allow")
    response = await gateway.http.post(f"/runs/{run_id}:cancel")
    assert (response.status_code, response.json()["status"]) == (202, "running")
    assert response.headers["location"] == f"/runs/{run_id}"
    assert (await gateway.http.post(f"/runs/{run_id}:cancel")).status_code == 202
    executor.gate.set()
    run = await ended(gateway.client, run_id)
    assert run.status is RunStatus.CANCELLED
    assert [record.outcome for record in run.steps] == [
        Succeeded(value={"id": "bkg_1"}, status=201),
        Skipped(because="cancelled"),
    ]
    assert executor.sent == [(run_id, "var1")]
    assert (await gateway.http.post(f"/runs/{run_id}:cancel")).status_code == 409


async def test_a_cancellation_waits_for_an_executor_that_is_away(gateway: Gateway) -> None:
    executor = gateway.fakes.executor
    executor.breaks = True
    run_id = await begin(gateway, ASK_TWO_ROOMS, "execute", mutations="allow")
    executor.down = True
    assert (await gateway.client.cancel(run_id)).status is RunStatus.RUNNING
    executor.down = executor.breaks = False
    run = await ended(gateway.client, run_id)
    assert run.status is RunStatus.CANCELLED
    assert executor.sent == []


async def test_a_run_that_is_cancelled_before_its_execution_is_stored_is_cancelled(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = gateway.fakes.executor
    begin = executor.execute

    async def execute(request: ExecuteRequest, _turn: object) -> AsyncGenerator[ExecutionEvent, None]:
        executor.calls.append("execute")
        await until(lambda: "cancel" in executor.calls)
        if executor.calls:  # after that, nothing of this id is stored any more
            raise NotFound(f"There is no durable execution {request.run_id}.")
        async for event in begin(request):
            yield event

    monkeypatch.setattr(executor, "execute", execute)
    solving = asyncio.create_task(gateway.client.solve(ask(ASK_ROOM, mutations="allow")))
    await until(lambda: "execute" in executor.calls)
    (line,) = (await gateway.client.runs()).runs
    await gateway.client.cancel(line.id)
    assert (await solving).status is RunStatus.CANCELLED
    assert (await gateway.client.run(line.id)).status is RunStatus.CANCELLED


async def test_a_bug_while_a_run_is_stored_is_told_as_a_bug(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def insert(*_: object) -> None:
        raise KeyError("secret detail")

    monkeypatch.setattr(gateway.app.state.service._store, "insert", insert)
    response = await gateway.http.post("/solve", json={"query": ASK_HOLIDAYS})
    assert (response.status_code, response.json()["type"]) == (500, "urn:nestor:problem:internal-error")
    assert "secret" not in response.text


async def test_a_run_the_executor_never_had_is_ended_without_it(gateway: Gateway) -> None:
    executor, planner = gateway.fakes.executor, gateway.fakes.planner
    planner.delay_s = 0.2
    run_id = await begin(gateway, ASK_ROOM, "plan", mutations="allow")
    executor.down = True
    await until(lambda: "execute" in executor.calls)
    assert (await gateway.client.cancel(run_id)).status is RunStatus.RUNNING
    executor.down = False
    assert (await ended(gateway.client, run_id)).status is RunStatus.CANCELLED
    assert executor.sent == []


@pytest.mark.parametrize("query", [ASK_ROOM, "Find a country"])
async def test_a_run_that_waits_for_a_person_is_ended_at_once(gateway: Gateway, query: str) -> None:
    question = Question(step="var1", api=FIND.id, argument="name", text="Which country?")
    answer = PlanResponse(status="needs_input", questions=(question,), backend="scripted")
    gateway.fakes.planner.answers["Find a country"] = answer
    run = await gateway.client.solve(ask(query))
    ends = await asyncio.gather(*(gateway.client.cancel(run.id) for _ in range(4)), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["Conflict"] * 3 + ["Run"]
    assert (await gateway.client.run(run.id)).status is RunStatus.CANCELLED
    with pytest.raises(Conflict, match="does not wait"):
        await gateway.client.approve(run.id, "0" * 64)
    kinds = [event.event.kind async for event in gateway.client.events(run.id)]
    assert kinds == ["finished", "finished"]
    assert 'nestor_runs_total{status="cancelled"} 1.0' in (await gateway.http.get("/metrics")).text


async def test_what_has_ended_cannot_be_cancelled(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[BOOK.id] = InDoubt(message="no answer")
    for request in (
        ask(ASK_HOLIDAYS),
        ask(ASK_HOLIDAYS, dry_run=True),
        ask("Make me a sandwich"),
        ask(ASK_ROOM, mutations="allow"),
    ):
        run = await gateway.client.solve(request)
        with pytest.raises(Conflict, match=f"{run.status.value}; it has ended"):
            await gateway.client.cancel(run.id)
        assert await gateway.client.run(run.id) == run
    with pytest.raises(NotFound):
        await gateway.client.cancel("run_none")


async def test_a_finished_answer_waits_for_a_database_that_is_away(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateway.app.state.service._store
    conclude, tries = store.conclude, 0

    async def away(*args: Any) -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise ServiceUnavailable("The database (sqlite) cannot be reached.", service="sqlite")
        await conclude(*args)

    monkeypatch.setattr(store, "conclude", away)
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    assert (run.status, tries) == (RunStatus.SUCCEEDED, 4)
    assert await gateway.client.run(run.id) == run
    tries = -1_000
    with pytest.raises(ServiceUnavailable, match="database") as caught:
        await gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=200))
    tries = 4
    assert (await ended(gateway.client, caught.value.extensions["run_id"])).status is RunStatus.SUCCEEDED


CALLS = [
    {"name": BOOK.id, "arguments": {"room": "blue"}, "label": "var1"},
    {"name": "var_result", "arguments": {"booking": "$var1.id$"}},
]


@pytest.mark.parametrize("path", ["/solve", "/runs"])
@pytest.mark.parametrize("peer", ["retriever", "planner", "executor"])
async def test_an_accepted_run_waits_for_a_service_that_is_away(gateway: Gateway, peer: str, path: str) -> None:
    away = getattr(gateway.fakes, peer)
    away.down = True
    body = {"query": ASK_ROOM, "wait": False} | ({"calls": CALLS} if path == "/runs" else {})
    run_id = (await gateway.http.post(path, json=body)).json()["id"]
    asked = {"retriever": {"retrieve", "lookup"}, "planner": {"plan", "compile"}, "executor": {"credentials"}}[peer]
    await until(lambda: sum(call in asked for call in away.calls) > 2)
    assert (await gateway.client.run(run_id)).status is RunStatus.PLANNING
    away.down = False
    assert (await ended(gateway.client, run_id)).status is RunStatus.NEEDS_APPROVAL


async def test_an_accepted_run_waits_for_what_would_be_sent(gateway: Gateway) -> None:
    executor = gateway.fakes.executor
    executor.breaks = True
    run_id = await begin(gateway, ASK_ROOM, "preview")
    await until(lambda: executor.calls.count("preview") > 2)
    executor.breaks = False
    assert (await ended(gateway.client, run_id)).status is RunStatus.NEEDS_APPROVAL


async def test_an_accepted_run_waits_until_its_deadline_or_until_it_is_cancelled(gateway: Gateway) -> None:
    gateway.fakes.retriever.down = True
    late, cancelled = [
        (await gateway.client.solve(ask(ASK_HOLIDAYS, deadline_ms=ms).model_copy(update={"wait": False}))).id
        for ms in (400, 60_000)
    ]
    run = await ended(gateway.client, late)
    assert run.problem is not None
    assert (run.status, run.problem.detail) == (RunStatus.FAILED, "retriever_svc does not answer.")
    assert gateway.fakes.retriever.calls.count("retrieve") > 3
    assert (await gateway.client.cancel(cancelled)).status is RunStatus.CANCELLED


@pytest.mark.parametrize("kind", [ServiceUnavailable, Overloaded])
async def test_an_accepted_run_does_not_wait_for_a_language_model(
    gateway: Gateway, kind: type[ServiceUnavailable | Overloaded]
) -> None:
    gateway.fakes.planner.answers[ASK_HOLIDAYS] = kind("no answer", service=LANGUAGE_MODEL)
    run_id = await begin(gateway, ASK_HOLIDAYS, "plan")
    assert (await ended(gateway.client, run_id)).status is RunStatus.FAILED
    assert gateway.fakes.planner.calls.count("plan") == 1


async def test_failed_steps_of_a_run_nobody_waits_for(gateway: Gateway) -> None:
    gateway.fakes.executor.outcomes[FIND.id] = Failed(reason="timeout", message="too slow")
    run_id = await begin(gateway, ASK_HOLIDAYS, "execute")
    assert (await ended(gateway.client, run_id)).status is RunStatus.FAILED
