"""Notifies the other processes of a service that the database has changed.

A signal has no payload. It may be lost, duplicated or late, so listeners read the database themselves and also poll it
from time to time. Errors here never fail a request.
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

from services.outages import Outage
from services.telemetry import get_logger

_RECONNECT_S = 1.0
"""Pause before a lost connection is opened again."""
_CHECK_S = 15.0
"""How often a silent connection is checked. A broken connection does not report that itself."""
_ANSWER_S = 5.0
_log = get_logger(__name__)


class Signals(Protocol):
    """A notification channel between processes."""

    async def send(self) -> None:
        """Notify the other processes. A signal that cannot be sent is lost."""

    async def listen(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` at each signal, and whenever one may have been missed, until cancelled."""

    async def close(self) -> None:
        """Close connections."""


class NoSignals:
    """Sends and receives no signals."""

    async def send(self) -> None:
        """Do nothing."""

    async def listen(self, woken: Callable[[], None]) -> None:
        """Return at once."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class PostgresSignals:
    """``NOTIFY`` and ``LISTEN`` on a channel of the database. Listening occupies a connection of the pool.

    Args:
        engine: engine of the database.
        channel: name of the channel.
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
        await _listen_forever(self._listen_once, woken)

    async def close(self) -> None:
        """The engine's owner closes it."""

    async def _listen_once(self, woken: Callable[[], None]) -> None:
        async with self._engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            closed = asyncio.Event()
            driver.add_termination_listener(lambda _: closed.set())
            try:
                await driver.add_listener(self._channel, lambda *_: woken())
                woken()  # a signal may have been missed before
                while not closed.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_CHECK_S):
                            await closed.wait()
                    await driver.execute("SELECT 1", timeout=_ANSWER_S)
            finally:
                # Do not return it to the pool: it still listens.
                await connection.invalidate()


class RedisSignals:
    """``PUBLISH`` and ``SUBSCRIBE`` on a channel of a Redis.

    Args:
        url: URL of the Redis.
        channel: name of the channel.
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
        await _listen_forever(self._listen_once, woken)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _listen_once(self, woken: Callable[[], None]) -> None:
        async with self._redis.pubsub() as subscription:
            await subscription.subscribe(self._channel)
            woken()  # a signal may have been missed before
            while True:
                message = await subscription.get_message(ignore_subscribe_messages=True, timeout=_CHECK_S)
                if message is not None:
                    woken()
                    continue
                async with asyncio.timeout(_ANSWER_S):
                    await self._redis.ping()


def open_signals(engine: AsyncEngine, redis_url: str | None, channel: str) -> Signals:
    """Redis if a URL is given, else PostgreSQL if that is the database, else none. Equal names share a channel."""
    if redis_url:
        return RedisSignals(redis_url, channel)
    return PostgresSignals(engine, channel) if engine.dialect.name == "postgresql" else NoSignals()


async def _listen_forever(listen: Callable[[Callable[[], None]], Awaitable[None]], woken: Callable[[], None]) -> None:
    """Listen until cancelled, and reconnect after every lost connection."""
    outage = Outage("listening for changes of others")

    def heard() -> None:
        outage.worked()
        woken()

    while True:
        try:
            await listen(heard)
        except Exception as error:  # noqa: BLE001 - drivers raise many different errors for a lost connection
            outage.failed(error)
        await asyncio.sleep(_RECONNECT_S)
