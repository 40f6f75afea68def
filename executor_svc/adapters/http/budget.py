"""A memory budget for the answers of all calls in flight, in bytes.

The size limit of one answer does not bound the memory of many. So the bytes of an answer beyond its first 64 kB are
taken from the budget while it is read, parsed, checked and masked. The values of a request, from other answers or the
plan, are taken from it, too, before the request is built.

One upstream gets at most half of the budget, so an upstream that stalls in the middle of its answers blocks only its
own calls; so does one tenant, which may call any number of upstreams that stall. The oldest share in the queue always
gets what it asks for. This prevents a deadlock in which every call waits for the others.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

FREE_BYTES: Final = 64 * 1024
"""Bytes that every answer may hold outside the budget."""


class BudgetTimeout(Exception):
    """The budget had too few free bytes until the time-out."""


class AnswerBudget:
    """A budget of ``limit`` bytes. Callers wait at most ``patience_s`` seconds for free bytes."""

    def __init__(self, limit: int, patience_s: float) -> None:
        self.limit, self.patience_s = limit, patience_s
        self._shares: dict[Share, None] = {}  # in the order in which they first asked
        self._changed = asyncio.Event()

    def share(self, host: str, tenant: str) -> "Share":
        """The share of a tenant's call to this host. Use it in a ``with`` statement."""
        return Share(self, host, tenant)

    def fits(self, share: "Share", size: int) -> bool:
        """Whether a share may take ``size`` more bytes."""
        if next(iter(self._shares)) is share:
            return True
        held = sum(one.held for one in self._shares)
        same = sum(one.held for one in self._shares if one.host == share.host)
        if held + size > self.limit or same + size > self.limit // 2:
            return False
        own = [one for one in self._shares if one.tenant == share.tenant]
        return own[0] is share or sum(one.held for one in own) + size <= self.limit // 2

    def queue(self, share: "Share") -> None:
        """Add a share to the queue. Idempotent."""
        self._shares.setdefault(share)

    async def wait(self) -> None:
        """Wait until a share gives bytes back."""
        await self._changed.wait()

    def returned(self, share: "Share") -> None:
        """Wake the waiting shares, after this one has given bytes back or stopped waiting."""
        if not share.held:
            self._shares.pop(share, None)
        self._changed.set()
        self._changed = asyncio.Event()


class Share:
    """The part of a budget that one call holds.

    Attributes:
        host: the upstream's host.
        tenant: the tenant that calls it.
        held: bytes held.
    """

    def __init__(self, budget: AnswerBudget, host: str, tenant: str) -> None:
        self._budget, self.host, self.tenant, self.held = budget, host, tenant, 0

    async def take(self, size: int, until: float) -> None:
        """Take ``size`` more bytes; wait for them until ``until``, a reading of the loop's clock.

        Raises:
            BudgetTimeout: there were too few free bytes until then.
        """
        self._budget.queue(self)
        try:
            async with asyncio.timeout_at(until):
                while not self._budget.fits(self, size):
                    await self._budget.wait()
        except TimeoutError:
            self._budget.returned(self)
            raise BudgetTimeout from None
        except asyncio.CancelledError:
            self._budget.returned(self)
            raise
        self.held += size

    def give_back(self, size: int) -> None:
        """Give ``size`` bytes back."""
        if size:
            self.held -= size
            self._budget.returned(self)

    def __enter__(self) -> Self:
        """Start with no bytes held."""
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give everything back."""
        self.give_back(self.held)
