"""Chooses the steps that a rerun repeats and builds its plan. The values of all other steps become literals in it.

Only that plan is executed. So a rerun is proved, shown, approved and run like any given plan, and a change that must
not be repeated is not part of it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from gateway.storage import UNDER_WAY
from services.contracts.answer import AnswerValue
from services.contracts.base import JsonPath
from services.contracts.evidence import written_path
from services.contracts.outcome import InDoubt, Skipped, StepRecord, Succeeded
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    When,
    dependencies,
    step_references,
)
from services.contracts.planning import CompiledPlan
from services.contracts.rerun import RerunRequest, ResentStep, ReusedStep
from services.contracts.run import Run
from services.errors import Conflict, NotFound, ValidationFailed
from services.partial import PartialValues
from services.paths import MISSING, value_at
from services.size_budget import SizeBudget, SizeExceeded

_CONDITION: Final = "when"
"""`Skipped.because` of a step whose own condition did not hold."""
_TOO_LARGE: Final = "The earlier values are too large for a plan; rerun from the steps that returned them."

_MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of large values that parts are taken from. Each is parsed in full."""
_OutputPath = tuple[str, JsonPath]
"""A step, and a path into its output."""
FetchValue = Callable[[str], Awaitable[JsonValue]]


@dataclass(frozen=True, slots=True)
class Rerun:
    """A plan that repeats steps of a run, and the results that it reuses.

    Attributes:
        of: the earlier run's id.
        plan: the plan of the repeated steps.
        resent: a summary of the repeated steps, for people.
        reused: the steps whose values are reused.
        kept: the values of the earlier answer that come from steps that are not repeated.
        unsure: why the earlier plan may be wrong: a change that nobody looked at is not sent by repeating it.
    """

    of: str
    plan: Plan
    resent: tuple[ResentStep, ...]
    reused: tuple[ReusedStep, ...]
    kept: tuple[AnswerValue, ...]
    unsure: str

    def fields(self, compiled: CompiledPlan) -> dict[str, object]:
        """The fields of the new run. ``compiled`` is the rerun's plan, proved."""
        changes = compiled.proof.mutating
        resent = tuple(one.model_copy(update={"mutating": one.step in changes}) for one in self.resent)
        taken = {"reused": self.reused, "kept": self.kept, "unsure": self.unsure}
        return {"plan": self.plan, "rerun_of": self.of, "resent": resent, **taken}


async def rerun_of(run: Run, request: RerunRequest, fetch: FetchValue, max_bytes: int) -> Rerun:
    """Build the rerun of a run.

    Args:
        run: the earlier run.
        request: the first step to repeat, and new inputs.
        fetch: gives a large value by its id; raises NotFound.
        max_bytes: maximum size of the plan's JSON.

    Raises:
        Conflict: the run is under way or has no plan, or it lacks a value that is needed.
        ValidationFailed: the request names no step of the plan, or the plan would be too large.
    """
    if run.status in UNDER_WAY:
        raise Conflict(f"Run {run.id} is {run.status.value}; it can be run again once it has ended.")
    if run.plan is None:
        raise Conflict(f"Run {run.id} has no plan that could be run again.")
    for name in [*([request.from_step] if request.from_step else []), *request.inputs]:
        if run.plan.step(name) is None:
            raise ValidationFailed(f"The plan of run {run.id} has no step {name}.")
    records = {record.step: record for record in run.steps}
    changes = frozenset(run.proof.mutating) if run.proof is not None else frozenset[str]()
    again = _steps_to_repeat(run.plan, records, changes, request)
    edited = [_edited(step, request.inputs.get(step.id, {})) for step in run.plan.steps if step.id in again]
    taken = {step.id for step in run.plan.steps} - again
    try:
        values = await _values(edited, taken, records, fetch, SizeBudget(max_bytes))
    except SizeExceeded:
        raise ValidationFailed(_TOO_LARGE) from None
    partial = _partial(run.plan, records)
    try:
        plan = _plan_of(run.plan, [_with_literals(step, taken, values, partial) for step in edited])
    except ValidationError as error:
        raise ValidationFailed("The plan is not valid with these inputs.") from error
    if len(plan.model_dump_json()) > max_bytes:
        raise ValidationFailed(_TOO_LARGE)
    return Rerun(
        of=run.id,
        plan=plan,
        resent=tuple(_resent(step, records.get(step.id), request) for step in plan.steps),
        reused=(*run.reused, *(_reused(run, s, changes) for s in run.plan.steps if _is_reused(s, again, records))),
        kept=_kept(run, again),
        unsure=run.unsure,
    )


