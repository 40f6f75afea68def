"""Having a plan executed although the executor may be away for a while.

`/execute` may be asked again: a plan of safe reads is simply run again, and one that may change something is run once
for its run id, so that asking again follows it.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Final

from gateway.live import Live
from gateway.solve import execute
from services.clients import Executor
from services.contracts.execution import ExecuteRequest, ExecutionFinished, StepFinished, StepStarted
from services.contracts.outcome import StepOutcome
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run
from services.errors import DeadlineExceeded, InternalError, NotFound, Overloaded, ServiceError, ServiceUnavailable
from services.telemetry import get_logger

_log = get_logger(__name__)
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_FOLLOW_MS: Final = 30_000
_PASSING = (ServiceUnavailable, Overloaded, DeadlineExceeded)


class CalledOff(Exception):
    """The run was cancelled before anything was sent."""


def pauses() -> Iterator[float]:
    """Seconds to wait before each further attempt: they double, with jitter, up to two seconds."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - nobody gains by guessing it
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def is_durable(compiled: CompiledPlan) -> bool:
    """Whether the executor keeps the run of this plan: it may change something."""
    return any(compiled.apis[step.api].mutating for step in compiled.plan.steps)


async def carry_out(executor: Executor, live: Live, compiled: CompiledPlan) -> ExecutionFinished:
    """Have a run's plan executed, to its end.

    Reads are tried until the run's deadline. A plan that may change something, once the executor has it, is followed
    beyond the deadline until it has ended; whoever waits is answered at the deadline.

    Raises:
        CalledOff: the run was cancelled before the executor had it.
        ServiceError: the executor refused the plan, or could not be reached in time.
    """
    live.durable = is_durable(compiled)
    if not live.durable:
        if live.cancelled:
            raise CalledOff
        return await _insist(executor, live, compiled)
    calling_off = asyncio.create_task(_call_off(executor, live))
    try:
        return await _insist(executor, live, compiled)
    finally:
        calling_off.cancel()


async def _insist(executor: Executor, live: Live, compiled: CompiledPlan) -> ExecutionFinished:
    told = _Told(live)
    for pause in pauses():
        try:
            unwanted = live.cancelled or (live.clock.remaining_s() <= 0 and not told.anything)
            if live.durable and unwanted and not await _stopped(executor, live.run.execution_id):
                break
            return await execute(executor, _ask(live, compiled), told)
        except ServiceError as error:
            passing = isinstance(error, _PASSING) or (live.durable and isinstance(error, InternalError))
            late = live.clock.remaining_s() <= pause
            if not passing or (late and not live.durable):
                raise
            if late:
                live.settle(_gone_on(error, live))
            _log.warning("executor lost", run_id=live.run.id, why=error.detail, again_in_s=round(pause, 3))
        await asyncio.sleep(pause)
    if live.cancelled:
        raise CalledOff
    raise DeadlineExceeded("The executor could not be reached before the deadline; nothing was sent.")


def _ask(live: Live, compiled: CompiledPlan) -> ExecuteRequest:
    left_ms = int(live.clock.remaining_s() * 1000)
    return ExecuteRequest(
        run_id=live.run.execution_id,
        compiled=compiled,
        tenant=live.run.tenant,
        approved=live.run.approval.plan_id if live.run.approval else None,
        bound=_bound(live.run),
        deadline_ms=left_ms if left_ms > 0 else _FOLLOW_MS,
    )


def _bound(run: Run) -> dict[str, str]:
    """What the executor is held to: by step, the digest of the calls that were shown and approved."""
    return {shown.step: shown.digest for shown in run.previews if shown.digest} if run.approval else {}


def _gone_on(error: ServiceError, live: Live) -> ServiceError:
    """The problem for whoever waits, while the run goes on."""
    told = type(error)(f"{error.detail} The run goes on; follow it under its id.")
    told.extensions.update(error.extensions, run_id=live.run.id)
    return told


async def _stopped(executor: Executor, run_id: str) -> bool:
    """Have no further call started. False where the executor does not know the run: nothing was sent."""
    try:
        await executor.cancel(run_id)
    except NotFound:
        return False
    return True


async def _call_off(executor: Executor, live: Live) -> None:
    """Once the run is cancelled, tell the executor, which may not know the run yet or be away."""
    await live.calling_off.wait()
    for pause in pauses():
        try:
            await executor.cancel(live.run.execution_id)
            return
        except ServiceError as error:
            _log.info("cancelling", run_id=live.run.id, why=error.detail)
        await asyncio.sleep(pause)


class _Told:
    """Passes events on, save those that a second attempt only repeats."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._started: set[str] = set()
        self._outcomes: dict[str, StepOutcome] = {}

    @property
    def anything(self) -> bool:
        """Whether the executor was heard of at all."""
        return bool(self._started or self._outcomes)

    def __call__(self, event: StepStarted | StepFinished) -> None:
        if isinstance(event, StepStarted):
            if event.step in self._started:
                return
            self._started.add(event.step)
        else:
            if self._outcomes.get(event.record.step) == event.record.outcome:
                return
            self._outcomes[event.record.step] = event.record.outcome
        self._live.publish(event)
