"""A durable run of this process as its followers see it, and the gate that its calls pass through."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from executor_svc.models import Adapter, Call, CallResult
from executor_svc.runner import Run
from services.contracts.execution import ExecuteRequest, ExecutionEvent, ExecutionFinished
from services.errors import ServiceError
from services.ownership.feed import Feed


@dataclass(eq=False, slots=True)
class LiveRun:
    """A run in this process and its events so far, for its followers.

    Attributes:
        request: the request that is run.
        run: the run; None until it starts.
        problem: why it could not start.
        feed: its events so far.
    """

    request: ExecuteRequest
    run: Run | None = None
    problem: ServiceError | None = None
    cancelled: bool = False
    feed: Feed[ExecutionEvent] = field(default_factory=Feed)

    @property
    def finished(self) -> bool:
        """Whether the final event was published. A run that another process took over ends without it."""
        return bool(self.feed.events) and isinstance(self.feed.events[-1], ExecutionFinished)

    def begin(self, run: Run) -> None:
        """Start the run. If it was cancelled before, cancel it at once."""
        self.run = run
        if self.cancelled:
            run.cancel()

    def cancel(self) -> None:
        """Start no further call."""
        self.cancelled = True
        if self.run is not None:
            self.run.cancel()

    def may_wait(self) -> Callable[[], bool]:
        """Tells whether the run may still wait: until it is cancelled, or as long from now as it may take in all."""
        clock = asyncio.get_running_loop().time
        until = clock() + self.request.deadline_ms / 1000
        return lambda: not self.cancelled and clock() < until

    async def follow(self) -> AsyncGenerator[ExecutionEvent, None]:
        """Yield all events from the beginning, then new ones. Raises ``problem`` if the run could not start."""
        async for event in self.feed.follow():
            yield event
        if self.problem is not None:
            raise self.problem


class Gate:
    """Lets calls through until it is closed. Then calls in flight end, and later ones wait forever.

    So a process that shuts down leaves no call half done: each call that was sent has its outcome in the ledger. Calls
    pass the gate before they are recorded: a call recorded as sent and then blocked would be in doubt.
    """

    def __init__(self) -> None:
        self._closed = False
        self._in_flight = 0
        self._idle = asyncio.Event()

    def before(self, adapter: Adapter) -> Adapter:
        """An adapter whose calls pass through this gate first."""
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
        """Let no further call through. Wait at most ``grace_s`` seconds for the calls in flight."""
        self._closed = True
        if self._in_flight:
            self._idle.clear()
            try:
                async with asyncio.timeout(grace_s):
                    await self._idle.wait()
            except TimeoutError:
                pass  # calls that are cut off now are handled from the ledger, as after a crash


@dataclass(frozen=True, slots=True)
class _Gated:
    gate: Gate
    adapter: Adapter

    async def call(self, call: Call) -> CallResult:
        return await self.gate.call(self.adapter, call)