def _steps_to_repeat(
    plan: Plan, records: Mapping[str, StepRecord], changes: Collection[str], request: RerunRequest
) -> frozenset[str]:
    """The steps to repeat. Raises Conflict if another step has no outcome that can be reused."""
    steps = {step.id: step for step in plan.steps}
    if request.from_step is None:
        return frozenset(steps)
    order = list(steps)
    later = order[order.index(request.from_step) :]
    doubtful = {name for name, record in records.items() if isinstance(record.outcome, InDoubt)}
    unmade = {name for name in later if name not in doubtful and not _is_reusable(name, records)}
    again = _with_dependants(plan, {request.from_step, *request.inputs} | unmade)
    if not request.reuse:
        again |= steps.keys() - set(changes)
    waiting = list(again)
    while waiting:
        more = {
            one.step
            for one in step_references(steps[waiting.pop()])
            if one.step in steps and one.step not in again and _needs_its_step(one, records, changes)
        }
        again |= more
        waiting += more
    for name in order:
        if name not in again and not _is_reusable(name, records):
            what = "is in doubt: settle it" if name in doubtful else "has no value: repeat it"
            raise Conflict(f"Step {name} comes before {request.from_step} and {what}, or rerun from there.")
    return frozenset(again)


def _is_reusable(name: str, records: Mapping[str, StepRecord]) -> bool:
    """Whether the outcome of a step can be reused: it succeeded, or a condition kept it from running."""
    return name in records and (isinstance(records[name].outcome, Succeeded) or _skipped_by_condition(name, records))


def _skipped_by_condition(name: str, records: Mapping[str, StepRecord]) -> bool:
    """Whether a condition kept a step from running: its own, or that of a step that it needs."""
    outcome = records[name].outcome if name in records else None
    if not isinstance(outcome, Skipped):
        return False
    root = records.get(outcome.because)
    by_other = root is not None and isinstance(root.outcome, Skipped) and root.outcome.because == _CONDITION
    return outcome.because == _CONDITION or by_other


def _with_dependants(plan: Plan, names: Iterable[str]) -> set[str]:
    """These steps and all that depend on them."""
    dependants: dict[str, list[str]] = {}
    for step in plan.steps:
        for needed in dependencies(step):
            dependants.setdefault(needed, []).append(step.id)
    found, waiting = set(names), list(names)
    while waiting:
        more = set(dependants.get(waiting.pop(), ())) - found
        found |= more
        waiting += more
    return found


def _needs_its_step(one: Reference, records: Mapping[str, StepRecord], changes: Collection[str]) -> bool:
    """Whether no literal can replace a reference: there is no value, or only the executor can find the item."""
    return _skipped_by_condition(one.step, records) or (one.match is not None and one.step not in changes)


def _edited(step: Step, inputs: Mapping[str, JsonValue]) -> Step:
    given = {name: LiteralValue(value=value) for name, value in inputs.items()}
    return step.model_copy(update={"arguments": {**step.arguments, **given}})


async def _values(
    steps: Iterable[Step],
    taken: Collection[str],
    records: Mapping[str, StepRecord],
    fetch: FetchValue,
    budget: SizeBudget,
) -> dict[_OutputPath, JsonValue]:
    """The values that the repeated steps need from other steps, by the source step and the path into its output.

    One large value is fetched at a time, and released once its parts are extracted.

    Raises:
        Conflict: an item was chosen by words, or a value is no longer stored.
        SizeExceeded: the values are larger than the budget, or those that they are parts of are too large.
    """
    wanted: dict[str, Counter[JsonPath]] = {}
    for one in (one for step in steps for one in step_references(step) if one.step in taken):
        if one.match is not None:
            raise Conflict(f"An item of {one.step}'s answer was chosen by words: rerun from {one.step}.")
        wanted.setdefault(one.step, Counter())[one.path] += 1
    values: dict[_OutputPath, JsonValue] = {}
    read = 0
    for name, paths in wanted.items():
        outcome = records[name].outcome
        if not isinstance(outcome, Succeeded):
            continue
        if not outcome.kept:
            raise Conflict(f"The answer of {name}, which succeeded, was not kept: its run had no room for it.")
        whole = outcome.value
        if outcome.stored is not None:
            read += outcome.stored.bytes
            if read > _MAX_READ_BYTES:
                raise SizeExceeded
            try:
                whole = await fetch(outcome.stored.id)
            except NotFound:
                raise Conflict(f"The answer of {name} is no longer kept; rerun from {name}.") from None
        found = await asyncio.to_thread(_parts, whole, paths, budget)
        values |= {(name, path): part for path, part in found.items()}
    return values


