"""The events of something that this process works on, for any number of followers."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Feed(Generic[Event]):
    """Keeps all events. Each follower gets those from its start on, then new ones as they arrive.

    Attributes:
        events: the events so far. Only :meth:`publish` adds to them.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ended = False
        self._changed = asyncio.Event()

    def publish(self, event: Event) -> None:
        """Add an event and wake the followers."""
        self.events.append(event)
        self._wake()

    def end(self) -> None:
        """Mark that no more events follow in this process, and wake the followers. Idempotent."""
        self._ended = True
        self._wake()

    async def follow(self, skip: int = 0) -> AsyncGenerator[Event, None]:
        """The events after the first ``skip``, then new ones, until the end."""
        while True:
            changed = self._changed
            while skip < len(self.events):
                yield self.events[skip]
                skip += 1
            if self._ended:
                return
            await changed.wait()

    def _wake(self) -> None:
        """Wake all waiting followers. Later ones wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()
