"""Being one of several gateways: signs of life, runs of those that stopped, and what others ask of this one's runs."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final

from gateway.events import Events
from gateway.runs import Runs
from gateway.storage import RunStore
from services.errors import ServiceError
from services.storage.members import Membership
from services.telemetry import get_logger

_log = get_logger(__name__)
_LOOKS_PER_LEASE: Final = 5
_HEAR_EVERY_S: Final = 0.5


class Recovery:
    """Keeps runs going whatever becomes of the process that worked on them."""

    def __init__(self, runs: Runs, store: RunStore, events: Events, membership: Membership) -> None:
        self._runs, self._store, self._events, self._membership = runs, store, events, membership

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None, None]:
        """Be a member until the end of the context; what is under way then is left to others at once."""
        await self._membership.beat()
        keepers = (self._membership.keep_beating(), self._events.write_forever(), self._hear())
        tasks = [asyncio.create_task(keeper) for keeper in keepers]
        reaper = asyncio.create_task(self._look_after_orphans())
        try:
            yield
        finally:
            await _cancel([reaper])
            await self._runs.close()
            self._events.close()
            await _cancel(tasks)
            with suppress(ServiceError, TimeoutError):
                async with asyncio.timeout(self._membership.lease_s):
                    await self._membership.leave()

    async def _look_after_orphans(self) -> None:
        while True:
            try:
                if self._runs.room > 0:
                    for stored in await self._store.take_over(self._membership, self._runs.lives, self._runs.room):
                        self._runs.take_up(stored)
            except ServiceError as error:
                _log.warning("orphans cannot be looked for", why=error.detail)
            await asyncio.sleep(self._membership.lease_s / _LOOKS_PER_LEASE)

    async def _hear(self) -> None:
        """Cancel the runs that other processes were asked to cancel."""
        while True:
            await asyncio.sleep(_HEAR_EVERY_S)
            if self._runs.lives:
                try:
                    for run_id in await self._store.cancelled(self._runs.owner):
                        self._runs.cancel(run_id)
                except ServiceError as error:
                    _log.warning("cancellations cannot be heard of", why=error.detail)


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
