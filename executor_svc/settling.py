"""Turns a person's decision about a call in doubt into the ledger's types."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.equality import equal
from executor_svc.held import memory_of
from executor_svc.models import CallResult, CallState, Execution, LargeValue, RecordedCall
from executor_svc.values import ValueStore
from services.contracts.doubt import DoubtfulCall, ResolveRequest, doubts_of
from services.contracts.outcome import Failed, Succeeded
from services.contracts.plan import Step
from services.errors import ValidationFailed

_SMALL_BYTES: Final = 1_000


def call_key(step: Step, item: int | None) -> str:
    """The ledger's key of a step's call, or of one item's call.

    Raises:
        ValidationFailed: the step is a `foreach` and the item is missing, or the other way round.
    """
    if (step.foreach is None) is not (item is None):
        need = "is a foreach: set `item`" if item is None else "is not a foreach: omit `item`"
        raise ValidationFailed(f"Step {step.id} {need}.")
    return step.id if item is None else f"{step.id}/{item}"


def settled(request: ResolveRequest) -> tuple[CallResult | None, tuple[LargeValue, ...]]:
    """The result to record for the call, None if it is to be retried; and the value to store beside it if it is large.

    All calls of a run are read at each settlement, so they are small.
    """
    if request.outcome == "retry":
        return None, ()
    if request.outcome == "failed":
        message = "settled as failed" + (f": {request.message}" if request.message else "")
        return CallResult(Failed(reason="upstream_error", message=message), None, 0, recovered=True), ()
    made, values = Succeeded(value=request.value), list[LargeValue]()
    result = CallResult(made, None, 0, recovered=True, memory=memory_of(to_json(request.value)))
    return ValueStore(values.append, _SMALL_BYTES).for_ledger(result, changed=True), tuple(values)


def is_settled_so(execution: Execution, key: str, request: ResolveRequest, calls: Mapping[str, RecordedCall]) -> bool:
    """Whether a call in doubt was settled before just as this request says; of a retry, only until the run goes on."""
    (said, _), known = settled(request), calls.get(key)
    if said is not None:
        return known is not None and known.result is not None and _is_same(known.result, said, request)
    return known is None and key in map(_key, _doubts(execution))  # its record was deleted


def _is_same(recorded: CallResult, said: CallResult, request: ResolveRequest) -> bool:
    """Whether a record says the same. An earlier version recorded values of any size inline, and no memory."""
    if isinstance(recorded.outcome, Succeeded) and isinstance(said.outcome, Succeeded) and not recorded.outcome.stored:
        said = replace(said, outcome=Succeeded(value=request.value))
    same = replace(recorded, memory=0) == replace(said, memory=0)
    return same and equal(_value_of(recorded), _value_of(said))


def _value_of(result: CallResult) -> JsonValue:
    return result.outcome.value if isinstance(result.outcome, Succeeded) else None


def open_doubts(execution: Execution, calls: Mapping[str, RecordedCall]) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of an ended execution that are not settled yet."""

    def is_open(doubt: DoubtfulCall) -> bool:
        known = calls.get(_key(doubt))
        return known is not None and known.state is not CallState.DONE

    return tuple(filter(is_open, _doubts(execution)))


def _doubts(execution: Execution) -> tuple[DoubtfulCall, ...]:
    return doubts_of(execution.result.records) if execution.result else ()


def _key(doubt: DoubtfulCall) -> str:
    return doubt.step if doubt.item is None else f"{doubt.step}/{doubt.item}"
