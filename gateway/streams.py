"""Streams of the events of runs. A stream has a place among those of its tenant as soon as it is granted.

The response that sends it begins later. If its place were taken only then, all that are asked for in between would be
granted.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar, cast

from gateway.events import Events
from gateway.metrics import GatewayMetrics
from gateway.quotas import Quotas
from services.contracts.event import RunEvent, SolveEvent
from services.errors import Overloaded

T = TypeVar("T")


class Streams:
    """Opens streams. A place is free again when its stream has ended, is closed, or is dropped unread.

    Args:
        events: the events of runs.
        quotas: how many streams a tenant may have.
        metrics: where open streams are counted.
        most: how many runs this process lets be followed at once.
    """

    def __init__(self, events: Events, quotas: Quotas, metrics: GatewayMetrics, most: int) -> None:
        self._events, self._quotas, self._metrics, self._most = events, quotas, metrics, most
        self._followers = 0

    async def follow(self, run_id: str, tenant: str, after: int) -> AsyncGenerator[RunEvent, None]:
        """The events of a run with a higher number than ``after``.

        Raises:
            QuotaExceeded: too many streams of the tenant are open.
            Overloaded: too many streams are open.
        """
        return await _opened(self._follow(run_id, tenant, after))

    async def _follow(self, run_id: str, tenant: str, after: int) -> AsyncGenerator[RunEvent | None, None]:
        self._quotas.check("streams", tenant)
        if self._followers >= self._most:
            raise Overloaded("Too many streams are open.", retry_after_s=5)
        with self._quotas.holding("streams", tenant):
            self._followers += 1
            try:
                with self._metrics.followers.track_inprogress():
                    yield None
                    async with aclosing(self._events.follow(run_id, after)) as events:
                        async for event in events:
                            yield event
            finally:
                self._followers -= 1

    async def begin(self, tenant: str, begin: Callable[[], Awaitable[str]]) -> AsyncGenerator[SolveEvent, None]:
        """All events of the run that ``begin`` begins and returns the id of. Raises QuotaExceeded, and as ``begin``."""
        return await _opened(self._begin(tenant, begin))

    async def _begin(self, tenant: str, begin: Callable[[], Awaitable[str]]) -> AsyncGenerator[SolveEvent | None, None]:
        self._quotas.check("streams", tenant)
        with self._quotas.holding("streams", tenant):
            run_id = await begin()
            yield None
            async with aclosing(self._events.follow(run_id, 0)) as events:
                async for event in events:
                    yield event.event


async def _opened(events: AsyncGenerator[T | None, None]) -> AsyncGenerator[T, None]:
    """Run a generator to its first yield, which is None, and return the rest of it.

    Closing it then runs its cleanup. If it had not begun, closing it would run nothing.
    """
    await anext(events)
    return cast("AsyncGenerator[T, None]", events)
