"""The data flow of a run: the states of its steps, the values on the edges between them, and when each step ran.

Values come from the step records. They are found by the paths of the plan's references; nothing is guessed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from pydantic import JsonValue

from services.contracts.base import JsonPath
from services.contracts.event import RunEvent, RunPlanned
from services.contracts.evidence import EACH, written, written_path
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.plan import (
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    dependencies,
    references,
)
from services.contracts.run import Run
from services.paths import MISSING, TooMany, looking_at, value_at

State = Literal["succeeded", "failed", "skipped", "in_doubt", "running", "waiting"]
ANSWER: Final = "answer"
_MOST_ITEMS: Final = 50_000
"""Items of lists of which paths take something, in all values of a run that are shown."""


@dataclass(frozen=True, slots=True)
class InputValue:
    """An input value of a step, if it is known.

    Attributes:
        known: whether `value` is the value.
        note: why the value is not known, or a remark about it.
    """

    known: bool
    value: JsonValue = None
    note: str = ""

    @property
    def type(self) -> str:
        """The value's type, as JSON Schema names it."""
        return json_type(self.value) if self.known else "unknown"


@dataclass(frozen=True, slots=True)
class Binding:
    """A reference: the argument, the source that it takes its value from, and that value.

    Attributes:
        whole: whether it is the whole argument, and not part of a list or an object.
    """

    argument: str
    source: str
    path: str
    found: InputValue
    reference: Reference
    whole: bool


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of a step: its expression in the plan, and its value."""

    name: str
    said: str
    found: InputValue
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """When a step ran, in percent of the timeline's width."""

    x: float
    width: float


class Flow:
    """A run's plan with the results of its calls.

    Args:
        run: the run, as it is stored.
        events: the events so far. For a run under way, they contain the step records.
    """

    def __init__(self, run: Run, events: Sequence[RunEvent] = ()) -> None:
        self.run = run
        self.records = {record.step: record for record in run.steps}
        self.running: set[str] = set()
        self._look = looking_at(_MOST_ITEMS)
        if not run.steps:
            self._read(events)

    def _read(self, events: Iterable[RunEvent]) -> None:
        for numbered in events:
            event = numbered.event
            if isinstance(event, RunPlanned):
                self.records.clear()
                self.running.clear()
            elif isinstance(event, StepStarted):
                self.running.add(event.step)
            elif isinstance(event, StepFinished):
                self.records[event.record.step] = event.record
                self.running.discard(event.record.step)

    @property
    def plan(self) -> Plan | None:
        """The run's plan."""
        return self.run.plan

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The plan's steps, in its order."""
        return self.run.plan.steps if self.run.plan is not None else ()

    @cached_property
    def layers(self) -> list[list[str]]:
        """The steps by depth, from the proof's stages or else from the references."""
        proof = self.run.proof
        known = {step.id for step in self.steps}
        if proof is not None and {one for stage in proof.stages for one in stage} == known:
            return [list(stage) for stage in proof.stages]
        return _by_depth(self.steps)

    def state(self, step: str) -> State:
        """The state of a step."""
        record = self.records.get(step)
        if record is not None:
            return record.outcome.kind
        return "running" if step in self.running else "waiting"

    @cached_property
    def bindings(self) -> dict[tuple[str, str], list[Binding]]:
        """The values on each edge; empty if a step only waits for another."""
        found: dict[tuple[str, str], list[Binding]] = {}
        for step in self.steps:
            for one in step.after:
                found.setdefault((one, step.id), [])
            for name, value in _values(step):
                for reference in references(value):
                    binding = self._binding(name, reference, whole=reference is value)
                    found.setdefault((reference.step, step.id), []).append(binding)
        for output in self.run.plan.answer if self.run.plan is not None else ():
            found.setdefault((output.value.step, ANSWER), []).append(
                self._binding(output.name, output.value, whole=True)
            )
        return found

    def _binding(self, name: str, reference: Reference, *, whole: bool) -> Binding:
        path = written_path(reference.path, reference.match)
        return Binding(name, reference.step, path, self.found(reference), reference, whole)

    def found(self, value: Value) -> InputValue:
        """The concrete value that a value of the plan had when it was sent."""
        match value:
            case LiteralValue():
                return InputValue(known=True, value=value.value)
            case Reference():
                return self._referenced(value)
            case ItemReference():
                return InputValue(known=False, note="of each item of the list")
            case ListValue():
                return _joined(value, [self.found(item) for item in value.items])
            case ObjectValue():
                parts = {name: self.found(field) for name, field in value.fields.items()}
                if all(part.known for part in parts.values()):
                    return InputValue(known=True, value={name: part.value for name, part in parts.items()})
                return InputValue(known=False, note="; ".join(part.note for part in parts.values() if part.note))

    def _referenced(self, reference: Reference) -> InputValue:
        record = self.records.get(reference.step)
        if record is None:
            return InputValue(known=False, note=f"{reference.step} has not answered")
        if not isinstance(record.outcome, Succeeded):
            return InputValue(known=False, note=f"{reference.step} {record.outcome.kind.replace('_', ' ')}")
        try:
            value = value_at(record.outcome.value, reference.path, look=self._look)
        except TooMany:
            return InputValue(known=False, note="of every item of a long list")
        there = value is not MISSING
        if reference.match is not None and len(_list_before(record.outcome.value, reference.path)) > 1:
            which = f" that matches “{reference.match.said[0]}”" if reference.match.said else ""
            return InputValue(known=False, note=f"the item{which}: see the request")
        if not there and (record.outcome.stored is not None or not record.outcome.kept):
            return InputValue(known=False, note="in a large value, of which only the beginning is shown")
        return InputValue(known=True, value=value) if there else InputValue(known=False, note="not in the answer")

    def inputs(self, step: Step) -> list[Input]:
        """The inputs of a step."""
        return [
            Input(name, written(value), self.found(value), tuple(one.step for one in references(value)))
            for name, value in _values(step)
        ]

    @cached_property
    def bars(self) -> dict[str, Bar]:
        """When each step ran, with idle time compressed."""
        return _bars([record for record in self.records.values() if record.outcome.kind != "skipped"])

    @cached_property
    def troubled(self) -> list[str]:
        """The steps that failed or are in doubt, in the plan's order."""
        return [step.id for step in self.steps if self.state(step.id) in ("failed", "in_doubt")]


