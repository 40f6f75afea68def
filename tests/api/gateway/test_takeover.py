"""Gateways that die, are slow, or shut down: another gateway takes their runs over, exactly once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.tables import MEMBERS, RUNS
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.errors import ServiceUnavailable
from services.storage.engine import create_engine, write
from tests.support.gateways import (
    ASK_HOLIDAYS,
    ASK_ROOM,
    ASK_TWO_ROOMS,
    BOOKING,
    Fakes,
    Gateway,
    ask,
    ended,
    open_gateway,
    until,
)
from tests.support.members import PATIENCE_S, changes

LEASE_S = 0.5


@pytest.fixture
async def pair(database_url: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways on one database with the same peers."""
    fakes = Fakes()
    async with (
        open_gateway(database_url, fakes, lease_s=LEASE_S) as one,
        open_gateway(database_url, fakes, lease_s=LEASE_S) as two,
    ):
        yield one, two


def unhurried(query: str) -> SolveRequest:
    return ask(query, mutations="allow").model_copy(update={"wait": False})


async def begun(gateway: Gateway, at: str, query: str) -> Run:
    """A run that waits for a planner or an executor that does not answer yet."""
    fakes = gateway.fakes
    fakes.planner.delay_s = 20 if at == "plan" else 0
    fakes.executor.gate = asyncio.Event()
    run = await gateway.client.solve(unhurried(query))
    await until(lambda: at in fakes.planner.calls + fakes.executor.calls)
    return run


@pytest.mark.parametrize("query", [ASK_HOLIDAYS, ASK_ROOM])
@pytest.mark.parametrize("at", ["plan", "execute"])
async def test_the_runs_of_a_gateway_that_dies_go_on_in_another(
    pair: tuple[Gateway, Gateway], at: str, query: str
) -> None:
    one, two = pair
    fakes, run = one.fakes, await begun(one, at, query)
    events = two.client.events(run.id)
    following = asyncio.create_task(_kinds(events))
    await one.die()
    fakes.planner.delay_s, fakes.executor.gate = 0, None
    done = await ended(two.client, run.id)
    assert (done.status, done.id, done.query) == (RunStatus.SUCCEEDED, run.id, query)
    assert fakes.executor.sent == ([] if query == ASK_HOLIDAYS else [(run.id, "var1")])
    assert len({request.compiled.plan.id for request in fakes.executor.requests}) == 1
    assert "nestor_runs_recovered_total 1.0" in (await two.http.get("/metrics")).text
    told = await following
    assert told[-1] == "finished"
    assert told.count("finished") == 1
    numbers = [event.id async for event in two.client.events(run.id)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] > 1_000_000


async def test_a_tenant_gets_no_more_runs_by_a_takeover_than_it_may_have(database_url: str) -> None:
    """With a hundred at each of two gateways it had all two hundred runs of the one that was left."""
    fakes = Fakes()
    async with (
        open_gateway(database_url, fakes, lease_s=LEASE_S, limits={"runs": 1}) as one,
        open_gateway(database_url, fakes, lease_s=LEASE_S, limits={"runs": 1}) as two,
    ):
        fakes.executor.gate = asyncio.Event()
        runs = [await gateway.client.solve(unhurried(ASK_HOLIDAYS)) for gateway in (one, two)]
        await until(lambda: fakes.executor.calls.count("execute") == 2)
        await one.die()
        await asyncio.sleep(4 * LEASE_S)
        assert "nestor_runs_recovered_total 0.0" in (await two.http.get("/metrics")).text
        fakes.executor.gate.set()
        assert [(await ended(two.client, run.id)).status for run in runs] == [RunStatus.SUCCEEDED] * 2