def _parts(whole: JsonValue, paths: Counter[JsonPath], budget: SizeBudget) -> dict[JsonPath, JsonValue]:
    """What there is at these paths of a value. Each counts as often as it is named. Raises SizeExceeded."""
    found = dict[JsonPath, JsonValue]()
    for path, times in paths.items():
        part = value_at(whole, path, look=budget.look)
        if part is not MISSING:
            found[path] = part
            for _ in range(times):
                budget.take(part)
    return found


def _plan_of(earlier: Plan, steps: list[Step]) -> Plan:
    """The plan of these steps. If none of them is part of the earlier answer, the last one becomes the answer."""
    ids = {step.id for step in steps}
    answer = tuple(output for output in earlier.answer if output.value.step in ids)
    last = AnswerOutput(name=steps[-1].id, value=Reference(step=steps[-1].id))
    return Plan(steps=tuple(steps), answer=answer or (last,))


def _partial(plan: Plan, records: Mapping[str, StepRecord]) -> PartialValues:
    """Which values of the earlier run come from lists that it did not read to their end."""
    made = {name: one.outcome for name, one in records.items() if isinstance(one.outcome, Succeeded)}
    return PartialValues(
        sorted((step for step in plan.steps if step.id in made), key=lambda step: records[step.id].started_ms),
        {name: outcome.value for name, outcome in made.items()},
        {name for name, record in records.items() if record.more},
        {name for name, outcome in made.items() if outcome.stored is not None},
    )


def _with_literals(
    step: Step, taken: Collection[str], values: Mapping[_OutputPath, JsonValue], partial: PartialValues
) -> Step:
    """The step with literals in place of references to steps that are not repeated. Raises Conflict."""

    def literal(value: Value, *, lenient: bool = False) -> Value:
        match value:
            case Reference() if value.step in taken:
                if not lenient and (value.step, value.path) not in values:
                    lacks = written_path(value.path).removeprefix(".")
                    raise Conflict(f"The answer of {value.step} has no {lacks}: rerun from {value.step}.")
                found = values.get((value.step, value.path))
                return LiteralValue(value=found, partial=partial.holds(value.step, value.path))
            case ListValue():
                return ListValue(items=tuple(literal(item) for item in value.items))
            case ObjectValue():
                return ObjectValue(fields={name: literal(field) for name, field in value.fields.items()})
            case _:
                return value

    when, foreach = step.when, step.foreach
    if when is not None:
        absent = when.op == "exists"  # for `exists`, null means the same as a missing value
        when = When(left=literal(when.left, lenient=absent), op=when.op, right=literal(when.right))
    if foreach is not None:
        foreach = ForEach(items=literal(foreach.items), parallel=foreach.parallel)
    return Step(
        id=step.id,
        api=step.api,
        arguments={name: literal(value) for name, value in step.arguments.items()},
        foreach=foreach,
        when=when,
        after=tuple(name for name in step.after if name not in taken),
    )


def _resent(step: Step, record: StepRecord | None, request: RerunRequest) -> ResentStep:
    calls = (item.outcome for item in record.items) if record and record.items else [record.outcome] if record else ()
    return ResentStep(
        step=step.id,
        api=step.api,
        mutating=False,  # set from the new proof in `Rerun.fields`
        outcome=record.outcome.kind if record is not None else None,
        succeeded=sum(isinstance(outcome, Succeeded) for outcome in calls),
        edited=tuple(request.inputs.get(step.id, {})),
    )


def _is_reused(step: Step, again: Collection[str], records: Mapping[str, StepRecord]) -> bool:
    return step.id not in again and step.id in records and isinstance(records[step.id].outcome, Succeeded)


def _reused(run: Run, step: Step, changes: Collection[str]) -> ReusedStep:
    return ReusedStep(step=step.id, api=step.api, mutating=step.id in changes, run=run.id)


def _kept(run: Run, again: Collection[str]) -> tuple[AnswerValue, ...]:
    known = {value.name: value for value in (*run.kept, *run.answer.values)}
    return tuple(value for value in known.values() if value.step not in again)
