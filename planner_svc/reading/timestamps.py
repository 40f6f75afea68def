"""Arguments that take a point in time: RFC 3339, a schema's ``date-time``, or the seconds of Unix."""

from __future__ import annotations

import re
from datetime import datetime, time, tzinfo
from typing import Final, Literal

from planner_svc.reading.moments import Moment
from planner_svc.reading.profile import Slot

_UNIX: Final = re.compile(r"\b(?:unix|epoch|posix)\b", re.IGNORECASE)
_MILLISECONDS: Final = re.compile(r"\bmilli-?seconds?\b|\bms\b", re.IGNORECASE)
_RFC: Final = re.compile(r"\bRFC[ -]?3339\b", re.IGNORECASE)
_MAX_TEXT: Final = 600
_LEAST: Final = 100_000_000
"""In 1973: no smaller number is meant as a time."""
_LAST: Final = time(23, 59, 59)

Stamp = Literal["seconds", "milliseconds", "rfc3339", "date-time"]


def stamp_of(slot: Slot) -> Stamp | None:
    """The notation in which an argument takes a point in time, as its schema or description states; None if neither."""
    text = f"{slot.name} {slot.parameter.description}"[:_MAX_TEXT]
    form = slot.parameter.json_schema.get("format")
    if slot.kinds & {"integer", "number"}:
        return ("milliseconds" if _MILLISECONDS.search(text) else "seconds") if _UNIX.search(text) else None
    if slot.kinds != {"string"} or slot.choices or form not in (None, "date-time"):
        return None
    return "date-time" if form else "rfc3339" if _RFC.search(text) else None


def is_stamp(stamp: Stamp | None, value: object) -> bool:
    """Whether a number in the request may be such a time itself: 10 is an hour or a day, and no second of Unix."""
    return stamp not in ("seconds", "milliseconds") or not isinstance(value, int | float) or value >= _LEAST


def as_stamp(stamp: Stamp, moment: Moment, zone: tzinfo, *, last: bool) -> int | str | None:
    """A moment in this notation; None if it is no day, or a schema's ``date-time``, of which there are several.

    Args:
        stamp: the notation.
        moment: the moment; a day is its beginning.
        zone: the zone of moments that name none.
        last: a day or period is its end instead.
    """
    day = moment.last if last and moment.last is not None else moment.day
    if day is None or stamp == "date-time":
        return None
    clock = moment.clock or (_LAST if last else time())
    at = datetime.combine(day, clock, tzinfo=moment.zone or zone)
    if stamp == "rfc3339":
        return at.isoformat().replace("+00:00", "Z")
    return int(at.timestamp()) * (1_000 if stamp == "milliseconds" else 1)
