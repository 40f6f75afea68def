"""What can be learned from a run's calls: which of them did not find what was needed, and whether to plan again.

Only reads are tried again. If a mutating call has begun, the run is not planned again. A new plan must make the same
changes as the plan before.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from gateway.failures import MOST_ITEMS, lacks
from gateway.rendering import message_line
from services.contracts.evidence import EACH, Attempt, written_calls, written_said
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, ItemChoice, Skipped, StepRecord, Succeeded
from services.contracts.plan import (
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Value,
    content_hash,
    references,
    step_references,
)
from services.contracts.planning import CompiledPlan, Question
from services.contracts.run import EvidenceRound
from services.paths import looking_at

MAX_ATTEMPTS_A_ROUND: Final = 8
_NOT_FOUND: Final = frozenset({404, 410})
_REJECTED: Final = frozenset({400, 422})


def attempts_of(compiled: CompiledPlan, finished: ExecutionFinished) -> tuple[Attempt, ...]:
    """The calls of a failed run that did not return what was needed; none if something may have been changed."""
    if finished.status != "failed" or _has_changed(compiled, finished):
        return ()
    records = {record.step: record for record in finished.records}
    if len(records) < len(compiled.plan.steps):  # the executor could not follow the plan
        return ()
    calls = written_calls(compiled.plan)
    found: dict[str, Attempt] = {}
    for record in finished.records:
        attempt = _refused(record, calls[record.step])
        if attempt is not None and not compiled.apis[record.api].mutating:
            found[record.step] = attempt
    for step in _empty(compiled.plan, records):
        if not compiled.apis[records[step].api].mutating:
            found.setdefault(step, Attempt(api=records[step].api, arguments=calls[step], outcome="empty"))
    for step in _unmatched(compiled.plan, records):
        if not compiled.apis[records[step].api].mutating:
            found.setdefault(step, Attempt(api=records[step].api, arguments=calls[step], outcome="unmatched"))
    return tuple(found.values())[:MAX_ATTEMPTS_A_ROUND]


def questions_of(
    compiled: CompiledPlan, finished: ExecutionFinished, rounds: Sequence[EvidenceRound] = ()
) -> tuple[Question, ...]:
    """Questions that the user must answer before the run can go on: which of the items that were found is meant.

    None if something may have been changed already, because running the plan again would change it a second time.

    Args:
        compiled: the plan.
        finished: how its run ended.
        rounds: the plans before it. If it found nothing either, the latest of their questions are asked.
    """
    if finished.status != "failed" or _has_changed(compiled, finished):
        return ()
    asked = tuple(_question(record, compiled) for record in finished.records if _choices(record))
    if asked or not rounds or not attempts_of(compiled, finished):
        return asked
    return next((one.questions for one in reversed(rounds) if one.questions), ())


def _choices(record: StepRecord) -> tuple[ItemChoice, ...]:
    return record.outcome.choices if isinstance(record.outcome, Failed) else ()


def _question(record: StepRecord, compiled: CompiledPlan) -> Question:
    api, choices = compiled.apis[record.api], _choices(record)
    argument = choices[0].argument
    values = [choice.value for choice in choices]
    listed = "; ".join(message_line(choice.label) for choice in choices)
    matches = [one.match for one in _matched(compiled.plan, record) if one.match is not None]
    said = dict.fromkeys(written_said(match) for match in matches)
    given = dict.fromkeys(message_line(match.given) for match in matches if match.given is not None)
    unmatched = isinstance(record.outcome, Failed) and record.outcome.reason == "unmatched"
    what = "item" if argument == EACH else argument
    return Question(
        step=record.step,
        api=record.api,
        argument=argument,
        text=(f"No item matches {', '.join(said)}. " if unmatched else "")
        + "".join(f"No item has “{one}”. " for one in given)
        + f"Which {what} is meant for “{(api.summary or api.name).rstrip('.')}”? {listed}",
        json_schema={} if None in values else {"enum": values},
    )


def _matched(plan: Plan, record: StepRecord) -> list[Reference]:
    """The references with a match in the argument that a step could not choose; in all of them, if it is not known."""
    step, choices = plan.step(record.step), _choices(record)
    assert step is not None, "a record is of a step of the plan"
    value = step.arguments.get(choices[0].argument) if choices else None
    found = step_references(step) if value is None else references(value)
    return [reference for reference in found if reference.match is not None]


def _unmatched(plan: Plan, records: Mapping[str, StepRecord]) -> Iterator[str]:
    """Steps that succeeded, but found no item that matches the request's words."""
    for record in records.values():
        if isinstance(record.outcome, Failed) and record.outcome.reason == "unmatched":
            for reference in _matched(plan, record):
                if isinstance(records[reference.step].outcome, Succeeded):
                    yield reference.step


