"""Slots that tenants share. Waiting requests are served round-robin by tenant, not first come first served.

For use in one event loop. CPU-bound work has its own scheduler (:mod:`services.compute`).
"""

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from services.errors import Overloaded


class FairSlots:
    """Slots, and requests that wait for one in a queue per tenant. A number that is not given has no bound.

    A free slot goes to the next tenant, round-robin, that has a waiting request and holds fewer than ``each`` slots.

    Args:
        slots: how many slots may be held at once.
        waiting: how many requests may wait, all tenants together; further ones are refused.
        each: how many slots one tenant may hold.
        what: what the slots are for; used in the error message.
    """

    def __init__(
        self, slots: int | None = None, waiting: int | None = None, each: int | None = None, what: str = "requests"
    ) -> None:
        self._slots = sys.maxsize if slots is None else slots
        self._max_waiting = sys.maxsize if waiting is None else waiting
        self._each, self._what = each or self._slots, what
        self._held: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def free(self) -> int:
        """Number of free slots; negative if :meth:`take` exceeded their number."""
        return self._slots - self._held.total()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._queues.values()))

    @property
    def tenants(self) -> set[str]:
        """The tenants that hold a slot or wait for one."""
        return {*self._held, *self._queues}

    def waits(self, tenant: str) -> int:
        """How many slots a tenant waits for."""
        return len(self._queues.get(tenant, ()))

    def held(self, tenant: str) -> int:
        """How many slots a tenant holds or waits for."""
        return self._held[tenant] + len(self._queues.get(tenant, ()))

    def take(self, tenant: str) -> None:
        """Take a slot at once, even if none is free. For work that must not be refused."""
        self._held[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Give a slot back. It goes to the next tenant in turn."""
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._grant()

    async def enter(self, tenant: str, wait_s: float) -> None:
        """Take a slot; wait if none is free.

        Raises:
            Overloaded: too many requests wait already, or no slot was granted within ``wait_s`` seconds.
        """
        if tenant not in self._queues and self.free > 0 and self._held[tenant] < self._each:
            self.take(tenant)
            return
        if self.waiting >= self._max_waiting:
            raise Overloaded(f"Too many active {self._what}.", retry_after_s=1)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(granted)
        self._grant()  # slots may be free while other tenants wait, if those hold their maximum
        try:
            async with asyncio.timeout(wait_s):
                await granted
        except BaseException as error:
            self._give_up(tenant, granted)
            if isinstance(error, TimeoutError):
                raise Overloaded(f"Too many active {self._what}.", retry_after_s=1) from None
            raise

    @asynccontextmanager
    async def slot(self, tenant: str, wait_s: float) -> AsyncGenerator[None, None]:
        """Hold a slot. Raises Overloaded as :meth:`enter` does."""
        await self.enter(tenant, wait_s)
        try:
            yield
        finally:
            self.leave(tenant)

    def _give_up(self, tenant: str, granted: "asyncio.Future[None]") -> None:
        """Leave the queue. A slot that was granted in the meantime is given back."""
        queue = self._queues.get(tenant)
        if queue is not None and granted in queue:
            queue.remove(granted)
            if not queue:
                del self._queues[tenant]
        elif not granted.cancelled():
            self.leave(tenant)

    def _grant(self) -> None:
        while self.free > 0:
            tenant = next((one for one in self._queues if self._held[one] < self._each), None)
            if tenant is None:
                return
            queue = self._queues[tenant]
            granted = queue.popleft()
            if queue:
                self._queues.move_to_end(tenant)
            else:
                del self._queues[tenant]
            if not granted.done():
                self.take(tenant)
                granted.set_result(None)
