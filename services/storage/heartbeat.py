"""Signs of life from a thread of its own, with a database connection of its own.

On the event loop they would come late whenever something holds it up, and a process that works would lose what it owns
to one that believes it dead. A loop that hangs for good must lose it: then the signs end, too.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event, Thread
from typing import Final

from services.errors import ServiceError
from services.storage.engine import create_engine
from services.storage.members import Membership
from services.telemetry import get_logger

_log = get_logger(__name__)
_BEATS_PER_LEASE: Final = 5
_HUNG_LEASES: Final = 6
"""After so many leases without its turn, the loop counts as hung."""


class Heartbeat:
    """Beats for a member while its context lasts, be the loop held up for a while or not."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._pause_s = membership.lease_s / _BEATS_PER_LEASE
        self._stop, self._begun, self._loop_seen = Event(), Event(), time.monotonic()
        self._thread = Thread(target=self._run, name="heartbeat", daemon=True)

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Beat from now on until the end of the context."""
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
        """Beat no more; once this returns the member can leave. A second time changes nothing."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join, self._membership.lease_s)

    async def _watch_loop(self) -> None:
        while True:
            self._loop_seen = time.monotonic()
            await asyncio.sleep(self._pause_s)

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        """Beat until told to stop. A database that is away for a moment ends nothing, and no bug does."""
        engine = create_engine(self._membership.url)
        member = self._membership.over(engine)
        try:
            while not self._stop.is_set():
                if time.monotonic() - self._loop_seen < _HUNG_LEASES * self._membership.lease_s:
                    await _beat_once(member)
                    self._begun.set()
                self._stop.wait(self._pause_s)  # nothing else runs on this thread's loop
        finally:
            await engine.dispose()


async def _beat_once(member: Membership) -> None:
    try:
        await member.beat()
    except ServiceError as error:
        _log.warning("the heartbeat could not be written", member=member.id, why=error.detail)
    except Exception as error:  # noqa: BLE001 - a process that is alive must not be taken for dead
        _log.error("bug", exc_info=error)
