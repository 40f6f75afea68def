"""Retries what a run asks of the services while they are unavailable; executes its plan through the executor.

`/execute` can be retried. A plan that only reads is simply run again. A mutating plan is run once per run id, so a
retry follows the execution that is already there.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from gateway.live import Live
from gateway.solve import execute
from services.clients import Executor
from services.contracts.execution import ExecuteRequest, ExecutionFinished, StepFinished, StepStarted
from services.contracts.outcome import StepOutcome
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run
from services.errors import (
    LANGUAGE_MODEL,
    DeadlineExceeded,
    InternalError,
    NotFound,
    Overloaded,
    ServiceError,
    ServiceUnavailable,
)
from services.telemetry import get_logger

T = TypeVar("T")
_log = get_logger(__name__)
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_MAX_AGAIN: Final = {ServiceUnavailable: 30, Overloaded: 3}
"""How often a service that is away is asked again, for some 40 s, and how often one that is busy."""
_FOLLOW_MS: Final = 30_000
_TRANSIENT = (ServiceUnavailable, Overloaded, DeadlineExceeded)


class RunCancelled(Exception):
    """The run was cancelled before any call was made."""


def pauses() -> Iterator[float]:
    """Seconds to wait before each further attempt: they double, with jitter, up to two seconds."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter need not be unpredictable
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def once_available(live: Live, ask: Callable[[], Awaitable[T]]) -> T:
    """What services answer. If nobody waits for the run, ask again until its deadline while one of them is unavailable.

    This is bounded: what makes a service fail must not do so for an hour, and a planner that is busy may have asked a
    language model already.

    Raises:
        ServiceError: the services refused, or were unavailable for too long.
    """
    left, waits = dict(_MAX_AGAIN), pauses()
    while True:
        try:
            return await ask()
        except (ServiceUnavailable, Overloaded) as error:
            kind = Overloaded if isinstance(error, Overloaded) else ServiceUnavailable
            left[kind] -= 1
            pause = next(waits)
            own = error.extensions.get("service") != LANGUAGE_MODEL
            if not (own and live.unattended) or left[kind] < 0 or live.clock.remaining_s() <= pause:
                raise
            _log.warning("service lost", run_id=live.run.id, why=error.detail, again_in_s=round(pause, 3))
        await asyncio.sleep(pause)


def is_durable(compiled: CompiledPlan) -> bool:
    """Whether the executor stores the execution of this plan, which it does for mutating plans."""
    return any(compiled.apis[step.api].mutating for step in compiled.plan.steps)


async def execute_run(executor: Executor, live: Live, compiled: CompiledPlan) -> ExecutionFinished:
    """Have a run's plan executed, to its end.

    A plan that only reads is retried until the run's deadline. A mutating plan that has reached the executor is
    followed beyond the deadline until it ends; callers that wait are answered at the deadline.

    Raises:
        RunCancelled: the run was cancelled before the plan reached the executor.
        ServiceError: the executor refused the plan, or could not be reached in time.
    """
    live.durable = is_durable(compiled)
    if not live.durable:
        if live.cancelled:
            raise RunCancelled
        return await _execute_with_retries(executor, live, compiled)
    cancelling = asyncio.create_task(_forward_cancel(executor, live))
    try:
        return await _execute_with_retries(executor, live, compiled)
    finally:
        cancelling.cancel()


async def _execute_with_retries(executor: Executor, live: Live, compiled: CompiledPlan) -> ExecutionFinished:
    emit = _EventDeduplicator(live)
    for pause in pauses():
        try:
            unwanted = live.cancelled or (live.clock.remaining_s() <= 0 and not emit.has_events)
            if live.durable and unwanted and not await _stop_calls(executor, live.run.execution_id):
                break
            return await execute(executor, _execute_request(live, compiled), emit, live.turn)
        except ServiceError as error:
            # An execution that was cancelled before it was stored is not found: `_stop_calls` tells whether it is so.
            again = (InternalError, NotFound) if live.cancelled else InternalError
            transient = isinstance(error, _TRANSIENT) or (live.durable and isinstance(error, again))
            late = live.clock.remaining_s() <= pause
            if not transient or (late and not live.durable):
                raise
            if late:
                live.settle(_with_run_id(error, live))
            _log.warning("executor lost", run_id=live.run.id, why=error.detail, again_in_s=round(pause, 3))
        await asyncio.sleep(pause)
    if live.cancelled:
        raise RunCancelled
    raise DeadlineExceeded("The executor could not be reached before the deadline; nothing was sent.")


def _execute_request(live: Live, compiled: CompiledPlan) -> ExecuteRequest:
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
    """The digests of the approved calls, by step. The executor makes no other calls for these steps."""
    return {shown.step: shown.digest for shown in run.previews if shown.digest} if run.approval else {}


def _with_run_id(error: ServiceError, live: Live) -> ServiceError:
    """The error for callers that wait, while the run goes on."""
    answer = type(error)(f"{error.detail} The run continues; follow it under its id.")
    answer.extensions.update(error.extensions, run_id=live.run.id)
    return answer


async def _stop_calls(executor: Executor, run_id: str) -> bool:
    """Stop the executor from starting further calls. False if it does not know the run: no call was made."""
    try:
        await executor.cancel(run_id)
    except NotFound:
        return False
    return True


async def _forward_cancel(executor: Executor, live: Live) -> None:
    """Once the run is cancelled, tell the executor. Retry while it is unavailable or does not know the run yet."""
    await live.cancel_signal.wait()
    for pause in pauses():
        try:
            await executor.cancel(live.run.execution_id)
            return
        except ServiceError as error:
            _log.info("cancelling", run_id=live.run.id, why=error.detail)
        await asyncio.sleep(pause)


class _EventDeduplicator:
    """Passes events on, except those that a retry only repeats."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._started: set[str] = set()
        self._outcomes: dict[str, StepOutcome] = {}

    @property
    def has_events(self) -> bool:
        """Whether any event has arrived from the executor."""
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
