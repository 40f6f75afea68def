"""Why a run failed, in words for people; and which answers lack what is taken from them."""

from collections.abc import Callable
from typing import Final

from gateway.rendering import said_in
from services.contracts.base import EVERY, JsonPath
from services.contracts.evidence import written_call, written_calls
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, StepRecord, Succeeded
from services.contracts.plan import Plan, step_references
from services.paths import MISSING, TooMany, looking_at, value_at

MOST_ITEMS: Final = 100_000
"""Items of lists that are looked at for what a plan takes of every item."""


def why_failed(plan: Plan | None, finished: ExecutionFinished) -> str:
    """Why a run failed: what was not found, or the message of the first failed step with the upstream's own words."""
    if finished.status != "failed":
        return ""
    for record in finished.records:
        outcome = record.outcome
        if isinstance(outcome, Failed):
            missing = (
                _missing(plan, record.step, finished) if plan is not None and outcome.reason == "reference" else ""
            )
            said = said_in(outcome.detail)
            return missing or (f"{outcome.message}: “{said}”" if said else outcome.message)
    return ""


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
