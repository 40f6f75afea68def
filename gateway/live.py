"""A run that this process is working on, as those who wait for it, follow it or cancel it see it."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from gateway.solve import Clock
from gateway.storage import Ticket
from services.contracts.event import RunEvent, RunFinished, RunPlanned, SolveEvent
from services.contracts.execution import StepFinished
from services.contracts.outcome import StepRecord
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run
from services.contracts.solve import SolveRequest
from services.errors import ServiceError

HEARTBEAT_S = 15.0
_EVENTS_PER_EPOCH = 1_000_000


def _future() -> "asyncio.Future[Run | None]":
    return asyncio.get_running_loop().create_future()


def closing_event(epoch: int, run: Run) -> RunEvent:
    """The last event of a run that ended while nobody worked on it, numbered above all of that epoch."""
    return RunEvent(id=(epoch + 1) * _EVENTS_PER_EPOCH, event=RunFinished(run=run))


@dataclass(eq=False, slots=True)
class Live:
    """Where a run stands, what has happened so far, and a bell for those who follow.

    Attributes:
        run: as it is known now.
        compiled: what is executed; None while it is not planned yet.
        traceparent: of the request that the run began with, where that was another one; its trace goes on.
        durable: the executor keeps the run by itself; it is cancelled there.
        worded: whether the planner words answers, as far as is known: a run that was not planned here asks it.
        cancelled: somebody wants it ended.
        journaled: how many of the events are stored.
        work: planning and executing; cancelling it ends the run.
        calling_off: rings when the run is cancelled.
        outcome: what the caller gets who waits: the run, a problem, or None where another process has it now.
    """

    ticket: Ticket
    run: Run
    request: SolveRequest
    clock: Clock
    compiled: CompiledPlan | None = None
    traceparent: str | None = None
    durable: bool = False
    worded: bool = True
    cancelled: bool = False
    journaled: int = 0
    work: "asyncio.Task[Run] | None" = None
    calling_off: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: "asyncio.Future[Run | None]" = field(default_factory=_future)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _events: list[RunEvent] = field(default_factory=list)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base(self) -> int:
        """The number before this process's first event: numbers rise from owner to owner, whatever was lost."""
        return self.ticket.epoch * _EVENTS_PER_EPOCH

    @property
    def finished(self) -> bool:
        """Whether the last word was said. A run that another process goes on with ends without it here."""
        return bool(self._events) and isinstance(self._events[-1].event, RunFinished)

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """What the steps of the present plan did that are known to have finished."""
        found: dict[str, StepRecord] = {}
        for one in self._events:
            if isinstance(one.event, RunPlanned):
                found.clear()
            elif isinstance(one.event, StepFinished):
                found[one.event.record.step] = one.event.record
        return tuple(found.values())

    def next_event(self, event: SolveEvent) -> RunEvent:
        """The event with its number, not published yet."""
        return RunEvent(id=self.base + len(self._events) + 1, event=event)

    def publish(self, event: SolveEvent) -> None:
        """Let everybody know."""
        self._events.append(self.next_event(event))
        self._ring()

    def unwritten(self) -> list[RunEvent]:
        """The events that are not stored yet."""
        return self._events[self.journaled :]

    def cancel(self) -> None:
        """End the run. A durable one is ended by the executor, so that what was done is known."""
        self.cancelled = True
        self.calling_off.set()
        if self.work is not None and not self.durable:
            self.work.cancel()

    def settle(self, outcome: Run | ServiceError | None) -> None:
        """Answer whoever waits, once. The run itself may go on."""
        if self.outcome.done():
            return
        if isinstance(outcome, ServiceError):
            self.outcome.set_exception(outcome)
            self.outcome.exception()  # whoever asked may be gone; it is in the stored run
        else:
            self.outcome.set_result(outcome)

    def end(self) -> None:
        """Nothing more will happen in this process."""
        self.settle(None)
        self.ended.set()
        self._ring()

    async def follow(self, after: int) -> AsyncGenerator[RunEvent | None, None]:
        """Events with a higher number than ``after``, then what happens; None where nothing does for a while."""
        seen = max(0, after - self.base)
        while True:
            bell = self._bell
            while seen < len(self._events):
                yield self._events[seen]
                seen += 1
            if self.ended.is_set():
                return
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await bell.wait()
            except TimeoutError:
                yield None

    def _ring(self) -> None:
        """Wake all who wait; those who come later wait for the next ring."""
        self._bell.set()
        self._bell = asyncio.Event()
