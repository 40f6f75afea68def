"""The judge: compares a run's records with the upstream's requests and with the ledger.

It has its own form of the plan and does not ask the executor. The upstream gives every call a unique value. So an
output is correct if and only if the upstream gave it to that call for exactly the inputs that the run records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from services.contracts.doubt import doubts_of
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, InDoubt, StepOutcome, StepRecord, Succeeded
from tests.chaos.bindings import Bindings
from tests.chaos.plans import Case, Operation, Task
from tests.chaos.stores import Stored
from tests.chaos.upstream import Seen

Kind = Literal["lost", "stuck", "duplicate", "misbound", "unlisted", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken guarantee.

    ``stuck``: the faults had stopped, but the run ended only after a restart of the executors. ``failed``: a step that
    could run did not run, or failed without a fault that explains it. ``refused``: the executor gave an error that no
    fault explains.
    """

    kind: Kind
    run_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a run after the faults have stopped.

    Attributes:
        case: the requested run.
        accepted: whether an executor sent any event of it.
        ending: its final event with large values inserted; None if there was none.
        stored: its row in the ledger.
        seen: all its requests at the upstream.
        may_fail: whether the faults explain failed calls (for example, an upstream that cannot be reached).
    """

    case: Case
    accepted: bool
    ending: ExecutionFinished | None
    stored: Stored | None
    seen: tuple[Seen, ...]
    may_fail: bool = False


def judge(evidence: Evidence) -> list[Finding]:
    """The findings for a run; empty if all guarantees held."""
    trial = _Trial(evidence)
    checks: tuple[tuple[Kind, Iterable[str]], ...] = (
        ("lost", trial.losses()),
        ("duplicate", trial.duplicates()),
        ("misbound", trial.misbindings()),
        ("unlisted", trial.unlisted()),
        ("failed", trial.failures()),
        ("refused", trial.refusals()),
    )
    return [Finding(kind, evidence.case.run_id, text) for kind, texts in checks for text in texts]


@dataclass
class _Trial:
    """Checks one run. Each check yields descriptions of what is wrong."""

    evidence: Evidence

    @cached_property
    def bound(self) -> Bindings:
        return Bindings(self.evidence.case, self.evidence.ending)

    @property
    def records(self) -> Mapping[str, StepRecord]:
        return self.bound.records

    @cached_property
    def seen(self) -> Mapping[tuple[str, str], list[Seen]]:
        """The requests by task and item."""
        found: dict[tuple[str, str], list[Seen]] = defaultdict(list)
        for seen in self.evidence.seen:
            found[seen.site.partition("/")[2], seen.item].append(seen)
        return found

    def losses(self) -> Iterator[str]:
        """An accepted run has an ending, and the ledger holds the same status."""
        ending, stored, case = self.evidence.ending, self.evidence.stored, self.evidence.case
        if ending is None:
            if self.evidence.accepted or stored is not None:
                yield f"accepted, but never ended (the ledger says {stored.status if stored else 'nothing'})"
            return
        if case.durable:
            if stored is None:
                yield f"ended {ending.status}, but the ledger does not know it"
            elif stored.status != ending.status:
                yield f"its callers heard {ending.status}, the ledger says {stored.status}"
        missing = {task.id for task in case.tasks} - self.records.keys()
        if missing:
            yield f"no records of {sorted(missing)}"

    def refusals(self) -> Iterator[str]:
        """Without faults, the run was accepted."""
        if self.evidence.ending is None and not self.evidence.accepted and self.evidence.stored is None:
            yield "never begun, though nothing was broken any more"

    def duplicates(self) -> Iterator[str]:
        """A call has at most one effect, and one idempotency key that no other call has."""
        calls_of_key: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for (task, item), requests in self.seen.items():
            effects = sum(request.effect for request in requests)
            if effects > 1:
                yield f"{_call(task, item)} took effect {effects} times"
            keys = {request.key for request in requests if request.operation is Operation.KEYED}
            if len(keys) > 1:
                yield f"{_call(task, item)} was sent with {len(keys)} keys"
            for key in keys:
                calls_of_key[key].add((task, item))
        for calls in calls_of_key.values():
            if len(calls) > 1:
                yield f"{sorted(calls)} share a key"

    def misbindings(self) -> Iterator[str]:
        """The upstream gave every output to its call, for inputs that equal the recorded outputs of its sources."""
        for task in self.evidence.case.tasks:
            record = self.records.get(task.id)
            if record is not None and isinstance(record.outcome, Succeeded):
                yield from self._wrong_outputs(task, record.outcome.value)
        yield from self._wrong_requests()
        yield from self._wrong_answers()

    def _wrong_outputs(self, task: Task, output: Any) -> Iterator[str]:
        items, outputs = self.bound.items(task), output if task.count is not None else [output]
        if items is None or not isinstance(outputs, list) or len(outputs) != len(items):
            yield f"{task.id} has {output!r:.80} for items {items!r:.80}"
            return
        inputs = self.bound.inputs(task)
        for item, value in zip(items, outputs, strict=True):
            given = [seen for seen in self.seen[task.id, item] if seen.answer == value]
            if not given:
                yield f"{_call(task.id, item)} has {value!r:.80}, which it was never given"
            elif not any(seen.inputs == inputs for seen in given):
                yield f"{_call(task.id, item)} was made with {given[0].inputs}, but its sources gave {inputs}"

    def _wrong_requests(self) -> Iterator[str]:
        """Requests with effects carried the outputs recorded for their sources; tasks that must not run sent none."""
        if self.evidence.ending is None:
            return
        tasks = {task.id: task for task in self.evidence.case.tasks}
        for (name, item), requests in self.seen.items():
            task, effects = tasks.get(name), [request for request in requests if request.effect]
            if task is None:
                yield f"{_call(name, item)} is no step of this run"
                continue
            items, inputs = self.bound.items(task), self.bound.inputs(task)
            for request in effects:
                if items is None or inputs is None or item not in items or request.inputs != inputs:
                    yield f"{_call(name, item)} took effect with {request.inputs}, but its sources gave {inputs}"
        for task in self.evidence.case.tasks:
            if self._conditions_fail(task) and any(name == task.id for name, _ in self.seen):
                yield f"{task.id} was sent although its condition does not hold"

    def _wrong_answers(self) -> Iterator[str]:
        for answer in self.evidence.ending.answer if self.evidence.ending else ():
            outcome = self.records[answer.step].outcome
            if not isinstance(outcome, Succeeded) or outcome.value != answer.value:
                yield f"the answer {answer.name} is not the output of {answer.step}"

    def unlisted(self) -> Iterator[str]:
        """The run records every effect or lists it in doubt. It also lists every call without outcome in the ledger."""
        if self.evidence.ending is None:
            return
        for (name, item), requests in self.seen.items():
            if any(request.effect for request in requests):
                outcome = self._outcome(name, item)
                if not isinstance(outcome, (Succeeded, InDoubt)) and not _admits_success(outcome):
                    yield f"{requests[0].operation} {_call(name, item)} took effect, but the run says {outcome!r:.120}"
        doubts = doubts_of(self.evidence.ending.records)
        listed = {doubt.step if doubt.item is None else f"{doubt.step}/{doubt.item}" for doubt in doubts}
        for doubt in doubts:
            if doubt.request is None:
                yield f"{doubt.step} is in doubt, but its request is not shown"
        stored = self.evidence.stored
        for key in sorted(stored.open_calls - listed) if stored else ():
            yield f"{key} has no outcome in the ledger, but is not listed in doubt"
        if (self.evidence.ending.status == "in_doubt") != bool(listed):
            yield f"the run is {self.evidence.ending.status} with {len(listed)} calls listed in doubt"

    def failures(self) -> Iterator[str]:
        """Each step that could run did run, and none failed unless a fault explains it."""
        states: dict[str, str] = {}
        for task in self.evidence.case.tasks:
            record = self.records.get(task.id)
            if record is None:
                continue
            kind = record.outcome.kind
            states[task.id] = expected = self._expected(task, states)
            if expected == "run":
                states[task.id] = kind
                if kind == "skipped" or (kind == "failed" and not self.evidence.may_fail):
                    yield f"{task.id}: {record.outcome!r:.200}"
            elif kind != "skipped":
                yield f"{task.id} is {kind}, but should have been skipped ({expected})"

    def _expected(self, task: Task, states: Mapping[str, str]) -> str:
        """The expected state of a task, from the states of the tasks before it."""
        held_up = any(states[need] != "succeeded" for need in task.needs)
        if held_up or any(states[before] not in ("succeeded", "condition") for before in task.after):
            return "blocked"
        return "condition" if self._conditions_fail(task) else "run"

    def _conditions_fail(self, task: Task) -> bool:
        return task.condition is not None and (
            self.evidence.case.task(task.condition.source.task).width >= task.condition.below
        )

    def _outcome(self, name: str, item: str) -> StepOutcome | None:
        """The outcome that the run records for a call."""
        record = self.records.get(name)
        if record is None or not record.items:
            return record.outcome if record else None
        items = self.bound.items(self.evidence.case.task(name)) or []
        return record.items[items.index(item)].outcome if item in items else None


def _call(task: str, item: str) -> str:
    return f"{task}[{item}]" if item else task


def _admits_success(outcome: StepOutcome | None) -> bool:
    """Whether a failed call had a success status. A call whose response cannot be read counts as failed."""
    return isinstance(outcome, Failed) and outcome.status is not None and 200 <= outcome.status < 300
