"""Heartbeats from a separate thread with its own database connection.

On the event loop, heartbeats would be late whenever the loop is blocked, and a working process would lose its runs to
one that takes it for dead. If the loop hangs permanently, the process must lose them: then the heartbeats end too.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event, Thread
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from services.errors import ServiceError
from services.outages import Outage
from services.ownership.members import BEATS_PER_LEASE, Membership
from services.storage.engine import create_engine
from services.telemetry import get_logger

_log = get_logger(__name__)
_HUNG_LEASES: Final = 6
"""The loop counts as hung if it has not run for this many leases."""


class Heartbeat:
    """Renews a member's lease while its context lasts, even if the event loop is blocked for a while."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._pause_s = membership.lease_s / BEATS_PER_LEASE
        self._stop, self._begun, self._loop_seen = Event(), Event(), time.monotonic()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Send heartbeats until the end of the context."""
        self._loop_seen = time.monotonic()
        watch = asyncio.create_task(self._watch_loop())
        self._thread.start()
        try:
            await asyncio.to_thread(self._begun.wait, self._membership.lease_s)  # connecting takes its time
            yield
        finally:
            watch.cancel()
            await self.stop()

    async def stop(self) -> None:
        """Stop the heartbeats. Once this returns, the member can leave. Idempotent."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join, self._membership.lease_s)

    async def _watch_loop(self) -> None:
        while True:
            self._loop_seen = time.monotonic()
            await asyncio.sleep(self._pause_s)

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        """Send heartbeats until stopped. Errors, such as an unreachable database, are logged and do not end it."""
        engine, outage = create_engine(self._membership.url), Outage(f"the heartbeat of {self._membership.id}")
        try:
            while not self._stop.is_set():
                if time.monotonic() - self._loop_seen < _HUNG_LEASES * self._membership.lease_s:
                    await _beat_once(self._membership, engine, outage)
                    self._begun.set()
                self._stop.wait(self._pause_s)  # nothing else runs on this thread's loop
        finally:
            await engine.dispose()


async def _beat_once(member: Membership, engine: AsyncEngine, outage: Outage) -> None:
    try:
        await member.beat(engine)
        outage.worked()
    except ServiceError as error:
        outage.failed(error)
    except Exception as error:  # noqa: BLE001 - an error must not end the heartbeats of a live process
        _log.error("bug", exc_info=error)
