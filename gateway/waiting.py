"""Waits for a run to end, in this process or in another one."""

import asyncio
from contextlib import suppress
from typing import Final

from gateway.live import Live
from gateway.quotas import Quotas
from gateway.runs import Runs
from gateway.solve import Clock
from gateway.storage import UNDER_WAY, RunStore
from services.contracts.run import Run

_POLL_S: Final = 0.25


class Waiting:
    """Waits for runs, at most until the deadline of whoever asked."""

    def __init__(self, store: RunStore, runs: Runs, quotas: Quotas) -> None:
        self._store, self._runs, self._quotas = store, runs, quotas

    async def for_outcome(self, live: Live, tenant: str, clock: Clock) -> Run:
        """The run of this process once its work is done. If another process took it over, see :meth:`for_end`."""
        run = await asyncio.shield(live.outcome)
        return run if run is not None else await self.for_end(live.run.id, tenant, clock, begun=True)

    async def for_end(self, run_id: str, tenant: str, clock: Clock, *, begun: bool = False) -> Run:
        """A run of any process once it has ended, or as it is at the deadline.

        Args:
            run_id: the run.
            tenant: its tenant.
            clock: the deadline.
            begun: whether this request has begun it, so that it is not refused whatever the tenant has read.

        Raises:
            QuotaExceeded: the run was begun before, and the tenant has read too much, or has as many streams as it may:
                a request that waits for a run of another request counts as one of these.
        """
        if not begun and await self._store.status(run_id) in UNDER_WAY:
            self._quotas.check("streams", tenant)
            with self._quotas.holding("streams", tenant):
                await self._until_its_end(run_id, clock)
        else:
            await self._until_its_end(run_id, clock)
        return await self._store.get(run_id, tenant, further=begun)

    async def _until_its_end(self, run_id: str, clock: Clock) -> None:
        while await self._store.status(run_id) in UNDER_WAY and clock.remaining_s() > 0:
            live = self._runs.lives.get(run_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, clock.remaining_s())):
                    await (asyncio.sleep(_POLL_S) if live is None else live.ended.wait())
