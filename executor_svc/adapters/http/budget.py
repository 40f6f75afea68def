"""How many bytes of answers are held at a time, over all calls in flight.

What is within the limit of one answer is still too much of many. So the bytes of an answer beyond its first 64 kB are
taken from a budget while it is read, parsed, checked and masked; likewise what a request takes over of other answers,
before it is built. One upstream gets at most half of it, so that one that
stops in the middle of its answers holds up none but its own. The call that has waited or held longest may always go on:
where every call waited for the others, none would end.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

FREE_BYTES: Final = 64 * 1024
"""What every answer may hold besides."""


class OutOfRoom(Exception):
    """No room came up in time."""


class AnswerBudget:
    """``limit`` bytes in all; who finds none left waits ``patience_s`` seconds at most."""

    def __init__(self, limit: int, patience_s: float) -> None:
        self.limit, self.patience_s = limit, patience_s
        self._shares: dict[Share, None] = {}  # in the order in which they first asked
        self._bell = asyncio.Event()

    def share(self, host: str) -> "Share":
        """What a call to this host holds; use it in ``with``."""
        return Share(self, host)

    def fits(self, share: "Share", size: int) -> bool:
        """Whether a share may have so many bytes more."""
        if next(iter(self._shares)) is share:
            return True
        held = sum(one.held for one in self._shares)
        same = sum(one.held for one in self._shares if one.host == share.host)
        return held + size <= self.limit and same + size <= self.limit // 2

    def queue(self, share: "Share") -> None:
        """Note that a share wants something; a second time changes nothing."""
        self._shares.setdefault(share)

    async def wait(self) -> None:
        """Wait until some share has given something back."""
        await self._bell.wait()

    def returned(self, share: "Share") -> None:
        """Note that a share has given something back, or wants nothing any more."""
        if not share.held:
            self._shares.pop(share, None)
        self._bell.set()
        self._bell = asyncio.Event()


class Share:
    """What one call holds of a budget.

    Attributes:
        host: of the upstream.
        held: bytes.
    """

    def __init__(self, budget: AnswerBudget, host: str) -> None:
        self._budget, self.host, self.held = budget, host, 0

    async def take(self, size: int, until: float) -> None:
        """Hold so many bytes more.

        Raises:
            OutOfRoom: there was no room until then, a reading of the loop's clock.
        """
        self._budget.queue(self)
        try:
            async with asyncio.timeout_at(until):
                while not self._budget.fits(self, size):
                    await self._budget.wait()
        except TimeoutError:
            self._budget.returned(self)
            raise OutOfRoom from None
        except asyncio.CancelledError:
            self._budget.returned(self)
            raise
        self.held += size

    def give_back(self, size: int) -> None:
        """Hold so many bytes less."""
        if size:
            self.held -= size
            self._budget.returned(self)

    def __enter__(self) -> Self:
        """Hold nothing yet."""
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give everything back."""
        self.give_back(self.held)