async def test_a_clock_that_was_set_back_keeps_no_run_of_the_dead(
    pair: tuple[Gateway, Gateway], database_url: str
) -> None:
    one, two = pair
    one.fakes.executor.gate = asyncio.Event()
    run = await one.client.solve(unhurried(ASK_HOLIDAYS))
    await until(lambda: "execute" in one.fakes.executor.calls)
    await one.die()
    one.fakes.executor.gate = None
    engine = create_engine(database_url)
    async with write(engine) as connection:  # its last heartbeat is in the future
        owner = sa.select(RUNS.c.owner).where(RUNS.c.id == run.id).scalar_subquery()
        await connection.execute(
            MEMBERS.update().where(MEMBERS.c.id == owner).values(seen_at=MEMBERS.c.seen_at + 3_600)
        )
    await engine.dispose()
    assert (await ended(two.client, run.id)).status is RunStatus.SUCCEEDED


async def test_a_gateway_whose_loop_is_blocked_keeps_its_runs(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, lease_s=LEASE_S):
        file = tmp_path / "gateway.db"
        assert changes(file, PATIENCE_S)
        assert changes(file, PATIENCE_S)


async def _kinds(events: AsyncIterator[object]) -> list[str]:
    return [event.event.kind async for event in events]  # type: ignore[attr-defined]


async def test_an_approved_run_that_is_taken_over_is_approved_still(pair: tuple[Gateway, Gateway]) -> None:
    one, two = pair
    waiting = await one.client.solve(ask(ASK_ROOM))
    one.fakes.executor.gate = asyncio.Event()
    await one.client.approve(waiting.id, BOOKING.id, wait=False)
    await until(lambda: "execute" in one.fakes.executor.calls)
    await one.die()
    one.fakes.executor.gate = None
    done = await ended(two.client, waiting.id)
    assert done.status is RunStatus.SUCCEEDED
    assert [request.approved for request in one.fakes.executor.requests] == [BOOKING.id] * 2
    assert done.approval is not None


async def test_a_gateway_that_was_only_slow_overwrites_nothing(pair: tuple[Gateway, Gateway]) -> None:
    one, two = pair
    executor = one.fakes.executor
    gate = executor.gate = asyncio.Event()
    solving = asyncio.create_task(one.client.solve(ask(ASK_ROOM, mutations="allow")))
    await until(lambda: len(executor.requests) == 1)
    await one.go_silent()
    await until(lambda: len(executor.requests) == 2)  # the other gateway has taken the run over and follows it too
    gate.set()
    answered = await solving
    done = await ended(two.client, answered.id)
    assert (answered.status, done.status) == (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED)
    assert executor.sent == [(done.id, "var1")]
    finished = [event async for event in two.client.events(done.id) if event.event.kind == "finished"]
    assert [event.id > 1_000_000 for event in finished] == [True]
    counted = [(await gateway.http.get("/metrics")).text for gateway in pair]
    assert ['nestor_runs_total{status="succeeded"} 1.0' in text for text in counted] == [False, True]


async def test_a_run_is_cancelled_through_another_gateway(pair: tuple[Gateway, Gateway]) -> None:
    one, two = pair
    one.fakes.planner.delay_s = 20
    run = await one.client.solve(unhurried(ASK_HOLIDAYS))
    await until(lambda: "plan" in one.fakes.planner.calls)
    assert (await two.client.cancel(run.id)).status is RunStatus.PLANNING
    assert (await ended(two.client, run.id)).status is RunStatus.CANCELLED


@pytest.mark.parametrize("query", [ASK_HOLIDAYS, ASK_TWO_ROOMS])
@pytest.mark.parametrize("at", ["plan", "execute"])
async def test_a_cancelled_run_whose_gateway_dies_is_ended_by_another(
    pair: tuple[Gateway, Gateway], at: str, query: str
) -> None:
    one, two = pair
    fakes, run = one.fakes, await begun(one, at, query)
    await one.die()
    await two.client.cancel(run.id)
    assert fakes.executor.gate is not None
    fakes.executor.gate.set()  # the other gateway may have taken it over before it was cancelled
    assert (await ended(two.client, run.id)).status is RunStatus.CANCELLED
    assert fakes.executor.sent in ([], [(run.id, "var1")])


