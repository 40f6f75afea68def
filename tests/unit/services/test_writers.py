"""Turns at writing and reading, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.compute import for_tenant
from services.errors import Overloaded, ServiceUnavailable
from services.storage import engine as engine_module
from services.storage.engine import create_engine, read, write
from services.storage.writers import Writers

COUNTER = sa.Table("counter", sa.MetaData(), sa.Column("version", sa.Integer))
LOCK = sa.update(COUNTER).values(version=COUNTER.c.version + 1)
HANG_S = 15.0
"""A guard: less than the 30 s that an exhausted pool, and the 20 s that SQLite, would be waited for."""


async def opened(url: str) -> AsyncEngine:
    engine = create_engine(url)
    async with write(engine) as connection:
        await connection.run_sync(COUNTER.metadata.create_all)
        await connection.execute(sa.insert(COUNTER).values(version=0))
    return engine


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = await opened(database_url)
    yield engine
    await engine.dispose()


async def version(engine: AsyncEngine) -> int | None:
    async with read(engine) as connection:
        return await connection.scalar(sa.select(COUNTER.c.version))


async def queued(writers: Writers, tenants: str, order: list[str]) -> list["asyncio.Task[None]"]:
    async def change(tenant: str) -> None:
        async with writers.turn(tenant):
            order.append(tenant)

    tasks = [asyncio.create_task(change(tenant)) for tenant in tenants]
    await asyncio.sleep(0)
    return tasks


async def test_writers_that_wait_hold_no_connection(engine: AsyncEngine) -> None:
    writers, order = Writers(engine, LOCK, "changes"), list[str]()
    async with writers.turn("red"):
        tasks = await queued(writers, "r" * 40, order)
        for _ in range(200):  # those that ask for a connection get as far as they can
            await asyncio.sleep(0.001)
        assert await asyncio.wait_for(version(engine), HANG_S) == 0
        assert engine.pool.checkedout() == 1  # type: ignore[attr-defined]
    await asyncio.gather(*tasks)
    assert await version(engine) == 41


async def test_tenants_take_turns(engine: AsyncEngine) -> None:
    writers, order = Writers(engine, LOCK, "changes"), list[str]()
    async with writers.turn("red"):
        tasks = await queued(writers, "rrrrb", order)
    await asyncio.gather(*tasks)
    assert "".join(order) == "rbrrr"


async def test_one_tenant_does_not_take_all_places_in_the_queue(engine: AsyncEngine) -> None:
    writers, order = Writers(engine, LOCK, "changes"), list[str]()
    async with writers.turn("red"):
        tasks = await queued(writers, "r" * 64, order)
        with pytest.raises(Overloaded, match="of this tenant"):
            async with writers.turn("r"):
                pass
        tasks += await queued(writers, "b", order)
    await asyncio.gather(*tasks)
    assert sorted(order) == ["b", *"r" * 64]


async def test_a_writer_that_fails_passes_its_turn_on(engine: AsyncEngine) -> None:
    writers = Writers(engine, LOCK, "changes")
    with pytest.raises(RuntimeError):
        async with writers.turn("red"):
            raise RuntimeError
    async with writers.turn("red"):
        pass
    assert await version(engine) == 1


async def test_a_lock_of_another_process_held_too_long_is_busy_and_no_outage(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LOCK_PATIENCE_MS", 20)
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 20)
    async with write(engine) as connection:
        await connection.execute(LOCK)
        other = create_engine(engine.url.render_as_string(hide_password=False))
        with pytest.raises(Overloaded, match="busy") as caught:
            async with Writers(other, LOCK, "changes").turn(None):
                pass
    assert caught.value.extensions["retry_after_s"] == 1
    async with Writers(other, LOCK, "changes").turn(None):
        pass
    await other.dispose()
    assert await version(engine) == 2


async def test_the_time_of_a_transaction_begins_when_it_has_the_lock(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(postgres_url)

    async def change() -> None:
        async with write(engine, LOCK) as connection:
            await connection.execute(sa.select(sa.func.pg_sleep(2)))

    async with write(engine) as connection:
        await connection.execute(LOCK)
        task = asyncio.create_task(change())
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        async with asyncio.timeout(HANG_S):
            while not await connection.scalar(waiting):  # noqa: ASYNC110 - nothing tells that it waits
                await asyncio.sleep(0.01)
        monkeypatch.setattr(engine_module, "PATIENCE_S", 0.05)  # for what begins now
    with pytest.raises(ServiceUnavailable):
        await task
    monkeypatch.undo()
    assert await version(engine) == 1
    await engine.dispose()


async def test_writes_of_tenants_take_turns_and_leave_connections_to_reads(engine: AsyncEngine) -> None:
    """Hundreds of one tenant's were made first, and those that waited for a lock had all connections."""
    transactions, done = engine_module.Transactions(engine), list[str]()

    async def write_once(tenant: str, number: int) -> None:
        for_tenant.set(tenant)
        adding = sa.insert(COUNTER).values(version=number)
        await transactions.run(lambda connection: connection.execute(adding))
        done.append(tenant)

    async with write(engine) as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(sa.text("LOCK TABLE counter IN SHARE MODE"))
        flood = [asyncio.create_task(write_once("flood", number)) for number in range(100)]
        await asyncio.sleep(0.1)
        other = asyncio.create_task(write_once("other", 0))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(10):
            assert await version(engine) == 0
    await asyncio.gather(*flood, other)
    assert done.index("other") < 20
    transactions.close()


async def test_reads_of_tenants_take_turns(engine: AsyncEngine) -> None:
    transactions, done = engine_module.Transactions(engine, read_only=True), list[str]()

    async def read_once(tenant: str) -> None:
        for_tenant.set(tenant)
        await transactions.run(lambda connection: connection.scalar(sa.select(COUNTER.c.version)))
        done.append(tenant)

    await asyncio.gather(*(read_once(tenant) for tenant in ["flood"] * 100 + ["other"]))
    assert done.index("other") < 50  # 100 without turns; some are read before the other's connection is open
    transactions.close()
