"""The only amount of a request that is measured as a required argument is: "renew it for a year" for ``months``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.quantities import quantities
from planner_svc.reading.units import unit_of
from services.compute import with_checkpoints

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_SURE: Final = 0.5
"""Probability of a value that the network did not see."""


def take_measures(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Fill required arguments that have a unit, and for which nothing was found, with the only amount in such a unit.

    Amounts that another argument of the call has are not taken, and none of two.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    measured = [(fill, unit) for fill in fills if fill.slot.name in call.missing and (unit := unit_of(fill.slot))]
    said = quantities(query) if measured else []
    for fill, unit in with_checkpoints(measured):
        free = [
            one
            for one in said
            if one.unit is not None
            and one.unit.kind == unit.kind
            and not any(one.start < end and start < one.end for start, end in call.places)
        ]
        value = filler.meaning(fill, free[0].start, free[0].end) if len(free) == 1 else None
        if value is not None:
            call.arguments[fill.slot.name] = LiteralArgument(value, (free[0].start, free[0].end), _SURE)
            call.missing.remove(fill.slot.name)
