"""Calls in doubt, and how a person settles them."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract
from services.contracts.outcome import InDoubt, RequestRecord, StepOutcome, StepRecord


class DoubtfulCall(Contract):
    """A call that was sent, and it is unknown whether it took effect."""

    step: str
    api: str
    item: int | None = None
    request: RequestRecord | None = None
    message: str


def doubts_of(records: Iterable[StepRecord]) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt among the steps of a run. For a `foreach`, each item counts separately."""
    found: list[DoubtfulCall] = []
    for record in records:
        items = [item for item in record.items if isinstance(item.outcome, InDoubt)]
        found += [_doubt(record, item.outcome, item.request, item.index) for item in items]
        if isinstance(record.outcome, InDoubt) and not items:
            found.append(_doubt(record, record.outcome, record.requests[0] if record.requests else None, None))
    return tuple(found)


def _doubt(record: StepRecord, outcome: StepOutcome, request: RequestRecord | None, item: int | None) -> DoubtfulCall:
    message = outcome.message if isinstance(outcome, InDoubt) else ""
    return DoubtfulCall(step=record.step, api=record.api, item=item, request=request, message=message)


class ResolveRequest(Contract):
    """What a person found out about a call in doubt.

    `succeeded`: it took effect, and `value` is the response it would have given. `failed`: it did not take effect and
    is not sent again. `retry`: it did not take effect and is sent again.
    """

    outcome: Literal["succeeded", "failed", "retry"]
    value: JsonValue = None
    message: str = Field(default="", max_length=1_000, description="The reason; kept with the run.")
    item: int | None = Field(default=None, ge=0, description="Index of the item; required for a `foreach`.")
