"""Why a run failed, in words for people; and which answers lack what is taken from them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gateway.labels import item_labels
from gateway.rendering import message_line, said_in
from services.contracts.base import EVERY, JsonPath
from services.contracts.evidence import written, written_call, written_calls
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, StepRecord, Succeeded
from services.contracts.plan import Plan, step_references
from services.paths import MISSING, TooMany, looking_at, value_at

READING: Final = frozenset({"GET", "HEAD"})
"""Methods of calls that change nothing."""
MOST_ITEMS: Final = 100_000
"""Items of lists that are looked at for what a plan takes of every item."""
_MOST_NAMED: Final = 10
"""Changes that a reason names."""


def why_failed(plan: Plan | None, finished: ExecutionFinished) -> str:
    """Why a run failed: what was not found, or the message of the first failed call with the upstream's own words.

    Of several calls it names the one that failed, and the changes that were made all the same.
    """
    record = next((one for one in finished.records if isinstance(one.outcome, Failed)), None)
    if finished.status != "failed" or record is None or not isinstance(record.outcome, Failed):
        return ""
    if plan is None or (len(plan.steps) == 1 and not record.items):
        return _message(record.outcome)
    missing = _missing(plan, record.step, finished) if record.outcome.reason == "reference" else ""
    why = missing.removesuffix(".") or _failed_call(plan, record, record.outcome, finished)
    made = ", ".join(_changes_made(plan, finished.records))
    return f"{why}{'' if why.endswith('.”') else '.'} Done all the same: {made}." if made else missing or why


def _message(failed: Failed) -> str:
    """The message of a failure, with what the upstream says."""
    said = said_in(failed.detail)
    return f"{failed.message}: “{said}”" if said else failed.message


def _failed_call(plan: Plan, record: StepRecord, failed: Failed, finished: ExecutionFinished) -> str:
    """The call that failed, and why; of a loop, with its item and number, counted from 1."""
    name, step = _call_name(plan, record), plan.step(record.step)
    for item in record.items:
        if isinstance(item.outcome, Failed) and step is not None:
            labels = item_labels(step, finished.records)
            which = f" for “{message_line(labels[item.index])}”" if item.index < len(labels) else ""
            return f"{name}{which} (call {item.index + 1} of {len(record.items)}): {_message(item.outcome)}"
    return f"{name}: {_message(failed).removeprefix(f'{record.step}: ')}"


def _call_name(plan: Plan, record: StepRecord) -> str:
    """The operation; with its arguments if the plan calls it several times."""
    alike = [step for step in plan.steps if step.api == record.api]
    step = plan.step(record.step)
    if len(alike) == 1 or step is None:
        return record.api
    return written_call(step.api, {name: written(value) for name, value in step.arguments.items()})


def _changes_made(plan: Plan, records: Sequence[StepRecord]) -> Iterator[str]:
    """The changes that took effect; of many, the first ones and how many more."""
    made = [
        (record, count)
        for record in records
        if any(request.method not in READING for request in record.requests) and (count := _took_effect(record))
    ]
    for record, count in made[:_MOST_NAMED]:
        if isinstance(record.outcome, Succeeded):
            yield _call_name(plan, record)
        else:
            yield f"{count} of {len(record.items)} calls of {record.api}"
    if len(made) > _MOST_NAMED:
        yield f"and {len(made) - _MOST_NAMED} more"


def _took_effect(record: StepRecord) -> int:
    """How many calls of a step succeeded."""
    return isinstance(record.outcome, Succeeded) or sum(isinstance(one.outcome, Succeeded) for one in record.items)


def _missing(plan: Plan, failed: str, finished: ExecutionFinished) -> str:
    """Which call did not answer what the failed step needed, in a sentence; empty if none is known."""
    records = {record.step: record for record in finished.records}
    calls, look, step = written_calls(plan), looking_at(MOST_ITEMS), plan.step(failed)
    for reference in step_references(step) if step is not None else ():
        record, path = records.get(reference.step), reference.path
        if record is not None and isinstance(record.outcome, Succeeded) and lacks(record, path, look):
            at = next((at for at, part in enumerate(path) if part == EVERY or isinstance(part, int)), None)
            listed = at is not None and value_at(record.outcome.value, path[:at]) == []
            field = next((part for part in reversed(path) if isinstance(part, str) and part != EVERY), "")
            lacking = f"answered no {field}" if field and not listed else "found nothing"
            return f"{written_call(record.api, calls[record.step])} {lacking}, so {records[failed].api} was not called."
    return ""


def lacks(record: StepRecord, path: JsonPath, look: Callable[[int], None], *, null: bool = True) -> bool:
    """Whether a step's output has no value at the path. If ``null``, an empty value counts as none.

    False for a large output: only its beginning is known here, so the value may still exist. ``look``: see
    :func:`services.paths.looking_at`; what it does not let be looked at may exist, too.
    """
    if not isinstance(record.outcome, Succeeded) or record.outcome.stored is not None:
        return False
    try:
        value = value_at(record.outcome.value, path, look=look)
    except TooMany:
        return False
    return value is MISSING or (null and (value is None or value in ("", [], {})))