def same_changes(plan: CompiledPlan, other: CompiledPlan) -> bool:
    """Whether two plans make the same mutating calls.

    Where looked-up values come from may differ: within the same providers and, if a person is asked, anywhere.
    """
    is_asked = set(other.proof.mutating) <= set(other.proof.approvals)
    return _changes(plan) == _changes(other) and (is_asked or _sources(other) <= _sources(plan))


def _sources(compiled: CompiledPlan) -> set[str]:
    """The providers whose answers go into mutating calls, directly or through other reads."""
    needs = {step.id: {reference.step for reference in step_references(step)} for step in compiled.plan.steps}
    apis = {step.id: compiled.apis[step.api] for step in compiled.plan.steps}
    waiting = [needed for step, found in needs.items() if apis[step].mutating for needed in found]
    reached = set[str]()
    while waiting:
        if (step := waiting.pop()) not in reached:
            reached.add(step)
            waiting += needs[step]
    return {apis[step].provider for step in reached}


def _has_changed(compiled: CompiledPlan, finished: ExecutionFinished) -> bool:
    """Whether a mutating call may have begun."""
    return any(compiled.apis[record.api].mutating and not _unsent(record) for record in finished.records)


def _unsent(record: StepRecord) -> bool:
    """Whether a step certainly made no call, because its inputs were missing, ambiguous or changed."""
    kept_back = isinstance(record.outcome, Skipped) or (
        isinstance(record.outcome, Failed)
        and record.outcome.reason in ("reference", "ambiguous", "unmatched", "changed")
    )
    return kept_back and not record.requests and not record.attempts and not record.items


def _refused(record: StepRecord, arguments: dict[str, str]) -> Attempt | None:
    """The attempt, if the upstream understood the call but could not answer it."""
    outcome = record.outcome
    if not isinstance(outcome, Failed) or outcome.reason != "upstream_error":
        return None
    if outcome.status in _NOT_FOUND:
        return Attempt(api=record.api, arguments=arguments, outcome="not_found", reason=message_line(outcome.detail))
    if outcome.status in _REJECTED and (reason := message_line(outcome.detail)):
        return Attempt(api=record.api, arguments=arguments, outcome="rejected", reason=reason)
    return None


def _empty(plan: Plan, records: Mapping[str, StepRecord]) -> Iterator[str]:
    """Steps that succeeded, but lack the value that another step, or the answer, takes from them."""
    look = looking_at(MOST_ITEMS)
    for step in plan.steps:
        outcome = records[step.id].outcome
        if isinstance(outcome, Failed) and outcome.reason in ("reference", "bad_request"):
            for reference in step_references(step):
                if lacks(records[reference.step], reference.path, look):
                    yield reference.step
    for output in plan.answer:
        if lacks(records[output.value.step], output.value.path, look, null=False):
            yield output.value.step


def _changes(compiled: CompiledPlan) -> Counter[str]:
    steps = [step for step in compiled.plan.steps if compiled.apis[step.api].mutating]
    return Counter(
        content_hash(
            {
                "api": step.api,
                "arguments": {name: _comparable_value(value) for name, value in step.arguments.items()},
                "each": None if step.foreach is None else _comparable_value(step.foreach.items),
                "when": None
                if step.when is None
                else [_comparable_value(step.when.left), step.when.op, _comparable_value(step.when.right)],
            }
        )
        for step in steps
    )


def _comparable_value(value: Value) -> JsonValue:
    """A value in comparable form. A looked-up value is reduced to its kind."""
    match value:
        case LiteralValue():
            return {"literal": value.value}
        case Reference() | ItemReference():
            return {"looked up": value.kind}
        case ListValue():
            return [_comparable_value(item) for item in value.items]
        case ObjectValue():
            return {name: _comparable_value(field) for name, field in value.fields.items()}
