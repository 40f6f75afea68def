"""Ended runs are deleted, on request or after the retention time that the operator set."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from gateway.tables import RUN_EVENTS, RUNS
from services.contracts.run import RunStatus
from services.errors import Conflict, NotFound, ServiceUnavailable
from services.storage.engine import create_engine, write
from tests.support.gateways import ASK_HOLIDAYS, ASK_ROOM, BOOKING, Gateway, ask, ended, open_gateway, until

OLD = "run_000000000001" + "0" * 20
"""The id of a run from 1970."""


async def rows(database_url: str) -> tuple[int, int]:
    """The numbers of runs and of events."""
    engine = create_engine(database_url)
    async with engine.connect() as connection:
        found = [await connection.scalar(sa.select(sa.func.count()).select_from(t)) for t in (RUNS, RUN_EVENTS)]
    await engine.dispose()
    return found[0] or 0, found[1] or 0


async def test_a_deleted_run_is_gone_with_its_events_and_its_key(database_url: str) -> None:
    async with open_gateway(database_url) as gateway:
        run = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"), idempotency_key="k")
        await gateway.client.delete_run(run.id)
        assert "forget" in gateway.fakes.executor.calls
        with pytest.raises(NotFound):
            await gateway.client.run(run.id)
        with pytest.raises(NotFound):
            await gateway.client.delete_run(run.id)
        assert await rows(database_url) == (0, 0)
        again = await gateway.client.solve(ask(ASK_HOLIDAYS), idempotency_key="k")
        assert again.id != run.id


async def test_of_two_deletions_at_once_the_second_finds_nothing(database_url: str) -> None:
    async with open_gateway(database_url) as gateway:
        run = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"))
        gateway.fakes.executor.delay_s = 0.1  # both have read the run before one deletes it
        ends = await asyncio.gather(*(gateway.client.delete_run(run.id) for _ in range(2)), return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["NoneType", "NotFound"]


async def test_of_what_may_still_be_sent_nothing_is_deleted(gateway: Gateway) -> None:
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    with pytest.raises(Conflict, match="needs_approval"):
        await gateway.client.delete_run(waiting.id)
    gateway.fakes.executor.gate = asyncio.Event()
    running = await gateway.client.solve(ask(ASK_HOLIDAYS).model_copy(update={"wait": False}))
    await until(lambda: "execute" in gateway.fakes.executor.calls)
    with pytest.raises(Conflict, match="running"):
        await gateway.client.delete_run(running.id)
    gateway.fakes.executor.gate.set()
    assert (await ended(gateway.client, running.id)).status is RunStatus.SUCCEEDED
    await gateway.client.cancel(waiting.id)
    for run_id in (waiting.id, running.id):
        await gateway.client.delete_run(run_id)


async def test_another_tenants_run_is_not_found(tmp_path: Path) -> None:
    people = ({"name": "a", "tenant": "t1", "token": "token-one"}, {"name": "b", "tenant": "t2", "token": "token-two"})
    async with open_gateway(tmp_path, principals=people) as gateway:
        one, two = gateway.as_principal("token-one"), gateway.as_principal("token-two")
        run = await one.solve(ask(ASK_HOLIDAYS))
        with pytest.raises(NotFound):
            await two.delete_run(run.id)
        assert await one.run(run.id) == run


async def test_an_executor_that_is_away_keeps_the_run_findable(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_ROOM, mutations="allow"))
    gateway.fakes.executor.down = True
    with pytest.raises(ServiceUnavailable):
        await gateway.client.delete_run(run.id)
    gateway.fakes.executor.down = False
    assert await gateway.client.run(run.id) == run
    await gateway.client.delete_run(run.id)


async def test_a_run_that_was_approved_more_than_once_is_forgotten_by_all_its_ids(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await gateway.client.solve(ask(ASK_ROOM))
    gateway.fakes.executor.found = "another"
    again = await gateway.client.approve(waiting.id, BOOKING.id, digest=waiting.digest)
    await gateway.client.approve(waiting.id, BOOKING.id, digest=again.digest)
    forgotten: list[str] = []

    async def forget(run_id: str) -> None:
        forgotten.append(run_id)

    monkeypatch.setattr(gateway.fakes.executor, "forget", forget)
    await gateway.client.delete_run(waiting.id)
    assert forgotten == [waiting.id, f"{waiting.id}.1"]


@pytest.mark.parametrize("days", [0.0, 1.0])
async def test_runs_are_kept_as_long_as_the_operator_says(database_url: str, days: float) -> None:
    async with open_gateway(database_url) as gateway:
        over = await gateway.client.solve(ask(ASK_HOLIDAYS))
        waiting = await gateway.client.solve(ask(ASK_ROOM))
        new = await gateway.client.solve(ask(ASK_HOLIDAYS))
    engine = create_engine(database_url)
    async with write(engine) as connection:  # these began long ago
        for number, run in enumerate((over, waiting)):
            for table, column in ((RUNS, RUNS.c.id), (RUN_EVENTS, RUN_EVENTS.c.run_id)):
                statement = table.update().where(column == run.id)
                await connection.execute(statement.values({column.name: f"{OLD}{number}"}))
    await engine.dispose()
    async with open_gateway(database_url, keep_runs_days=days, keep_events_days=10_000) as gateway:
        ids = {new.id, f"{OLD}1"} | (set() if days else {f"{OLD}0"})
        async with asyncio.timeout(20):
            while {line.id for line in (await gateway.client.runs()).runs} != ids:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        if not days:
            assert (await rows(database_url))[0] == 3


async def test_a_stream_of_a_run_that_is_deleted_ends(gateway: Gateway) -> None:
    run = await gateway.client.solve(ask(ASK_HOLIDAYS))
    events = gateway.app.state.service._streams._events.follow(run.id, 0)
    await anext(events)
    await gateway.client.delete_run(run.id)
    async with asyncio.timeout(20):
        assert [event async for event in events][-1].event.kind == "finished"
