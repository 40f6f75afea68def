"""Signals between processes, through a real PostgreSQL and a real Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from services.storage.engine import create_engine
from services.storage.signals import NoSignals, PostgresSignals, RedisSignals, Signals, open_signals
from tests.support.redis import RedisServer

HANG_S = 30


class Ear:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard = 0

    def __call__(self) -> None:
        self.heard += 1

    async def until(self, count: int) -> None:
        """Wait until so many signals have come."""
        async with asyncio.timeout(HANG_S):
            while self.heard < count:  # noqa: ASYNC110 - signals come one by one, also at once
                await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(signals: Signals) -> AsyncIterator[Ear]:
    """An ear that already hears: the first call says that something may have been missed."""
    ear = Ear()
    task = asyncio.create_task(signals.listen(ear))
    await ear.until(1)
    yield ear
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest, channel: str = "news") -> AsyncIterator[Signals]:
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else "sqlite+aiosqlite:///:memory:"
    redis_url = request.getfixturevalue("redis_server").url if kind == "redis" else None
    engine = create_engine(url)
    signals = open_signals(engine, redis_url, channel)
    yield signals
    await signals.close()
    await engine.dispose()


@pytest.mark.parametrize("kind", ["postgresql", "redis"])
async def test_what_one_process_sends_the_others_hear(kind: str, request: pytest.FixtureRequest) -> None:
    async with (
        opened(kind, request) as one,
        opened(kind, request) as two,
        opened(kind, request, "other") as third,
        listening(one) as here,
        listening(two) as there,
        listening(third) as elsewhere,
    ):
        await one.send()
        await asyncio.gather(here.until(2), there.until(2))
        await third.send()
        await elsewhere.until(2)
        assert (here.heard, there.heard) == (2, 2), "a channel is told apart by its name"


async def test_a_redis_that_comes_back_is_listened_to_again(redis_server: RedisServer) -> None:
    signals = RedisSignals(redis_server.url, "news")
    async with listening(signals) as ear:
        redis_server.stop()
        await signals.send()  # lost, and no error
        redis_server.start()
        await ear.until(2)
        await signals.send()
        await ear.until(3)
    await signals.close()


async def test_a_listener_whose_connection_is_cut_listens_again(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    signals = PostgresSignals(engine, "news")
    async with listening(signals) as ear:
        async with engine.connect() as connection:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            assert (await connection.exec_driver_sql(cut)).all() == [(True,)]
        await ear.until(2)
        await signals.send()
        await ear.until(3)
    await engine.dispose()


async def test_nothing_to_connect_to_is_no_failure() -> None:
    engine = create_engine("postgresql+asyncpg://nobody@127.0.0.1:1/none")
    for signals in (PostgresSignals(engine, "news"), RedisSignals("redis://127.0.0.1:1/0", "news"), NoSignals()):
        await signals.send()
    await engine.dispose()