def _values(step: Step) -> Iterator[tuple[str, Value]]:
    """All input values of a step, by name."""
    if step.foreach is not None:
        yield EACH, step.foreach.items
    yield from step.arguments.items()
    if step.when is not None:
        yield f"when ({step.when.op})", step.when.left
        if step.when.op != "exists":
            yield "when, right side", step.when.right


def _joined(value: ListValue, parts: list[InputValue]) -> InputValue:
    if all(part.known for part in parts):
        return InputValue(known=True, value=[part.value for part in parts])
    return InputValue(
        known=False, note="; ".join(part.note for part in parts if part.note) or f"{len(value.items)} values"
    )


def _list_before(value: JsonValue, path: JsonPath) -> list[JsonValue]:
    """The list that the first index of a path refers to."""
    at = next((at for at, key in enumerate(path) if isinstance(key, int)), None)
    found = value_at(value, path[:at]) if at is not None else None
    return found if isinstance(found, list) else []


def json_type(value: JsonValue) -> str:
    """A JSON value's type, as JSON Schema names it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return f"array of {len(value)}"
        case _:
            return "object"


def _by_depth(steps: Sequence[Step]) -> list[list[str]]:
    """Steps by the longest path to them. Steps in a cycle come last; a proved plan has none."""
    place = {step.id: at for at, step in enumerate(steps)}
    needs = {step.id: {one for one in dependencies(step) if one in place} for step in steps}
    users: dict[str, list[str]] = {}
    for step, needed in needs.items():
        for one in needed:
            users.setdefault(one, []).append(step)
    missing = {step: len(needed) for step, needed in needs.items()}
    layers: list[list[str]] = []
    ready = [step for step, count in missing.items() if not count]
    while ready:
        layers.append(ready)
        following = list[str]()
        for user in (user for step in ready for user in users.get(step, ())):
            missing[user] -= 1
            if not missing[user]:
                following.append(user)
        ready = sorted(following, key=place.__getitem__)
    cycle = [step for step, count in missing.items() if count]
    return [*layers, cycle] if cycle else layers


def _bars(records: Sequence[StepRecord]) -> dict[str, Bar]:
    """Bars on one axis. An idle pause takes at most a twentieth of the time."""
    spans = sorted((record.started_ms, record.started_ms + max(record.duration_ms, 0.1)) for record in records)
    busy: list[list[float]] = []
    for start, end in spans:
        if busy and start <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([start, end])
    if not busy:
        return {}
    longest_pause = sum(end - start for start, end in busy) / 20
    marks: list[tuple[float, float]] = []  # start of each busy period, and its position on the axis
    axis = 0.0
    for at, (start, end) in enumerate(busy):
        axis += min(start - busy[at - 1][1], longest_pause) if at else 0.0
        marks.append((start, axis))
        axis += end - start

    def place(moment: float) -> float:
        start, where = next(mark for mark in reversed(marks) if mark[0] <= moment)
        return (where + moment - start) / axis * 100

    return {
        record.step: Bar(
            round(place(record.started_ms), 2), round(max(max(record.duration_ms, 0.1) / axis * 100, 0.6), 2)
        )
        for record in records
    }
