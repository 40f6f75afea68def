"""A word to the other processes of a service: something has changed, look at the database.

A signal may be lost, come twice or come late: whoever listens looks for itself, and looks now and then without being
told. So nothing here fails a request, and a signal carries nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.telemetry import get_logger

_AGAIN_S = 1.0
"""Pause before a connection that was lost is opened again."""
_ALIVE_S = 15.0
"""A connection on which nothing comes is asked for a sign of life so often: one that is gone says nothing itself."""
_ANSWER_S = 5.0
_log = get_logger(__name__)


class Signals(Protocol):
    """One channel between processes."""

    async def send(self) -> None:
        """Wake the others. One that cannot be sent is lost."""

    async def listen(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` at each signal, and whenever one may have been missed, until cancelled."""

    async def close(self) -> None:
        """Let go of connections."""


class NoSignals:
    """Nobody tells, nobody listens."""

    async def send(self) -> None:
        """Nothing."""

    async def listen(self, woken: Callable[[], None]) -> None:
        """Return."""

    async def close(self) -> None:
        """Nothing to let go of."""


class PostgresSignals:
    """``NOTIFY`` and ``LISTEN`` on a channel of the database; who listens keeps a connection of the pool.

    Args:
        engine: of the database.
        channel: its name.
    """

    def __init__(self, engine: AsyncEngine, channel: str) -> None:
        self._engine, self._channel = engine, channel

    async def send(self) -> None:
        """See :class:`Signals`."""
        try:
            async with asyncio.timeout(_ANSWER_S), self._engine.begin() as connection:
                await connection.execute(select(func.pg_notify(self._channel, "")))
        except (SQLAlchemyError, OSError) as error:  # a TimeoutError is an OSError
            _log.warning("signal_not_sent", reason=type(error).__name__)

    async def listen(self, woken: Callable[[], None]) -> None:
        """See :class:`Signals`."""
        await _keep(self._listen_once, woken)

    async def close(self) -> None:
        """The engine's owner closes it."""

    async def _listen_once(self, woken: Callable[[], None]) -> None:
        async with self._engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            closed = asyncio.Event()
            driver.add_termination_listener(lambda _: closed.set())
            try:
                await driver.add_listener(self._channel, lambda *_: woken())
                woken()  # what was sent before is lost
                while not closed.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_ALIVE_S):
                            await closed.wait()
                    await driver.execute("SELECT 1", timeout=_ANSWER_S)
            finally:
                # Not given back to the pool: it listens.
                await connection.invalidate()


class RedisSignals:
    """``PUBLISH`` and ``SUBSCRIBE`` on a channel of a Redis.

    Args:
        url: of the Redis.
        channel: its name.
    """

    def __init__(self, url: str, channel: str) -> None:
        self._redis: Redis = Redis.from_url(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)
        self._channel = channel

    async def send(self) -> None:
        """See :class:`Signals`."""
        try:
            await self._redis.publish(self._channel, b"")
        except (RedisError, OSError) as error:
            _log.warning("signal_not_sent", reason=type(error).__name__)

    async def listen(self, woken: Callable[[], None]) -> None:
        """See :class:`Signals`."""
        await _keep(self._listen_once, woken)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _listen_once(self, woken: Callable[[], None]) -> None:
        async with self._redis.pubsub() as subscription:
            await subscription.subscribe(self._channel)
            woken()  # what was sent before is lost
            while True:
                message = await subscription.get_message(ignore_subscribe_messages=True, timeout=_ALIVE_S)
                if message is not None:
                    woken()
                    continue
                async with asyncio.timeout(_ANSWER_S):
                    await self._redis.ping()


def open_signals(engine: AsyncEngine, redis_url: str | None, channel: str) -> Signals:
    """Redis where one is given, else the database where it can: PostgreSQL. Channels of one name belong together."""
    if redis_url:
        return RedisSignals(redis_url, channel)
    return PostgresSignals(engine, channel) if engine.dialect.name == "postgresql" else NoSignals()


async def _keep(listen: Callable[[Callable[[], None]], Awaitable[None]], woken: Callable[[], None]) -> None:
    """Listen until cancelled, again after every lost connection."""
    while True:
        try:
            await listen(woken)
        except Exception as error:  # noqa: BLE001 - drivers have many ways to say that a connection is gone
            _log.warning("signals_interrupted", reason=type(error).__name__)
        await asyncio.sleep(_AGAIN_S)
