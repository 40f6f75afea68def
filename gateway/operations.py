"""The state of processes, model servers and quotas. The operator sees all of it, a tenant only its own quotas."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from gateway.peers import Peers
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.storage import RunStore
from services.contracts.operations import Operations
from services.errors import ServiceError

T = TypeVar("T")
_TIMEOUT_S: Final = 5.0


class Overview:
    """Reports the state of the processes.

    Args:
        peers: the other services; the executor and the planner are asked for their status.
        store: the run store, whose database the gateways share.
        quotas: what tenants use of this process.
        lease_s: seconds without a heartbeat after which a gateway counts as dead.
    """

    def __init__(self, peers: Peers, store: RunStore, quotas: Quotas, lease_s: float) -> None:
        self._peers, self._store, self._quotas, self._lease_s = peers, store, quotas, lease_s

    async def now(self, principal: Principal) -> Operations:
        """The current state. Tenants only get their own quotas: processes, hosts and servers are shared by everyone."""
        if not principal.operator:
            used = self._quotas.used(principal.tenant)
            return Operations(tenant=principal.tenant, lease_s=self._lease_s, quotas=used)
        workers, executor, planner = await asyncio.gather(
            self._store.workers(self._lease_s),
            _status_or_none(self._peers.executor.status()),
            _status_or_none(self._peers.planner.status()),
        )
        return Operations(
            lease_s=self._lease_s, workers=workers, executor=executor, planner=planner, quotas=self._quotas.used()
        )


async def _status_or_none(asked: Awaitable[T]) -> T | None:
    """The status that a service reports; None where it does not answer."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asked
    except (ServiceError, TimeoutError):
        return None
