"""Limits that a request says for a search and that the network marks for no argument: "in the last 30 days"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.amounts import NUMBERS
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.range_ends import ranges_of
from planner_svc.backends.compact.said_moments import Place
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.limits import end_said, limit_before, limit_named
from planner_svc.reading.moments import Moment
from planner_svc.reading.profile import Profile
from planner_svc.reading.quantities import amount_ranges, quantities
from planner_svc.reading.ranges import is_range

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_SURE: Final = 0.5
"""The probability of values that only these rules find."""


def takes_limits(profile: Profile) -> bool:
    """Whether an API has arguments for moments, or for ends of a range."""
    return any(slot.temporal or (slot.role and slot.in_range and not slot.choices) for slot in profile.slots)


def add_unmarked_ends(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Give the only range of dates, and the only one of amounts, what only it can take of the request.

    These are the only moment, or the only amount with a limit, or both ends of the only range of them, that no other
    argument has. Both ends of the range have to be optional and empty. A change only gets a moment that words such as
    "older than" tell to be one end. So does the only argument that is that end by its name. What is a month or a year
    goes also into arguments of these names.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are completed.
        fills: what its arguments were filled from.
    """
    open_ranges = [
        (first, last)
        for first, last in ranges_of(fills)
        if not (first.slot.required or last.slot.required or first.slot.paging)
    ]
    dates = [pair for pair in open_ranges if pair[0].slot.temporal]
    amounts = [pair for pair in open_ranges if pair[0].slot.kinds & NUMBERS and not pair[0].slot.temporal]
    moments = [(place, one) for place, one in filler.moments.dated() if not _is_taken(place, call)]
    limited = [(place, end) for place, _ in moments if (end := end_said(query, place, moment=True))]
    changes = any(fill.profile.api.mutating for fill in fills)
    if not changes:
        _fill(filler, call, amounts, _amounts(filler, query, call))
        _add_parts(call, fills, [moment for _, moment in filler.moments.dated()])
    if not changes or len(limited) == len(moments):
        _fill(filler, call, dates, _dates(query, moments))
    single = [fill for fill in fills if fill.slot.temporal and not fill.slot.choices and limit_named(fill.slot)]
    if len(single) == len(limited) == len(moments) == 1 and limited[0][1] == limit_named(single[0].slot):
        _fill(filler, call, [single], [limited[0][0]])


def _fill(
    filler: Filler, call: DraftCall, ranges: Sequence[Sequence[FillRequest]], places: Sequence[Place | None]
) -> None:
    """Give the ends of the only range these words, if both are empty."""
    if len(ranges) != 1 or any(fill.slot.name in call.arguments for fill in ranges[0]):
        return
    for fill, place in zip(ranges[0], places, strict=True):
        value = None if place is None else filler.meaning(fill, *place)
        if value is not None:
            call.arguments[fill.slot.name] = LiteralArgument(value, place, _SURE)
            call.missing[:] = [name for name in call.missing if name != fill.slot.name]


def _dates(query: str, moments: Sequence[tuple[Place, Moment]]) -> tuple[Place | None, Place | None]:
    """The words for the first and the last end; the other end of a period is left open."""
    places = [place for place, _ in moments]
    if len(places) == 2 and is_range(query, *places):
        return places[0], places[1]
    if len(places) != 1:
        return None, None
    limit = limit_before(query, places[0][0], moment=True)
    end = end_said(query, places[0], moment=True) or (limit.end if limit is not None else None)
    if end is None and moments[0][1].clock is not None:
        return None, None
    return (None, places[0]) if end == "to" else (places[0], None)


def _amounts(filler: Filler, query: str, call: DraftCall) -> tuple[Place | None, Place | None]:
    """The same for amounts, of which a single one needs words that limit it."""

    def is_free(place: Place) -> bool:
        return not _is_taken(place, call) and not filler.moments.touches(*place)

    found = [pair for pair in amount_ranges(query) if all(map(is_free, pair))]
    if len(found) == 1:
        return found[0]
    places = [(one.start, one.end) for one in quantities(query)]
    said = [(place, end_said(query, place, moment=False)) for place in places if is_free(place)]
    limited = [(place, end) for place, end in said if end is not None]
    if found or len(limited) != 1:
        return None, None
    place, end = limited[0]
    return (None, place) if end == "to" else (place, None)


def _is_taken(place: Place, call: DraftCall) -> bool:
    return any(start < place[1] and place[0] < end for start, end in call.places)


def _add_parts(call: DraftCall, fills: Sequence[FillRequest], moments: Sequence[Moment]) -> None:
    """The month and the year that the only moment is, in arguments with these names."""
    if len(moments) != 1 or moments[0].grain not in ("month", "year") or moments[0].day is None:
        return
    parts = {"year": moments[0].day.year} | ({"month": moments[0].day.month} if moments[0].grain == "month" else {})
    for fill in fills:
        value = parts.get(fill.slot.said)
        free = fill.slot.name not in call.arguments and not fill.slot.required
        if value is not None and free and fill.slot.kinds & NUMBERS and fill.allows(value):
            call.arguments[fill.slot.name] = LiteralArgument(value, None, _SURE)
