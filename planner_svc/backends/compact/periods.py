"""Periods such as "in October", and ranges, which say both ends of a pair of arguments: its first and its last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from planner_svc.backends.compact.draft_calls import Argument, DraftCall, LiteralArgument
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.limits import end_said, limit_before
from planner_svc.reading.moments import Moment

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler


def add_other_ends(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Give a pair's empty end the period that the request says for its other end, or the other end of a range.

    A preposition that says one end leaves the other empty: "since October", "until next week"; but what is "from the
    last two weeks" ends with them. A single day is a period for calls that only read, if both ends are optional: "the
    appointments of today".

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are completed.
        fills: what its arguments were filled from.
    """
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
        ends_here = opens is not None and opens.weak and opens.end == "from" and fill.slot.role == "to"
        one_end = opens is not None or end_said(query, said.place, moment=temporal) is not None
        if place is None and one_end and not ends_here:
            continue
        for other in fills:
            if other.slot.role in (None, fill.slot.role) or other.slot.paired != fill.slot.paired:
                continue
            if not _is_open(filler, call.arguments.get(other.slot.name)):
                continue
            if place is None and moment.last is None and not _is_filter(moment, fill, other):
                continue
            value = filler.meaning(other, *place) if place else _end_of(filler, other, said.value, said.place, moment)
            if value not in (None, query[slice(*(place or said.place))]) and other.allows(value):
                call.arguments[other.slot.name] = LiteralArgument(value, place or said.place, said.sure)
                call.missing[:] = [name for name in call.missing if name != other.slot.name]


def _is_filter(moment: Moment, fill: FillRequest, other: FillRequest) -> bool:
    """Whether a single day is both ends of what a call looks for."""
    reads = not (fill.profile.api.mutating or fill.slot.required or other.slot.required)
    return reads and moment.grain == "day" and fill.slot.kinds == other.slot.kinds == {"string"}


def _is_open(filler: Filler, argument: Argument | None) -> bool:
    """Whether an end has no value, or words that are no date."""
    if argument is None:
        return True
    return (
        isinstance(argument, LiteralArgument) and argument.place is not None and not filler.moments.at(*argument.place)
    )


def _end_of(filler: Filler, fill: FillRequest, other: JsonValue, place: tuple[int, int], period: Moment) -> JsonValue:
    """The end of the period that an argument is, in its own notation; in ISO 8601 if the other end is."""
    day = period.last_day().day if fill.slot.role == "to" else period.day
    iso = {str(one) for one in (period.day, period.last)}
    if other in iso and fill.allows(str(day)):
        return str(day)
    return _end_of_day(fill, filler.meaning(fill, *place))


def end_with_last_day(filler: Filler, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Let periods and ranges that end at a time end with their last day: "between 1 and 10 December" has the 10th.

    Args:
        filler: the filler of the call's arguments.
        call: the call; its arguments are changed.
        fills: what its arguments were filled from.
    """
    for fill in fills:
        said = call.arguments.get(fill.slot.name)
        if fill.slot.role != "to" or not isinstance(said, LiteralArgument) or said.place is None:
            continue
        moment = filler.moments.at(*said.place)
        if moment is None or moment.clock is not None:
            continue
        if moment.last is not None or filler.moments.other_end(said.place, "to") is not None:
            call.arguments[fill.slot.name] = replace(said, value=_end_of_day(fill, said.value))


def _end_of_day(fill: FillRequest, value: JsonValue) -> JsonValue:
    """The end of a day instead of its beginning, if the argument ends a period and is not called a date."""
    if fill.slot.role == "to" and isinstance(value, str) and "date" not in fill.slot.words:
        late = value.replace("T00:00:00", "T23:59:59")
        return late if fill.allows(late) else value
    return value
