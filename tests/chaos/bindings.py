"""What a run's calls must be made with, by the outputs that the run itself records."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import StepRecord, Succeeded
from tests.chaos.plans import Case, Source, Task


@dataclass
class Bindings:
    """A case, and how it ended."""

    case: Case
    ending: ExecutionFinished | None

    @cached_property
    def records(self) -> dict[str, StepRecord]:
        """The records by task."""
        return {record.step: record for record in self.ending.records} if self.ending else {}

    def items(self, task: Task) -> list[str] | None:
        """What a task is to be made for; one empty item where it is not mapped. None where nobody can know yet."""
        if task.each is None:
            return [""]
        output = self.output(task.each)
        try:
            elements = output if isinstance(output, list) else output["many"]
            return [element["value"] for element in elements if task.keep is None or element["n"] < task.keep]
        except (TypeError, LookupError):
            return None

    def inputs(self, task: Task) -> tuple[str, ...] | None:
        """What a task is to send along. None where nobody can know yet."""
        values = tuple(self._value(source) for source in task.sources)
        return None if None in values else tuple(filter(None, values))

    def output(self, task_id: str) -> Any:
        """A task's output; None where it has none."""
        record = self.records.get(task_id)
        return record.outcome.value if record and isinstance(record.outcome, Succeeded) else None

    def _value(self, source: Source) -> str | None:
        output = self.output(source.task)
        try:
            value: str = (output if source.item is None else output[source.item])["value"]
        except (TypeError, LookupError):  # no output, or not one of this form: that is for the judge to see
            return None
        return value
