"""The sentence of an answer. It is requested while the plan executes, and waited for briefly at the end.

A missing sentence never fails an answer, and never delays it beyond the request's deadline.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from gateway.live import Live
from gateway.metrics import GatewayMetrics
from gateway.rendering import fill_sentence
from services.clients import Planner
from services.contracts.execution import ExecutionFinished
from services.contracts.planning import CompiledPlan
from services.contracts.sentence import MAX_SLOTS, Sentence, SentenceRequest
from services.errors import ServiceError
from services.telemetry import get_logger

_log = get_logger(__name__)
_RESERVE_S: Final = 0.1
"""Seconds of the deadline that are reserved for storing and sending the answer."""


class PendingSentence:
    """The pending sentence of one answer.

    Args:
        task: the planner's pending answer; None: no sentence is requested.
        live: the run.
        compiled: its plan.
        wait_s: how long a finished answer waits for its sentence.
        metrics: counts the outcomes.
    """

    def __init__(
        self,
        task: "asyncio.Task[Sentence] | None",
        live: Live,
        compiled: CompiledPlan,
        wait_s: float,
        metrics: GatewayMetrics,
    ) -> None:
        self._task, self._live, self._compiled = task, live, compiled
        self._wait_s, self._metrics = wait_s, metrics

    async def wait_for_text(self, finished: ExecutionFinished) -> str | None:
        """The sentence with its values filled in; None where there is none, or none in time."""
        if self._task is None or finished.status != "succeeded":
            return None
        if finished.unmatched and self._live.request.options.sentence is None:
            return None  # a sentence would hide that another item was used
        left_s = min(self._wait_s, self._live.clock.remaining_s() - _RESERVE_S)
        done, _ = await asyncio.wait({self._task}, timeout=max(left_s, 0.0))
        if not done:
            self._metrics.sentences.labels("late").inc()
            return None
        sentence = self._task.result()
        text = self._fill(sentence, finished) if sentence.outcome == "written" else None
        if sentence.outcome != "off":
            unfit = sentence.outcome == "written" and text is None
            self._metrics.sentences.labels("unfit" if unfit else sentence.outcome).inc()
            _log.info("sentence", run_id=self._live.run.id, outcome="unfit" if unfit else sentence.outcome)
        return text

    def _fill(self, sentence: Sentence, finished: ExecutionFinished) -> str | None:
        wanted = [output.name for output in self._compiled.plan.answer]
        if [value.name for value in finished.answer] != wanted or any(value.partial for value in finished.answer):
            return None  # a sentence would hide that a list was not read to its end
        return fill_sentence(sentence.pieces, finished.answer)


@asynccontextmanager
async def request_sentence(
    planner: Planner, live: Live, compiled: CompiledPlan, wait_s: float, metrics: GatewayMetrics
) -> AsyncGenerator[PendingSentence, None]:
    """Request a sentence, if it is wanted, until the end of the context. A failure raises nothing."""
    task = asyncio.create_task(_ask(planner, live, compiled)) if _is_wanted(live, compiled) else None
    try:
        yield PendingSentence(task, live, compiled, wait_s, metrics)
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


def _is_wanted(live: Live, compiled: CompiledPlan) -> bool:
    option = live.request.options.sentence
    default = live.writes_sentences and not live.run.unsure  # a sentence would hide that the plan is unsure
    return (default if option is None else option) and 1 <= len(compiled.plan.answer) <= MAX_SLOTS


async def _ask(planner: Planner, live: Live, compiled: CompiledPlan) -> Sentence:
    options = live.request.options
    request = SentenceRequest(
        query=live.request.query,
        compiled=compiled,
        wanted=options.sentence,
        backend=options.backend,
        deadline_ms=max(int(live.clock.remaining_s() * 1000), 1),
    )
    try:
        return await planner.sentence(request)
    except ServiceError as error:
        return Sentence(outcome="failed", reason=error.detail[:300])
    except Exception as error:  # noqa: BLE001 - a missing sentence must not fail the answer
        _log.error("bug", run_id=live.run.id, exc_info=error)
        return Sentence(outcome="failed")