async def test_who_asked_twice_is_answered_by_another_gateway(pair: tuple[Gateway, Gateway]) -> None:
    one, two = pair
    one.fakes.planner.delay_s = 0.3
    first = asyncio.create_task(one.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k"))
    await until(lambda: "plan" in one.fakes.planner.calls)
    again = asyncio.create_task(two.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k"))
    streamed = [event async for event in two.client.solve_events(ask(ASK_HOLIDAYS), idempotency_key="k")]
    assert await again == await first
    assert streamed[-1].kind == "finished"


async def test_a_run_that_outlasts_the_patience_of_who_asked_twice_is_shown_as_it_is(
    pair: tuple[Gateway, Gateway],
) -> None:
    one, two = pair
    one.fakes.executor.gate = asyncio.Event()
    request = ask(ASK_ROOM, mutations="allow", deadline_ms=400)
    first = asyncio.create_task(one.client.solve(request, idempotency_key="k"))
    await until(lambda: "execute" in one.fakes.executor.calls)
    again = await two.http.post("/solve", json=request.model_dump(mode="json"), headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["status"]) == (202, "running")
    one.fakes.executor.gate.set()
    assert (await first).id == again.json()["id"]


async def test_a_run_that_brings_down_one_gateway_after_another_is_given_up(database_url: str) -> None:
    fakes = Fakes()
    fakes.planner.delay_s = 20
    async with open_gateway(database_url, fakes, shutdown_grace_s=0) as gateway:
        run = await gateway.client.solve(unhurried(ASK_HOLIDAYS))
    for takeover in (1, 2):
        async with open_gateway(database_url, fakes, shutdown_grace_s=0, max_takeovers=2) as gateway:
            await until(lambda: fakes.planner.calls.count("plan") == takeover + 1)  # noqa: B023
    async with open_gateway(database_url, fakes, max_takeovers=2) as gateway:
        done = await ended(gateway.client, run.id)
    assert done.status is RunStatus.FAILED
    assert done.problem is not None
    assert "3 times" in done.problem.detail


async def test_a_run_that_was_lost_without_a_death_is_found_by_its_own_gateway(database_url: str) -> None:
    async with open_gateway(database_url, lease_s=LEASE_S) as gateway:
        gateway.fakes.planner.delay_s = 20
        run = await gateway.client.solve(unhurried(ASK_HOLIDAYS))
        (task,) = gateway.app.state.service._runs._tasks
        task.cancel()  # simulates a bug
        gateway.fakes.planner.delay_s = 0
        assert (await ended(gateway.client, run.id)).status is RunStatus.SUCCEEDED


async def test_what_was_stored_by_a_version_that_kept_no_plan_ends_as_failed(database_url: str) -> None:
    fakes = Fakes()
    fakes.executor.gate = asyncio.Event()
    async with open_gateway(database_url, fakes, shutdown_grace_s=0) as gateway:
        run = await gateway.client.solve(unhurried(ASK_ROOM))
        await until(lambda: "execute" in fakes.executor.calls)
    engine = create_engine(database_url)
    async with write(engine) as connection:
        await connection.execute(RUNS.update().values(compiled=None))
        assert await connection.scalar(sa.select(sa.func.count()).select_from(MEMBERS)) == 0
    await engine.dispose()
    async with open_gateway(database_url, fakes) as gateway:
        done = await ended(gateway.client, run.id)
    assert done.status is RunStatus.FAILED
    assert done.problem is not None
    assert "cannot be read" in done.problem.detail


async def test_a_gateway_that_stops_takes_no_new_runs(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, shutdown_grace_s=5) as gateway:
        runs = gateway.app.state.service._runs
        gateway.fakes.planner.delay_s = 0.2
        solving = asyncio.create_task(gateway.client.solve(ask(ASK_HOLIDAYS)))
        await until(lambda: "plan" in gateway.fakes.planner.calls)
        closing = asyncio.create_task(runs.close())
        await until(lambda: runs.room == 0)
        with pytest.raises(ServiceUnavailable, match="stopping"):
            await gateway.client.solve(ask(ASK_HOLIDAYS))
        assert (await solving).status is RunStatus.SUCCEEDED
        await closing
