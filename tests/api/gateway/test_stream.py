"""Following a run, leaving it, and stopping the gateway under it."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.event import RunFinished, RunPlanned, SolveEvent
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import Failed
from services.contracts.run import Run, RunStatus
from tests.support.gateways import (
    ASK_BUG,
    ASK_HOLIDAYS,
    ASK_ROOM,
    FIND,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)


async def follow(gateway: Gateway, query: str) -> list[SolveEvent]:
    return [event async for event in gateway.client.solve_events(ask(query))]


async def finished(gateway: Gateway) -> Run:
    """The only run, once it is in a final state."""
    for _ in range(500):
        runs = (await gateway.client.runs()).runs
        if runs and runs[0].status not in (RunStatus.RUNNING, RunStatus.PLANNING):
            return await gateway.client.run(runs[0].id)
        await asyncio.sleep(0.01)
    raise AssertionError("the run did not end")


async def test_the_order_of_events(gateway: Gateway) -> None:
    events = await follow(gateway, ASK_HOLIDAYS)
    kinds = ["planned", "step_started", "step_finished", "step_started", "step_finished", "finished"]
    assert [event.kind for event in events] == kinds
    assert [e.step for e in events if isinstance(e, StepStarted)] == ["var1", "var2"]
    assert isinstance(events[0], RunPlanned)
    assert (events[0].run.status, events[0].run.steps) == (RunStatus.RUNNING, ())
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.run.status is RunStatus.SUCCEEDED
    assert last.run.steps == tuple(e.record for e in events if isinstance(e, StepFinished))
    assert await gateway.client.run(last.run.id) == last.run
    assert last.run.id == events[0].run.id


@pytest.mark.parametrize(
    ("query", "status"), [(ASK_ROOM, RunStatus.NEEDS_APPROVAL), ("Make me a sandwich", RunStatus.NO_PLAN)]
)
async def test_a_run_that_executes_nothing_is_one_event(gateway: Gateway, query: str, status: RunStatus) -> None:
    (event,) = await follow(gateway, query)
    assert isinstance(event, RunFinished)
    assert event.run.status is status


async def test_a_problem_is_in_the_last_event(gateway: Gateway) -> None:
    gateway.fakes.planner.answers[ASK_BUG] = RuntimeError("secret detail")
    (bug,) = await follow(gateway, ASK_BUG)
    gateway.fakes.executor.breaks = True
    *_, started, broken = [e async for e in gateway.client.solve_events(ask(ASK_HOLIDAYS, deadline_ms=300))]
    gateway.fakes.retriever.down = True
    (down,) = await follow(gateway, ASK_HOLIDAYS)
    found = [event.run.problem for event in (bug, broken, down) if isinstance(event, RunFinished)]
    assert [problem.type.rpartition(":")[2] for problem in found if problem] == [
        "internal-error",
        "service-unavailable",
        "service-unavailable",
    ]
    assert isinstance(started, StepStarted)
    assert "secret" not in bug.model_dump_json()


async def test_steps_are_told_while_the_run_goes_on(gateway: Gateway) -> None:
    gateway.fakes.executor.gate = asyncio.Event()
    gateway.fakes.executor.outcomes[FIND.id] = Failed(reason="timeout", message="too slow")
    events = gateway.client.solve_events(ask(ASK_HOLIDAYS))
    seen = [(await anext(events)).kind for _ in range(2)]
    assert seen == ["planned", "step_started"]
    gateway.fakes.executor.gate.set()
    assert [event.kind async for event in events] == ["step_finished", "step_finished", "finished"]


@pytest.mark.parametrize("leaves", ["stream", "solve", "approve"])
async def test_a_client_that_goes_away_does_not_take_its_run_with_it(gateway: Gateway, leaves: str) -> None:
    if leaves == "approve":
        waiting = await gateway.client.solve(ask(ASK_ROOM))
        assert waiting.plan is not None
    gateway.fakes.executor.gate = asyncio.Event()
    if leaves == "stream":
        events = gateway.client.solve_events(ask(ASK_HOLIDAYS))
        assert (await anext(events)).kind == "planned"
        await events.aclose()
    else:
        path = "/solve" if leaves == "solve" else f"/runs/{waiting.id}:approve"
        body = {"query": ASK_HOLIDAYS} if leaves == "solve" else {"plan_id": waiting.plan.id if waiting.plan else ""}
        task = asyncio.create_task(gateway.http.post(path, json=body))
        for _ in range(500):
            if "execute" in gateway.fakes.executor.calls:
                break
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gateway.fakes.executor.gate.set()
    run = await finished(gateway)
    assert run.status is RunStatus.SUCCEEDED
    assert run.answer.values


@pytest.mark.parametrize("query", [ASK_HOLIDAYS, ASK_ROOM])
@pytest.mark.parametrize("at", ["planner", "executor"])
async def test_a_gateway_that_stops_leaves_its_runs_to_the_next_one(tmp_path: Path, at: str, query: str) -> None:
    fakes = Fakes()
    fakes.executor.gate = asyncio.Event()
    fakes.planner.delay_s = 20 if at == "planner" else 0
    calls = fakes.planner.calls if at == "planner" else fakes.executor.calls
    async with open_gateway(tmp_path, fakes, shutdown_grace_s=0) as gateway:
        body = {"query": query, "options": {"mutations": "allow"}}
        solving = asyncio.create_task(gateway.http.post("/solve", json=body))
        await until(lambda: bool(calls) and calls[-1] in ("plan", "execute"))
    problem = (await solving).json()
    assert (problem["status"], problem["service"]) == (503, "gateway")
    fakes.planner.delay_s, fakes.executor.gate = 0, None
    async with open_gateway(tmp_path, fakes) as again:
        run = await ended(again.client, problem["run_id"])
        assert run.status is RunStatus.SUCCEEDED
        assert "nestor_runs_recovered_total 1.0" in (await again.http.get("/metrics")).text
    assert fakes.executor.sent == ([(run.id, "var1")] if query == ASK_ROOM else [])


async def test_runs_under_way_may_finish_when_the_gateway_stops(tmp_path: Path) -> None:
    fakes = Fakes()
    fakes.planner.delay_s = 0.05
    async with open_gateway(tmp_path, fakes, shutdown_grace_s=5) as gateway:
        task = asyncio.create_task(gateway.http.post("/solve", json={"query": ASK_HOLIDAYS}))
        for _ in range(500):
            if "plan" in fakes.planner.calls:
                break
            await asyncio.sleep(0.01)
    assert (await task).json()["status"] == "succeeded"
    async with open_gateway(tmp_path) as again:
        assert [run.status for run in (await again.client.runs()).runs] == [RunStatus.SUCCEEDED]
