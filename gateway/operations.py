"""How the gateway's and the executor's processes are, for the operator."""

import asyncio

from gateway.peers import Peers
from gateway.principals import Principal
from gateway.storage import RunStore
from services.contracts.operations import ExecutorStatus, Operations
from services.errors import Forbidden, ServiceError


class Overview:
    """Looks at the processes.

    Args:
        peers: of whom the executor is asked.
        store: whose database the gateways share.
        lease_s: seconds after which a gateway that was not seen counts as dead.
    """

    def __init__(self, peers: Peers, store: RunStore, lease_s: float) -> None:
        self._peers, self._store, self._lease_s = peers, store, lease_s

    async def now(self, principal: Principal) -> Operations:
        """How they are now. Raises Forbidden for tenants: hosts and processes are everyone's."""
        if not principal.operator:
            raise Forbidden("Only the operator's administrators see processes and hosts.")
        workers, executor = await asyncio.gather(self._store.workers(self._lease_s), self._executor())
        return Operations(lease_s=self._lease_s, workers=workers, executor=executor)

    async def _executor(self) -> ExecutorStatus | None:
        try:
            return await self._peers.executor.status()
        except ServiceError:
            return None
