"""Streams of the events of runs. A stream has a place among those of its tenant as soon as it is granted.

The response that sends it begins later. If its place were taken only then, all that are asked for in between would be
granted.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar, cast

from gateway.events import Events
from gateway.metrics import GatewayMetrics
from gateway.quotas import Quotas
from services.contracts.event import RunEvent, SolveEvent
from services.errors import Overloaded

T = TypeVar("T")
_MOST_SIZES: Final = 10_000


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
        self._sizes = dict[tuple[str, int], int]()

    async def follow(
        self, run_id: str, tenant: str, after: int, *, charged: bool = False
    ) -> AsyncGenerator[RunEvent, None]:
        """The events of a run with a higher number than ``after``.

        A large event counts as its tenant's reading when it is sent. If the tenant has read too much, the stream ends
        before it; the reader resumes from the last event it got. ``charged``: all events are counted already.

        Raises:
            QuotaExceeded: too many streams of the tenant are open.
            Overloaded: too many streams are open.
        """
        return await _opened(self._follow(run_id, tenant, after, charged))

    async def _follow(
        self, run_id: str, tenant: str, after: int, charged: bool
    ) -> AsyncGenerator[RunEvent | None, None]:
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
                            if not charged:
                                self._quotas.read(tenant, self._size(run_id, event))
                            yield event
            finally:
                self._followers -= 1

    async def begin(
        self, tenant: str, begin: Callable[[], Awaitable[tuple[str, bool]]]
    ) -> AsyncGenerator[SolveEvent, None]:
        """All events of a run. ``begin`` returns its id, and whether it has begun it: else it is an earlier one.

        The stream of an earlier run ends before a large event if the tenant has read too much, as in ``follow``.

        Raises:
            QuotaExceeded: too many streams of the tenant are open.
            ServiceError: as ``begin``.
        """
        return await _opened(self._begin(tenant, begin))

    async def _begin(
        self, tenant: str, begin: Callable[[], Awaitable[tuple[str, bool]]]
    ) -> AsyncGenerator[SolveEvent | None, None]:
        self._quotas.check("streams", tenant)
        with self._quotas.holding("streams", tenant):
            run_id, begun = await begin()
            # A reader that began the run is not refused: it cannot resume this stream.
            count = self._quotas.charge if begun else self._quotas.read
            yield None
            async with aclosing(self._events.follow(run_id, 0)) as events:
                async for event in events:
                    count(tenant, self._size(run_id, event))
                    yield event.event

    def _size(self, run_id: str, event: RunEvent) -> int:
        """The bytes of an event's JSON, once for all that follow the run."""
        key = run_id, event.id
        if key not in self._sizes:
            while len(self._sizes) >= _MOST_SIZES:
                del self._sizes[next(iter(self._sizes))]
            self._sizes[key] = len(event.event.model_dump_json())
        return self._sizes[key]


async def _opened(events: AsyncGenerator[T | None, None]) -> AsyncGenerator[T, None]:
    """Run a generator to its first yield, which is None, and return the rest of it.

    Closing it then runs its cleanup. If it had not begun, closing it would run nothing.
    """
    await anext(events)
    return cast("AsyncGenerator[T, None]", events)
