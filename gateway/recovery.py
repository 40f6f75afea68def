"""Lets several gateways work together: heartbeats, takeover of runs whose process stopped, and cancel requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from gateway.events import Events
from gateway.runs import Runs
from gateway.settings import GatewaySettings
from gateway.storage import RunStore
from services.errors import ServiceError
from services.ownership.heartbeat import Heartbeat
from services.ownership.members import Membership
from services.periodic import PeriodicTask, stop

_TAKEOVERS_PER_LEASE: Final = 5
_CANCEL_POLL_S: Final = 0.5
_WRITE_EVERY_S: Final = 0.2
_DELETE_EVERY_S: Final = 3_600.0
_BETWEEN_BATCHES_S: Final = 0.1
_DAY_S: Final = 86_400.0


class Recovery:
    """Keeps runs going when the process that works on them stops."""

    def __init__(
        self, runs: Runs, store: RunStore, events: Events, membership: Membership, settings: GatewaySettings
    ) -> None:
        self._runs, self._store, self._events, self._membership = runs, store, events, membership
        self._keep_events_s = settings.keep_events_days * _DAY_S
        self._keep_runs_s = settings.keep_runs_days * _DAY_S

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None, None]:
        """Be a member until the end of the context. Other processes then take over unfinished runs at once."""
        await self._membership.beat()
        lease_s = self._membership.lease_s
        heartbeat = Heartbeat(self._membership)
        async with heartbeat.beating():
            reaper = [PeriodicTask(self._take_over, lease_s / _TAKEOVERS_PER_LEASE)]
            periodic = [
                PeriodicTask(self._events.write, _WRITE_EVERY_S),
                PeriodicTask(self._cancel_requested_runs, _CANCEL_POLL_S),
                PeriodicTask(self._delete_old, _DELETE_EVERY_S),
            ]
            try:
                yield
            finally:
                await stop(reaper, lease_s)
                await self._runs.close()
                self._events.close()
                await stop(periodic, lease_s)
                await heartbeat.stop()
                with suppress(ServiceError, TimeoutError):
                    async with asyncio.timeout(lease_s):
                        await self._membership.leave()

    async def _take_over(self) -> None:
        """Take over the runs of dead processes, of each tenant as many as it may have here."""
        after = ""
        while self._runs.room > 0:
            stored = await self._store.take_over(self._membership, self._runs.lives, after, self._runs.full())
            if stored is None:
                return
            after = stored.run.id
            self._runs.resume_taken_over(stored)

    async def _cancel_requested_runs(self) -> None:
        """Cancel the runs of this process that another process was asked to cancel."""
        if self._runs.lives:
            for run_id in await self._store.cancelled(self._runs.owner):
                self._runs.cancel(run_id)

    async def _delete_old(self) -> None:
        while await self._store.forget_events(self._keep_events_s) or (  # noqa: ASYNC110 - it waits for no event
            self._keep_runs_s and await self._store.forget_runs(self._keep_runs_s)
        ):
            await asyncio.sleep(_BETWEEN_BATCHES_S)  # requests come first
