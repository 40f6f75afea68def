"""Periods such as "in October", and ranges, which say both ends of a pair of arguments: its first and its last day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from planner_svc.backends.compact.draft_calls import Argument, DraftCall, LiteralArgument
from planner_svc.backends.compact.range_ends import ranges_of
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.limits import end_said, limit_before
from planner_svc.reading.moments import Moment

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_INCLUDES: Final = re.compile(
    r"\b(?:(?:on|at)\s+or\s+|or\s+(?:on|later|earlier)\b|inclu(?:sive|ding)|(?:first|last)\s+day\b)", re.IGNORECASE
)
"""What descriptions say of ends that are in the range themselves."""
_LEAVES_OUT: Final = re.compile(
    r"\b(?:(?:before|prior\s+to|earlier\s+than|after|later\s+than)\s+(?:this|that|the\s+given)\b|exclusive)",
    re.IGNORECASE,
)

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler


def add_other_ends(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Give a pair's empty end the period that the request says for its other end, or the other end of a range.

    A preposition that says one end leaves the other empty: "since October", "until next week"; but what is "from last
    month" ends with it. A single day is a period for calls that only read, if both ends are optional: "the
    appointments of today".

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are completed.
        fills: what its arguments were filled from.
    """
    _set_ranges(filler, call, fills)
    for fill in fills:
        said = call.arguments.get(fill.slot.name)
        if fill.slot.role is None or not isinstance(said, LiteralArgument) or said.place is None:
            continue
        start, end = said.place
        moment = filler.moments.at(start, end)
        if moment is None or said.value == query[start:end]:
            continue
        place = filler.moments.other_end(said.place, fill.slot.role)
        temporal = fill.slot.temporal
        opens = limit_before(query, start, moment=temporal)
        is_of = opens is not None and opens.weak and opens.end == "from"
        is_one_end = end_said(query, said.place, moment=temporal) is not None
        ends_here = is_of and not is_one_end and (fill.slot.role == "to" or filler.moments.is_over(moment))
        one_end = is_one_end or opens is not None
        if place is None and one_end and not ends_here:
            continue
        for other in fills:
            if other.slot.role in (None, fill.slot.role) or other.slot.paired != fill.slot.paired:
                continue
            if not _is_open(filler, query, call.arguments.get(other.slot.name)):
                continue
            if place is None and moment.last is None and not _is_filter(moment, fill, other):
                continue
            value = filler.meaning(other, *place) if place else _end_of(filler, other, said.value, said.place, moment)
            if value not in (None, query[slice(*(place or said.place))]) and other.allows(value):
                call.arguments[other.slot.name] = LiteralArgument(value, place or said.place, said.sure)
                call.missing[:] = [name for name in call.missing if name != other.slot.name]


def _set_ranges(filler: Filler, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Give both ends a range of which one has the other's words: "10" in "between 8 and 10" for the start."""
    for ends in ranges_of(fills):
        said = [one for fill in ends if (one := call.arguments.get(fill.slot.name)) is not None]
        places = {
            fill.slot.name: one.place
            for fill in ends
            if isinstance(one := call.arguments.get(fill.slot.name), LiteralArgument) and one.place is not None
        }
        for pair in filler.moments.ranges() if len(places) == len(said) else ():
            crossed = any(_share(places.get(fill.slot.name), at) for fill, at in zip(ends, pair[::-1], strict=True))
            if not crossed or not all(any(_share(place, at) for at in pair) for place in places.values()):
                continue
            values = [filler.meaning(fill, *at) for fill, at in zip(ends, pair, strict=True)]
            for fill, at, value in zip(ends, pair, values, strict=True):
                if None not in values:
                    call.arguments[fill.slot.name] = LiteralArgument(value, at, min(one.sure for one in said))
                    call.missing[:] = [name for name in call.missing if name != fill.slot.name]


def _share(place: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    return place is not None and place[0] < other[1] and other[0] < place[1]


def _is_filter(moment: Moment, fill: FillRequest, other: FillRequest) -> bool:
    """Whether a single day is both ends of what a call looks for."""
    reads = not (fill.profile.api.mutating or fill.slot.required or other.slot.required)
    return reads and moment.grain == "day" and fill.slot.kinds == other.slot.kinds == {"string"}


def _is_open(filler: Filler, query: str, argument: Argument | None) -> bool:
    """Whether an end has no value, words that are no date, or a period's name as it is said."""
    if argument is None:
        return True
    if not isinstance(argument, LiteralArgument) or argument.place is None:
        return False
    words = query[slice(*argument.place)]
    return not filler.moments.at(*argument.place) or (argument.value == words and words[:1].isalpha())


def _end_of(filler: Filler, fill: FillRequest, other: JsonValue, place: tuple[int, int], period: Moment) -> JsonValue:
    """The end of the period that an argument is, in its own notation; in ISO 8601 if the other end is."""
    day = period.last_day().day if fill.slot.role == "to" else period.day
    iso = {str(one) for one in (period.day, period.last)}
    if other in iso and fill.allows(str(day)):
        return str(day)
    return _bound(fill, filler.meaning(fill, *place), included=True)


def set_bounds(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Let ends of ranges include the days that the request includes, and leave out those that it leaves out.

    Periods and ranges that end at a time end with their last day: "between 1 and 10 December" has the 10th. Where
    something is looked for, so does a day that is both ends, and "until 10 December"; what is after a day starts with
    its end. An argument for the first day "on or after" which something is then gets the day after it, and one for
    the day "before this day" which something is gets the day after the last one that is included.

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    said = {
        fill.slot.name: one for fill in fills if isinstance(one := call.arguments.get(fill.slot.name), LiteralArgument)
    }
    starts = {said[fill.slot.name].place for fill in fills if fill.slot.role == "from" and fill.slot.name in said}
    for fill in fills:
        one, role = said.get(fill.slot.name), fill.slot.role
        moment = filler.moments.at(*one.place) if one is not None and one.place is not None else None
        if role is None or one is None or one.place is None or moment is None or moment.clock is not None:
            continue
        reads, limit = not fill.profile.api.mutating, limit_before(query, one.place[0], moment=True)
        is_in = limit is not None and limit.end == "to" and not limit.outside
        if reads and limit is not None and limit.outside and limit.end == role:
            value = _bound(fill, one.value, included=False)
        elif (
            moment.last is not None
            or filler.moments.other_end(one.place, role) is not None
            or (reads and (is_in or one.place in starts))
        ):
            value = _bound(fill, one.value, included=True)
        else:
            continue
        call.arguments[fill.slot.name] = replace(one, value=value)


def _bound(fill: FillRequest, value: JsonValue, *, included: bool) -> JsonValue:
    """An end at a day that the request includes or leaves out: the day beside it for an argument that does not.

    Of a time, the end of the day instead of its beginning, if the argument is not called a date.
    """
    if not isinstance(value, str):
        return value
    outward, about = (fill.slot.role == "to") == included, fill.slot.parameter.description
    includes = _INCLUDES.search(about) is not None
    if _DAY.fullmatch(value) and (not includes and _LEAVES_OUT.search(about) if included else includes):
        return (date.fromisoformat(value) + timedelta(days=1 if outward else -1)).isoformat()
    return _late(fill, value) if outward else value


def _late(fill: FillRequest, value: str) -> str:
    late = value.replace("T00:00:00", "T23:59:59")
    return late if "date" not in fill.slot.words and fill.allows(late) else value
