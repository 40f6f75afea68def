"""A durable run of this process, as those who follow it see it; and the gate its calls go through."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from executor_svc.models import Adapter, Call, CallResult
from executor_svc.runner import Run
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionFinished
from services.errors import ServiceError


@dataclass(eq=False, slots=True)
class Live:
    """What happened so far, for those who follow.

    Attributes:
        request: what is run.
        run: the run once it has begun.
        problem: why it could not begin.
    """

    request: ExecuteRequest
    run: Run | None = None
    problem: ServiceError | None = None
    cancelled: bool = False
    _events: list[ExecutionEvent] = field(default_factory=list)
    _ended: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def finished(self) -> bool:
        """Whether the last word was said. A run that another process took over ends without it."""
        return bool(self._events) and isinstance(self._events[-1], ExecutionFinished)

    def begin(self, run: Run) -> None:
        """The run begins; it may have been cancelled before."""
        self.run = run
        if self.cancelled:
            run.cancel()

    def cancel(self) -> None:
        """Start no further call."""
        self.cancelled = True
        if self.run is not None:
            self.run.cancel()

    def publish(self, event: ExecutionEvent) -> None:
        """Let everybody know."""
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        """Nothing more will happen in this process."""
        self._ended = True
        self._wake()

    async def follow(self) -> AsyncGenerator[ExecutionEvent, None]:
        """Everything from the beginning, then as it happens. Raises the problem that kept the run from beginning."""
        seen = 0
        while True:
            changed = self._changed
            while seen < len(self._events):
                yield self._events[seen]
                seen += 1
            if self._ended:
                break
            await changed.wait()
        if self.problem is not None:
            raise self.problem

    def _wake(self) -> None:
        """Wake all who wait; those who come later wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()


class Gate:
    """Lets calls through until it is closed: those in flight end, later ones wait for ever.

    So a process that stops leaves nothing half done behind: whatever was sent has its outcome in the ledger. It stands
    before the ledger, too: what was written down as sent and then held back would be in doubt.
    """

    def __init__(self) -> None:
        self._closed = False
        self._in_flight = 0
        self._idle = asyncio.Event()

    def before(self, adapter: Adapter) -> Adapter:
        """An adapter with this gate before it."""
        return _Gated(self, adapter)

    async def call(self, adapter: Adapter, call: Call) -> CallResult:
        """Make a call while the gate is open."""
        if self._closed:
            await asyncio.Future()
        self._in_flight += 1
        try:
            return await adapter.call(call)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def close(self, grace_s: float) -> None:
        """Let no further call through, and wait for those in flight, for so many seconds at most."""
        self._closed = True
        if self._in_flight:
            self._idle.clear()
            try:
                async with asyncio.timeout(grace_s):
                    await self._idle.wait()
            except TimeoutError:
                pass  # what is cut off now is found in the ledger, as after a crash


@dataclass(frozen=True, slots=True)
class _Gated:
    gate: Gate
    adapter: Adapter

    async def call(self, call: Call) -> CallResult:
        return await self.gate.call(self.adapter, call)
