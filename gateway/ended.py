"""What a run is when it has ended: with questions, cancelled, or failed."""

import asyncio
from typing import Final

from gateway.execution import RunCancelled
from gateway.live import Live
from services.contracts.answer import Answer
from services.contracts.planning import Question
from services.contracts.run import Run, RunProblem, RunStatus
from services.errors import InternalError, ServiceError
from services.ownership.ticket import Fenced
from services.telemetry import get_logger

_log = get_logger(__name__)
BUG: Final = "The request id is in `instance`."


def with_questions(ended: Run, questions: tuple[Question, ...]) -> Run:
    """The run; if there are questions, it waits for the user. Its answer is dropped, as it may be of another item."""
    if not questions:
        return ended
    reason = "It is not clear which of the things that were found is meant."
    return ended.model_copy(
        update={"status": RunStatus.NEEDS_INPUT, "questions": questions, "reason": reason, "answer": Answer()}
    )


def final_run(live: Live, work: "asyncio.Task[Run]") -> tuple[Run, ServiceError | None]:
    """The run as it ended, and the error for callers that wait."""
    error = asyncio.CancelledError() if work.cancelled() else work.exception()
    if error is None:
        return work.result(), None
    ended: dict[str, object] = {"steps": live.records, "timings": live.clock.timings()}
    if isinstance(error, (asyncio.CancelledError, RunCancelled)):
        ended |= {"status": RunStatus.CANCELLED, "reason": "It was cancelled."}
        return live.run.model_copy(update=ended), None
    if not isinstance(error, (ServiceError, Fenced)):
        _log.error("bug", run_id=live.run.id, exc_info=error)
    if not isinstance(error, ServiceError):
        error = InternalError(BUG)
    problem = RunProblem(type=error.type_uri(), title=error.title, detail=error.detail)
    ended |= {"status": RunStatus.FAILED, "problem": problem}
    return live.run.model_copy(update=ended), with_run_id(error, live.run)


def with_run_id(error: ServiceError, run: Run) -> ServiceError:
    """The error, with the id of the run that it ended."""
    error.extensions["run_id"] = run.id
    return error
