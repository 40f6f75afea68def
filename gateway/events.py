"""Events of runs, stored in batches. Subscribers read them from memory or, in other processes, from the table."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Final, TypeVar

from gateway.live import Live
from gateway.storage import UNDER_WAY, RunStore
from services.contracts.event import RunEvent
from services.errors import NotFound, ServiceError
from services.telemetry import get_logger

T = TypeVar("T")
_log = get_logger(__name__)
_POLL_S: Final = 0.25
_RETRY_S: Final = 1.0


class Events:
    """The events of all runs. ``lives`` holds the runs of this process."""

    def __init__(self, store: RunStore, lives: Mapping[str, Live]) -> None:
        self._store, self._lives = store, lives
        self._closed = False

    async def write(self) -> None:
        """Store the new events of all runs of this process, in one transaction. If it fails, they stay unwritten."""
        new = [(live, live.unwritten()) for live in self._lives.values()]
        rows = [(live.ticket, event) for live, events in new for event in events]
        if rows:
            await self._store.append(rows)
        for live, events in new:
            live.stored_count += len(events)

    def close(self) -> None:
        """End all streams at their next event, because this process stops."""
        self._closed = True

    async def follow(self, run_id: str, after: int) -> AsyncGenerator[RunEvent, None]:
        """The events with a higher number than ``after``, until the run ends.

        It works for runs of any process, also if a run changes its owner meanwhile. The run must exist.
        """
        while not self._closed:
            live = self._lives.get(run_id)
            if live is not None:
                async with aclosing(self._of_live(live, after)) as events:
                    async for event in events:
                        after = event.id
                        yield event
                if live.finished:
                    return
            # The status is read before the events: once a run has ended, all its events are in the table.
            try:
                under_way = await _with_retries(partial(self._store.status, run_id)) in UNDER_WAY
            except NotFound:  # the run ended and was deleted
                return
            page = await _with_retries(partial(self._store.events, run_id, after))
            for stored in page:
                after = stored.id
                yield stored
            if not page and not under_way:
                return
            if not page:
                await asyncio.sleep(_POLL_S)

    async def _of_live(self, live: Live, after: int) -> AsyncGenerator[RunEvent, None]:
        """The events stored by former owners, then those of this process."""
        earlier = partial(self._store.events, live.run.id, upto=live.base)
        while after < live.base and (page := await _with_retries(partial(earlier, after))):
            for stored in page:
                after = stored.id
                yield stored
        async with aclosing(live.follow(after)) as events:
            async for event in events:
                yield event


async def _with_retries(ask: Callable[[], Awaitable[T]]) -> T:
    """Retry until the database answers, so that a stream survives an outage of it."""
    while True:
        try:
            return await ask()
        except NotFound:
            raise
        except ServiceError as error:
            _log.warning("events cannot be read", why=error.detail)
        await asyncio.sleep(_RETRY_S)
