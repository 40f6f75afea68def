"""The in-memory state of a run that this process works on. Callers use it to wait for, follow or cancel the run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from gateway.solve import Clock
from services.clients import Turn
from services.contracts.event import RunEvent, RunFinished, RunPlanned, SolveEvent
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import StepRecord
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run
from services.contracts.solve import SolveRequest
from services.errors import ServiceError
from services.ownership.feed import Feed
from services.ownership.ticket import Ticket

_EVENTS_PER_EPOCH = 1_000_000


def _future() -> "asyncio.Future[Run | None]":
    return asyncio.get_running_loop().create_future()


def closing_event(epoch: int, run: Run) -> RunEvent:
    """The last event of a run that ended while no process worked on it. Its number is above all of that epoch."""
    return RunEvent(id=(epoch + 1) * _EVENTS_PER_EPOCH, event=RunFinished(run=run))


@dataclass(eq=False, slots=True)
class Live:
    """The current state of a run and its events so far.

    Attributes:
        ticket: which process owns the run, and its epoch.
        run: the run as it is known now.
        compiled: the plan that is executed; None while the run is not planned yet.
        traceparent: trace context of the request that began the run, if another request resumed it; the trace goes on.
        durable: whether the executor stores the run itself; then it is cancelled there.
        writes_sentences: whether the planner writes sentences. True if unknown: the run was not planned here.
        unattended: whether nobody waits for the outcome, so that the run waits for services that are unavailable.
        cancelled: whether cancellation was requested.
        reads_secrets: names of secrets that reads for an approval may have presented, although their result is unknown.
        stored_count: how many of the events are stored.
        work: the task that plans and executes; cancelling it ends the run.
        cancel_signal: set when the run is cancelled.
        outcome: what a waiting caller gets: the run, an error, or None where another process owns the run now.
        ended: set when this process has stopped working on the run.
        feed: the events that this process has published.
        turns: gives the turns in which what the executor tells is parsed.
        told: bytes of JSON that the executor has told.
    """

    ticket: Ticket
    run: Run
    request: SolveRequest
    clock: Clock
    compiled: CompiledPlan | None = None
    traceparent: str | None = None
    durable: bool = False
    writes_sentences: bool = True
    unattended: bool = False
    cancelled: bool = False
    reads_secrets: frozenset[str] = frozenset()
    stored_count: int = 0
    work: "asyncio.Task[Run] | None" = None
    cancel_signal: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: "asyncio.Future[Run | None]" = field(default_factory=_future)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    feed: Feed[RunEvent] = field(default_factory=Feed)
    turns: Turn = nullcontext
    told: int = 0

    def turn(self, size: int) -> AbstractAsyncContextManager[Any]:
        """A turn at parsing what the executor tells."""
        self.told += size
        return self.turns(size)

    @property
    def base(self) -> int:
        """The number before this process's first event. Numbers rise from owner to owner, even if events were lost."""
        return self.ticket.epoch * _EVENTS_PER_EPOCH

    @property
    def finished(self) -> bool:
        """Whether the last event is ``finished``. If another process continues the run, it ends here without one."""
        return bool(self.feed.events) and isinstance(self.feed.events[-1].event, RunFinished)

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """The records of those steps of the current plan that have finished."""
        found: dict[str, StepRecord] = {}
        for one in self.feed.events:
            if isinstance(one.event, RunPlanned):
                found.clear()
            elif isinstance(one.event, StepFinished):
                found[one.event.record.step] = one.event.record
        return tuple(found.values())

    @property
    def planned(self) -> bool:
        """Whether this process has begun to execute a plan: calls may have been made."""
        return any(isinstance(one.event, RunPlanned) for one in self.feed.events)

    @property
    def started(self) -> frozenset[str]:
        """The steps that have started, of any plan."""
        return frozenset(one.event.step for one in self.feed.events if isinstance(one.event, StepStarted))

    def next_event(self, event: SolveEvent) -> RunEvent:
        """The event with its number. It is not published yet."""
        return RunEvent(id=self.base + len(self.feed.events) + 1, event=event)

    def publish(self, event: SolveEvent) -> None:
        """Publish the event to the followers."""
        self.feed.publish(self.next_event(event))

    def unwritten(self) -> list[RunEvent]:
        """The events that are not stored yet."""
        return self.feed.events[self.stored_count :]

    def cancel(self) -> None:
        """Cancel the run. A durable run is cancelled by the executor, so that the outcome of its calls is known."""
        self.cancelled = True
        self.cancel_signal.set()
        if self.work is not None and not self.durable:
            self.work.cancel()

    def settle(self, outcome: Run | ServiceError | None) -> None:
        """Set the outcome for waiting callers, once. The run itself may go on."""
        if self.outcome.done():
            return
        if isinstance(outcome, ServiceError):
            self.outcome.set_exception(outcome)
            self.outcome.exception()  # marks it as retrieved: no caller may be waiting, and the stored run has it
        else:
            self.outcome.set_result(outcome)

    def end(self) -> None:
        """Mark that this process has stopped working on the run, and wake everyone who waits."""
        self.settle(None)
        self.ended.set()
        self.feed.end()

    def follow(self, after: int) -> AsyncGenerator[RunEvent, None]:
        """Events with a higher number than ``after``, then new ones as they arrive."""
        return self.feed.follow(max(0, after - self.base))
