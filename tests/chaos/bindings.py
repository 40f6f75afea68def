"""Computes the inputs that a run's calls must have, from the outputs that the run records."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import StepRecord, Succeeded
from tests.chaos.plans import Case, Source, Task


@dataclass
class Bindings:
    """A case and its ending."""

    case: Case
    ending: ExecutionFinished | None

    @cached_property
    def records(self) -> dict[str, StepRecord]:
        """The records by task."""
        return {record.step: record for record in self.ending.records} if self.ending else {}

    def items(self, task: Task) -> list[str] | None:
        """The items that a task maps over; one empty item if it is not mapped. None if they are not known yet."""
        if task.each is None:
            return [""]
        output = self.output(task.each)
        try:
            elements = output if isinstance(output, list) else output["many"]
            return [element["value"] for element in elements if task.keep is None or element["n"] < task.keep]
        except (TypeError, LookupError):
            return None

    def inputs(self, task: Task) -> tuple[str, ...] | None:
        """The values that a task must send. None if they are not known yet."""
        values = tuple(self._value(source) for source in task.sources)
        return None if None in values else tuple(filter(None, values))

    def output(self, task_id: str) -> Any:
        """A task's output; None if it has none."""
        record = self.records.get(task_id)
        return record.outcome.value if record and isinstance(record.outcome, Succeeded) else None

    def _value(self, source: Source) -> str | None:
        output = self.output(source.task)
        try:
            value: str = (output if source.item is None else output[source.item])["value"]
        except (TypeError, LookupError):  # no output, or one of another form; the judge reports it
            return None
        return value
