"""What a run says of its answer besides the values."""

from datetime import UTC, datetime

from gateway.solve import Clock, answer
from services.contracts.answer import AnswerValue
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import UnmatchedItem
from services.contracts.run import Run, RunStatus


def test_an_item_that_may_be_the_wrong_one_is_told_before_the_values() -> None:
    run = Run(id="run-1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC))
    finished = ExecutionFinished(
        status="succeeded",
        records=(),
        answer=(AnswerValue(name="price", value=9, step="var2"),),
        unmatched=(UnmatchedItem(said="“KIT-4003”", label="KIT-4003\ncase", unread=True),),
        duration_ms=1,
    )
    done = answer(run, finished, None, Clock(1_000))
    said = "The list goes on; of the items that were compared, “KIT-4003 case” was taken for “KIT-4003”."
    assert (done.unsure, done.answer.text) == (said, f"{said}\nprice: 9")
