"""Notations in which APIs expect moments, and the parts of a moment that each one uses."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, tzinfo
from functools import lru_cache
from typing import Final

from planner_svc.reading.moments import Moment

_FORMS: Final = {
    "9999-99-99": ("%Y-%m-%d",),
    "9999-99-99T99:99:99": ("%Y-%m-%dT%H:%M:%S",),
    "9999-99-99T99:99": ("%Y-%m-%dT%H:%M",),
    "9999-99-99 99:99:99": ("%Y-%m-%d %H:%M:%S",),
    "9999-99-99 99:99": ("%Y-%m-%d %H:%M",),
    "9999-99-99T99:99:99Z": ("%Y-%m-%dT%H:%M:%SZ",),
    "9999-99-99T99:99Z": ("%Y-%m-%dT%H:%MZ",),
    "9999-99-99T99:99:99+99:99": ("%Y-%m-%dT%H:%M:%S%z",),
    "9999-99-99T99:99:99-99:99": ("%Y-%m-%dT%H:%M:%S%z",),
    "99:99": ("%H:%M",),
    "99:99:99": ("%H:%M:%S",),
    "99:99 AM": ("%I:%M %p",),
    "99:99 PM": ("%I:%M %p",),
    "9999-99": ("%Y-%m",),
    "9999": ("%Y",),
    "99": ("%m", "%d"),
    "99/99/9999": ("%d/%m/%Y", "%m/%d/%Y"),
    "99-99-9999": ("%d-%m-%Y", "%m-%d-%Y"),
    "99.99.9999": ("%d.%m.%Y",),
    "9999/99/99": ("%Y/%m/%d",),
    "99999999": ("%Y%m%d",),
}
"""The ``strftime`` forms that a value may have, by its look: each digit is a 9."""
_MAX_CHARS: Final = 25
_PARTS: Final = {"Y": "Y", "m": "m", "d": "d", "H": "H", "I": "H"}


@dataclass(frozen=True, slots=True)
class Writing:
    """A notation for moments.

    Attributes:
        form: a ``strftime`` form; one that ends in Z means UTC.
        last: whether it writes the last day of a period.
        whole: whether it converts the digits to an integer.
    """

    form: str
    last: bool = False
    whole: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """The parts that it writes, out of year (Y), month (m), day (d) and time of day (H)."""
        return frozenset(part for sign, part in _PARTS.items() if f"%{sign}" in self.form)

    def written(self, moment: Moment, zone: tzinfo | None) -> str | int | None:
        """The moment in this notation; None if the moment lacks a part. A day without a time begins at midnight."""
        day = moment.last if self.last else moment.day
        parts = self.parts
        if (day is None and parts & {"Y", "m", "d"}) or (moment.clock is None and parts == {"H"}):
            return None
        at = datetime.combine(day or datetime(2000, 1, 1), moment.clock or time(0), moment.zone or zone or UTC)
        with suppress(ValueError, OverflowError):  # year 1, or a zone that shifts it beyond the calendar
            text = (at.astimezone(UTC) if self.form.endswith("Z") else at).strftime(self.form)
            if self.form.endswith("%z"):  # "+02:00", but strftime writes "+0200"
                text = at.isoformat()
            return int(text) if self.whole else text
        return None

    def read(self, value: str | int) -> datetime | None:
        """The time that the value is in this notation; missing parts have defaults. None if it does not parse."""
        with suppress(ValueError, OverflowError):
            return datetime.strptime(str(value), self.form).replace(tzinfo=None)
        return None


def writings(value: str | int) -> tuple[Writing, ...]:
    """All notations in which the value may be a moment."""
    return () if isinstance(value, str) and len(value) > _MAX_CHARS else _writings(value)


@lru_cache(4_096)
def _writings(value: str | int) -> tuple[Writing, ...]:
    whole = isinstance(value, int)
    text = f"{value:02d}" if isinstance(value, int) else value
    if len(text) > _MAX_CHARS or (whole and len(text) not in (2, 4)):
        return ()
    forms = _FORMS.get(re.sub(r"[0-9]", "9", text), ())
    ways = (Writing(form, last, whole) for form in forms for last in (False, True))
    return tuple(way for way in ways if way.read(value) is not None)


def parts_said(moment: Moment) -> frozenset[str]:
    """The parts that a moment's own words specify."""
    grains = {"year": "Y", "month": "Ym"}
    day = "" if moment.day is None else grains.get(moment.grain, "Ymd")
    return frozenset(day + ("H" if moment.clock is not None else ""))


def part_of(moment: Moment, part: str) -> object:
    """One part of a moment, for comparison."""
    if part == "H":
        return moment.clock, moment.zone
    return None if moment.day is None else {"Y": moment.day.year, "m": moment.day.month, "d": moment.day.day}[part]
