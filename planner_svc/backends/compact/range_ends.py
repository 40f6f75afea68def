"""Which end of a range a value is: "less than 40" is the most, "before Friday" the last, "between 50 and 100" both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from planner_svc.backends.compact.amounts import NUMBERS
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.choices import end_converted
from planner_svc.reading.limits import end_said, limit_before, limit_named
from planner_svc.reading.profile import Slot
from planner_svc.reading.quantities import amount_ranges
from planner_svc.reading.timestamps import stamp_of
from services.contracts.api import Location

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

Place = tuple[int, int]
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK: Final = re.compile(r"(?:\d{4}-\d\d-\d\d[T ])?(?!00:00)\d\d:\d\d")


def set_right_ends(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Put values at the ends of ranges that the request means.

    A range that ends before it starts is turned round, and so is "how many euros are 20 dollars". A value whose words
    tell one end is only that end, also if the other has the same words, or has them alone. Required arguments stay.
    What is changed does not end at the time at which it starts: such an end is taken away, and missing if required.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    ranges = list(amount_ranges(query))
    for first, last in _pairs(fills):
        if first.slot.in_range and first.slot.kinds & NUMBERS:
            _set_both(filler, call, (first, last), ranges)
        low, high = call.arguments.get(first.slot.name), call.arguments.get(last.slot.name)
        if isinstance(low, LiteralArgument) and isinstance(high, LiteralArgument):
            if _ends_at_start(first, low, high):
                del call.arguments[last.slot.name]
                call.missing += [last.slot.name] if last.slot.required else []
            elif low.place and low.place == high.place:
                _keep_end_said(query, call, low.place, (first, last))
            elif low.place and high.place and _is_turned(query, first, low, high):
                _set(filler, call, first, high)
                _set(filler, call, last, low)
        elif first.slot.in_range and (low is None or high is None):
            here, there, said = (first, last, low) if low is not None else (last, first, high)
            if not isinstance(said, LiteralArgument) or said.place is None or here.slot.required:
                continue
            end = end_said(query, said.place, moment=here.slot.temporal)
            if end == there.slot.role and _set(filler, call, there, said):
                del call.arguments[here.slot.name]
    _drop_opposite(filler, query, call, fills)


def _drop_opposite(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Drop values that are the other end by their words: what is newer than three days is no ``older_than_days``.

    Changes are not limited by an end that the words do not tell: photos "of last week" are not those before it.
    """
    for fill in fills:
        said = call.arguments.get(fill.slot.name)
        own = None if fill.slot.choices else limit_named(fill.slot)
        if own is None or not isinstance(said, LiteralArgument) or said.place is None:
            continue
        is_moment = fill.slot.temporal or stamp_of(fill.slot) is not None
        end = end_said(query, said.place, moment=is_moment)
        if end not in (None, own) or (end is None and _is_no_end(filler, query, fill, fills, said.place)):
            del call.arguments[fill.slot.name]
            call.missing += [fill.slot.name] if fill.slot.required else []


def _is_no_end(filler: Filler, query: str, fill: FillRequest, fills: Sequence[FillRequest], place: Place) -> bool:
    """Whether a moment is all of what a change is made for, and no end of it: "of last week", for the only end."""
    moment, limit = filler.moments.at(*place), limit_before(query, place[0], moment=True)
    is_filter = fill.slot.parameter.location is Location.QUERY or (moment is not None and moment.last is not None)
    if moment is None or not is_filter or not fill.profile.api.mutating or (limit and limit.end == fill.slot.role):
        return False
    return not any(fill in pair for pair in _pairs(fills))


def _set_both(
    filler: Filler, call: DraftCall, ends: Sequence[FillRequest], ranges: Sequence[tuple[Place, Place]]
) -> None:
    """Give both ends a range of amounts of which one has a part: "250 to 1000 EUR"."""
    said = [call.arguments.get(fill.slot.name) for fill in ends]
    places = [one.place for one in said if isinstance(one, LiteralArgument) and one.place is not None]
    whole = [pair for pair in ranges if any(start < b and a < end for start, end in places for a, b in pair)]
    if len(whole) != 1 or len(places) != sum(one is not None for one in said):
        return
    sure = min(one.sure for one in said if one is not None)
    values = [filler.meaning(fill, *place) for fill, place in zip(ends, whole[0], strict=True)]
    for fill, place, value in zip(ends, whole[0], values, strict=True):
        if None not in values:
            call.arguments[fill.slot.name] = LiteralArgument(value, place, sure)
            call.missing[:] = [name for name in call.missing if name != fill.slot.name]


def ranges_of(fills: Sequence[FillRequest]) -> Iterator[tuple[FillRequest, FillRequest]]:
    """The first and the last end of each range that the arguments have."""
    return (pair for pair in _pairs(fills) if pair[0].slot.in_range)


def _pairs(fills: Sequence[FillRequest]) -> Iterator[tuple[FillRequest, FillRequest]]:
    """The first and the last end of each pair that the arguments have."""
    ends = [fill for fill in fills if fill.slot.role and not fill.slot.choices]
    for first in ends:
        lasts = [last for last in ends if first.slot.role == "from" and _is_end_of(first.slot, last.slot)]
        if len(lasts) == 1:
            yield first, lasts[0]


def _is_end_of(first: Slot, last: Slot) -> bool:
    return (
        last.role == "to"
        and last.paired == first.paired
        and last.kinds == first.kinds
        and last.in_range == first.in_range
    )


def _is_turned(query: str, first: FillRequest, low: LiteralArgument, high: LiteralArgument) -> bool:
    """Whether each value of a pair is the other end: by its size, or by the words before it where it is no range."""
    if first.slot.in_range:
        return _is_before(high, low)
    ends = [end_converted(query, one.place[0]) for one in (low, high) if one.place is not None]
    return ends == ["to", "from"]


def _is_before(one: LiteralArgument, other: LiteralArgument) -> bool:
    """Whether a number is smaller, or a day earlier; times of day may pass midnight."""
    left, right = one.value, other.value
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left < right
    if isinstance(left, str) and isinstance(right, str) and _DAY.match(left) and _DAY.match(right):
        return left[:10] < right[:10]
    return False


def _ends_at_start(first: FillRequest, low: LiteralArgument, high: LiteralArgument) -> bool:
    """Whether a change would end at the time at which it starts; the beginning of a day is the day itself."""
    changed = first.slot.in_range and first.profile.api.mutating and low.value == high.value
    return changed and isinstance(low.value, str) and _CLOCK.match(low.value) is not None


def _keep_end_said(query: str, call: DraftCall, place: tuple[int, int], fills: Sequence[FillRequest]) -> None:
    """Leave one value of two from the same words: "before 1900" is no year from which to search."""
    end = end_said(query, place, moment=fills[0].slot.temporal)
    for fill in fills:
        if end not in (None, fill.slot.role) and not fill.slot.required:
            del call.arguments[fill.slot.name]


def _set(filler: Filler, call: DraftCall, fill: FillRequest, said: LiteralArgument) -> bool:
    value = filler.meaning(fill, *said.place) if said.place is not None else None
    if value is not None:
        call.arguments[fill.slot.name] = LiteralArgument(value, said.place, said.sure)
    return value is not None
