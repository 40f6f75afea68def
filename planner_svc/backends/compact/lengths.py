"""The end of what starts at a time and lasts as long as the request says: "at 3 pm for two hours"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from dateutil.relativedelta import relativedelta

from planner_svc.backends.compact.draft_calls import Argument, DraftCall, LiteralArgument
from planner_svc.backends.compact.range_ends import ranges_of
from planner_svc.backends.compact.task import FillRequest
from planner_svc.reading.quantities import Quantity, quantities
from planner_svc.reading.units import UNIT_WORDS

if TYPE_CHECKING:
    from planner_svc.backends.compact.filling import Filler

_BEFORE: Final = re.compile(r"(?:\b(?:for|lasting|lasts|takes|taking)\s+(?:about\s+)?|[,;(]\s*)$", re.IGNORECASE)
_NO_LENGTH: Final = re.compile(
    r"\s*(?:ago|before|after|later|earlier|prior|from\s+now|in\s+advance|notice|each|per)\b", re.IGNORECASE
)
_LAST_DAY: Final = re.compile(r"\blast\s+day\b", re.IGNORECASE)
_NIGHTS: Final = re.compile(r"nights?$", re.IGNORECASE)
_STARTS: Final = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)(?:(?P<sep>[T ])(?P<clock>\d\d:\d\d(?::\d\d)?)(?P<zone>.*))?")
_NEAR: Final = 20


def add_ends_by_length(filler: Filler, query: str, call: DraftCall, fills: Sequence[FillRequest]) -> None:
    """Give the end of a range the time at which what lasts that long is over.

    Days count nights, or up to the last day of an argument that says to be one: otherwise "for two weeks" from a day on
    may or may not include the day after. An end that is the
    start's day is then taken away, and missing if it is required. A period has its own end: "in August for two nights".

    Args:
        filler: the filler of the call's arguments.
        query: the request.
        call: the call; its arguments are completed.
        fills: what its arguments were filled from.
    """
    length = _only_length(query)
    if length is None:
        return
    nights = _NIGHTS.search(query[length.start : length.end]) is not None
    for first, last in ranges_of(fills):
        start, end = call.arguments.get(first.slot.name), call.arguments.get(last.slot.name)
        if not isinstance(start, LiteralArgument) or not isinstance(start.value, str):
            continue
        moment = filler.moments.at(*start.place) if start.place is not None else None
        if moment is not None and moment.last is not None:
            continue
        is_same = start.place is not None and isinstance(end, LiteralArgument) and end.place == start.place
        ends_at_start = is_same and (nights or _is_long(length))
        if not ends_at_start and not _is_open(end, length):
            continue
        value = _after(
            start.value, length, nights=nights, is_last=bool(_LAST_DAY.search(last.slot.parameter.description))
        )
        if value is not None and last.allows(value):
            call.arguments[last.slot.name] = LiteralArgument(value, (length.start, length.end), start.sure)
            call.missing[:] = [name for name in call.missing if name != last.slot.name]
        elif ends_at_start:
            del call.arguments[last.slot.name]
            if last.slot.required:
                call.missing.append(last.slot.name)


def _only_length(query: str) -> Quantity | None:
    """How long something lasts, if the request says one length."""
    found = [
        one
        for one in quantities(query)
        if one.unit is not None
        and one.unit.kind in ("time", "months")
        and _BEFORE.search(query[max(one.start - _NEAR, 0) : one.start])
        and not _NO_LENGTH.match(query, one.end)
    ]
    return found[0] if len(found) == 1 else None


def _is_long(length: Quantity) -> bool:
    """Whether it is longer than a day."""
    return length.unit is not None and (
        length.unit.kind == "months" or length.amount * length.unit.size > UNIT_WORDS["day"].size
    )


def _is_open(end: Argument | None, length: Quantity) -> bool:
    """Whether an end has no value, or one that was read from the length."""
    if not isinstance(end, LiteralArgument) or end.place is None:
        return end is None
    return end.place[0] < length.end and length.start < end.place[1]


def _after(start: str, length: Quantity, *, nights: bool, is_last: bool) -> str | None:
    """The end, written as the start; None if the start is none to count from."""
    match = _STARTS.fullmatch(start)
    if match is None or length.unit is None or not (match["clock"] or nights or is_last):
        return None
    with suppress(ValueError, OverflowError):
        begins = datetime.fromisoformat(match["day"] + (f"T{match['clock']}" if match["clock"] else ""))
        if length.unit.kind == "time":
            ends = begins + timedelta(seconds=length.amount * length.unit.size)
        else:
            ends = begins + relativedelta(months=int(length.amount * length.unit.size))
        if not match["clock"]:
            return (ends.date() - timedelta(days=not nights)).isoformat()
        clock = ends.strftime("%H:%M:%S")[: len(match["clock"])]
        return f"{ends.date().isoformat()}{match['sep']}{clock}{match['zone']}"
    return None
