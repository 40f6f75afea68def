"""A memory budget, in bytes, for what many hold at once: answers of calls, candidates of plans, large request bodies.

The size limit of one answer does not bound the memory of many. So the executor takes the bytes of an answer beyond its
first 64 kB from the budget while it is read, parsed, checked and masked. The values of a request, from other answers or
the plan, are taken from it, too, before the request is built. For plans see
:mod:`gateway.planning_room`. The bodies of requests (:mod:`services.http`) are each a "host" of their own.

One tenant gets at most half of the budget, since it may call any number of upstreams that stall in the middle of their
answers. One upstream gets at most three quarters: so if it stalls for several tenants, it blocks only its own calls,
and what one tenant holds of it leaves room for the calls of others to it. The oldest share in the queue always gets
what it asks for. This prevents a deadlock in which every call waits for the others.

Thousands of calls may wait. So sums are kept, and bytes that come back are offered in turns: to each tenant, and of its
calls to the first of each upstream. Whatever waits behind a call that finds no room is not looked at. A call that holds
bytes already, of an answer that is half read, waits behind none that holds nothing: it would give its own back.
"""

import asyncio
from collections import Counter, OrderedDict
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

FREE_BYTES: Final = 64 * 1024
"""Bytes that every answer may hold outside the budget."""
_Name = TypeVar("_Name", str, tuple[str, str])
_Place = tuple[str, bool]
"""The queue that a share waits in: its host, and whether it holds bytes already."""


class BudgetTimeout(Exception):
    """The budget had too few free bytes until the time-out."""


class ByteBudget:
    """A budget of ``limit`` bytes. Callers wait at most ``patience_s`` seconds for free bytes."""

    def __init__(self, limit: int, patience_s: float) -> None:
        self.limit, self.patience_s = limit, patience_s
        self._held = 0
        self._by_host: Counter[str] = Counter()
        self._by_tenant: Counter[str] = Counter()
        self._by_both: Counter[tuple[str, str]] = Counter()
        self._shares: OrderedDict[Share, None] = OrderedDict()  # in the order in which they first asked
        self._own: dict[str, OrderedDict[Share, None]] = {}
        # Those that wait: by tenant and place, in the order of their next turns.
        self._waiting: OrderedDict[str, OrderedDict[_Place, OrderedDict[Share, None]]] = OrderedDict()

    def share(self, host: str, tenant: str) -> "Share":
        """The share of a tenant's call to this host. Use it in a ``with`` statement."""
        return Share(self, host, tenant)

    async def take(self, share: "Share", size: int) -> None:
        """Give ``size`` more bytes to a share, once they are free."""
        self._shares.setdefault(share)
        self._own.setdefault(share.tenant, OrderedDict()).setdefault(share)
        share.place = (share.host, share.held > 0)
        oldest = next(iter(self._shares)) is share
        if (oldest or share.place not in self._waiting.get(share.tenant, ())) and self._obstacle(share, size) is None:
            self._add(share, size)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        share.asked, share.granted = size, granted
        hosts = self._waiting.setdefault(share.tenant, OrderedDict())
        hosts.setdefault(share.place, OrderedDict())[share] = None
        if share.held:
            hosts.move_to_end(share.place, last=False)
        try:
            await granted
        except asyncio.CancelledError:
            if waits := share.granted is granted:
                self._leave_queue(share)
            self.returned(share, 0 if waits else size)  # it may have got them in the meantime
            raise

    def returned(self, share: "Share", size: int) -> None:
        """Note that a share has given bytes back or stopped waiting. Offer the free bytes to those that wait."""
        self._add(share, -size)
        if not share.held and share in self._shares:
            del self._shares[share]
            own = self._own[share.tenant]
            del own[share]
            if not own:
                del self._own[share.tenant]
        while self._waiting:
            first = next(iter(self._shares))
            if first.granted is not None:
                self._grant(first)
            elif not [tenant for tenant in list(self._waiting) if self._offer(tenant)]:
                return

    def _offer(self, tenant: str) -> bool:
        """Give one of a tenant's calls what it waits for, if there is room. Whether one got it."""
        oldest = next(iter(self._own[tenant]))
        if oldest.granted is not None and self._obstacle(oldest, oldest.asked) is None:
            self._grant(oldest)
            return True
        for queue in self._waiting[tenant].values():
            share = next(iter(queue))
            obstacle = self._obstacle(share, share.asked)
            if obstacle is None:
                self._grant(share)
                return True
            if obstacle == "others" and not share.held:
                return False  # nobody passes it, so it gets what becomes free
        return False

    def _obstacle(self, share: "Share", size: int) -> Literal["host", "others"] | None:
        """What keeps a share from taking ``size`` more bytes: the calls to its host, or others. None: it may."""
        if next(iter(self._shares)) is share:
            return None
        own = self._by_both[share.tenant, share.host]
        if own + size > self.limit // 2 or self._by_host[share.host] + size > self.limit * 3 // 4:
            return "host"
        if self._held + size > self.limit:
            return "others"
        oldest = next(iter(self._own[share.tenant])) is share
        return None if oldest or self._by_tenant[share.tenant] + size <= self.limit // 2 else "others"

    def _grant(self, share: "Share") -> None:
        """Give a share what it waits for. The next turns are those of other tenants, and of other hosts."""
        granted = share.granted
        assert granted is not None
        self._leave_queue(share)
        if (hosts := self._waiting.get(share.tenant)) is not None:
            self._waiting.move_to_end(share.tenant)
            if not share.held and share.place in hosts:
                hosts.move_to_end(share.place)
        self._add(share, share.asked)
        if not granted.done():
            granted.set_result(None)

    def _leave_queue(self, share: "Share") -> None:
        share.granted = None
        hosts = self._waiting[share.tenant]
        del hosts[share.place][share]
        if not hosts[share.place]:
            del hosts[share.place]
        if not hosts:
            del self._waiting[share.tenant]

    def _add(self, share: "Share", size: int) -> None:
        share.held += size
        self._held += size
        _count(self._by_host, share.host, size)
        _count(self._by_tenant, share.tenant, size)
        _count(self._by_both, (share.tenant, share.host), size)


def _count(sums: "Counter[_Name]", name: _Name, size: int) -> None:
    sums[name] += size
    if not sums[name]:
        del sums[name]


class Share:
    """The part of a budget that one call holds.

    Attributes:
        host: the upstream's host.
        tenant: the tenant that calls it.
        held: bytes held.
        place: the queue that it waits in, or waited in last.
        asked: further bytes that it waits for, or waited for last.
        granted: done once it gets them; None unless it waits.
    """

    def __init__(self, budget: ByteBudget, host: str, tenant: str) -> None:
        self._budget, self.host, self.tenant, self.held = budget, host, tenant, 0
        self.place: _Place = (host, False)
        self.asked = 0
        self.granted: asyncio.Future[None] | None = None

    async def take(self, size: int, until: float) -> None:
        """Take ``size`` more bytes; wait for them until ``until``, a reading of the loop's clock.

        Raises:
            BudgetTimeout: there were too few free bytes until then.
        """
        try:
            async with asyncio.timeout_at(until):
                await self._budget.take(self, size)
        except TimeoutError:
            raise BudgetTimeout from None

    def give_back(self, size: int) -> None:
        """Give ``size`` bytes back."""
        if size:
            self._budget.returned(self, size)

    def __enter__(self) -> Self:
        """Start with no bytes held."""
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give everything back."""
        self.give_back(self.held)
