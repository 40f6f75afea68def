"""Dates, times and durations in a request, against its clock and zone. A small grammar: English words and ISO 8601."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Literal

from dateutil.relativedelta import relativedelta

from planner_svc.backends.compact.numbers import NUMBER_WORD, number

Grain = Literal["time", "day", "week", "month", "year"]

MONTHS = {
    name: index
    for index, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
WEEKDAYS = {
    name: i for i, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")

_MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY = "(?:" + "|".join(WEEKDAYS) + ")"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d\d"
_CLOCK = (
    r"(?:[01]?\d|2[0-3])(?::[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b\.?)?|\s?[ap]\.?m\b\.?|\s?o'clock)|noon\b|midnight\b"
)
_AMOUNT = rf"(?:\d+|an?|{NUMBER_WORD})"
_SPAN_UNIT = rf"(?P<n>{_AMOUNT})[\s-]+(?P<unit>{'|'.join(UNITS)})s?\b"


@dataclass(frozen=True, slots=True)
class Moment:
    """A point or stretch of time: ``day`` is its first day, ``last`` its last where it is longer than one."""

    grain: Grain
    day: date | None = None
    last: date | None = None
    clock: time | None = None
    zone: tzinfo | None = None
    """Set only where the words name an offset."""


@dataclass(frozen=True, slots=True)
class Duration:
    """``amount`` of a unit; negative where the words go back in time."""

    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Found:
    """A moment or duration and where it stands."""

    start: int
    end: int
    value: Moment | Duration
    is_sum: bool = False


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){pattern}(?![\w])", re.IGNORECASE)


_ISO = re.compile(
    r"(?<![\w-])(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)"
    r"(?:[T ](?P<t>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?P<z>Z|[+-]\d\d:?\d\d)?)?(?!\w)"
)
_DAY_MONTH = _rx(rf"(?P<d>{_DAY})(?:\s+of)?\s+(?P<mon>{_MONTH})(?:,?\s+(?P<y>{_YEAR}))?")
_MONTH_DAY = _rx(rf"(?P<mon>{_MONTH})\s+(?:the\s+)?(?P<d>{_DAY})(?!\d|:)(?:,?\s+(?P<y>{_YEAR}))?")
_NUMERIC = _rx(rf"(?P<a>\d{{1,2}})(?P<sep>[/.])(?P<b>\d{{1,2}})(?P=sep)(?P<y>{_YEAR})")
_MONTH_YEAR = _rx(rf"(?P<mon>{_MONTH})(?:,?\s+(?:of\s+)?(?P<y>{_YEAR}))?")
_RELATIVE_DAY = _rx(r"(?P<w>day after tomorrow|day before yesterday|today|tonight|tomorrow|yesterday)")
_WEEKDAY_RX = _rx(rf"(?:(?P<q>next|this|coming|last|past)\s+)?(?P<w>{_WEEKDAY})")
_PERIOD = _rx(r"(?P<q>next|this|coming|last|past|current)\s+(?P<w>week|weekend|month|year)")
_YEAR_RX = _rx(rf"(?P<y>{_YEAR})(?!\s*(?:{'|'.join(UNITS)})s?\b)(?![.,]\d)")
_CLOCK_RX = _rx(rf"(?P<t>{_CLOCK})")
_AGO = _rx(
    rf"(?:in\s+{_SPAN_UNIT}(?!\s+(?:before|after|from))"
    rf"|{_SPAN_UNIT.replace('<n>', '<n2>').replace('<unit>', '<unit2>')}\s+(?P<ago>ago|from now))"
)
_DURATION = _rx(_SPAN_UNIT)
_SHIFT = re.compile(
    r"\s+(?P<w>after|before|from|following|prior to|earlier than|later than)\s+(?:the\s+)?", re.IGNORECASE
)
_JOIN = re.compile(r"(?:,?\s*(?:at|on|by|from|starting|around|T)\s+|,?\s+)(?:the\s+)?", re.IGNORECASE)


class DateReader:
    """Finds moments and durations in a text.

    Args:
        now: the clock that "today" refers to, with its zone.
        month_first: whether 03/04/2027 is in March.
    """

    def __init__(self, now: datetime, *, month_first: bool = False) -> None:
        self._now = now
        self._month_first = month_first

    def find(self, text: str) -> list[Found]:
        """All moments and durations in order; a date and its time are one, and so is "3 weeks after" a date.

        The parts of such a sum ("3 weeks", the date) are found as well: some APIs do the sum themselves.
        """
        dates = _longest([*self._days(text), *self._clocks(text)])
        dates = self._joined(text, dates)
        durations = [
            Found(m.start(), m.end(), Duration(_amount(m["n"]), m["unit"].lower())) for m in _DURATION.finditer(text)
        ]
        sums = list(self._sums(text, durations, dates))
        return sorted([*dates, *sums, *_signed(text, durations)], key=lambda found: (found.start, -found.end))

    def _days(self, text: str) -> Iterator[Found]:
        for pattern, read in (
            (_ISO, self._iso),
            (_DAY_MONTH, self._day_month),
            (_MONTH_DAY, self._day_month),
            (_NUMERIC, self._numeric),
            (_MONTH_YEAR, self._month),
            (_RELATIVE_DAY, self._relative_day),
            (_WEEKDAY_RX, self._weekday),
            (_PERIOD, self._period),
            (_AGO, self._ago),
            (_YEAR_RX, self._year),
        ):
            for match in pattern.finditer(text):
                try:
                    moment = read(match)
                except (ValueError, OverflowError):  # 31 April, year 10000: no date after all
                    continue
                if moment is not None:
                    yield Found(match.start(), match.end(), moment)

    def _clocks(self, text: str) -> Iterator[Found]:
        for match in _CLOCK_RX.finditer(text):
            clock = _clock(match["t"])
            if clock is not None:
                yield Found(match.start(), match.end(), Moment("time", clock=clock))

    def _iso(self, match: re.Match[str]) -> Moment:
        day = date(int(match["y"]), int(match["m"]), int(match["d"]))
        if not match["t"]:
            return Moment("day", day)
        zone = datetime.fromisoformat(f"2000-01-01T00:00{match['z']}").tzinfo if match["z"] else None
        return Moment("time", day, clock=time.fromisoformat(match["t"]), zone=zone)

    def _day_month(self, match: re.Match[str]) -> Moment:
        month, day = MONTHS[match["mon"].lower().rstrip(".")], int(re.sub(r"\D", "", match["d"]))
        if match["y"]:
            return Moment("day", date(int(match["y"]), month, day))
        this_year = date(self._now.year, month, day)
        return Moment("day", this_year if this_year >= self._now.date() else date(self._now.year + 1, month, day))

    def _numeric(self, match: re.Match[str]) -> Moment:
        first, second = int(match["a"]), int(match["b"])
        american = match["sep"] == "/" and self._month_first
        day, month = (second, first) if american or second > 12 else (first, second)
        return Moment("day", date(int(match["y"]), month, day))

    def _month(self, match: re.Match[str]) -> Moment | None:
        name = match["mon"]
        if not match["y"] and (not name[0].isupper() or match.start() == 0):
            return None  # "may" and "march" are also verbs
        if re.search(r"\d\s*$", match.string[max(match.start() - 3, 0) : match.start()]):
            return None  # what is left of 31 April
        month = MONTHS[name.lower().rstrip(".")]
        year = int(match["y"]) if match["y"] else self._now.year + (month < self._now.month)
        first = date(year, month, 1)
        return Moment("month", first, first + relativedelta(months=1, days=-1))

    def _relative_day(self, match: re.Match[str]) -> Moment:
        word = match["w"].lower()
        shift = {"day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "yesterday": -1}.get(word, 0)
        return Moment("day", self._now.date() + timedelta(days=shift))

    def _weekday(self, match: re.Match[str]) -> Moment:
        today, wanted = self._now.date(), WEEKDAYS[match["w"].lower()]
        if (match["q"] or "").lower() in ("last", "past"):
            return Moment("day", today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1))
        return Moment("day", today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1))

    def _period(self, match: re.Match[str]) -> Moment:
        step = {"next": 1, "coming": 1, "last": -1, "past": -1}.get(match["q"].lower(), 0)
        today, unit = self._now.date(), match["w"].lower()
        if unit in ("week", "weekend"):
            monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
            sunday = monday + timedelta(days=6)
            return Moment("week", sunday - timedelta(days=1) if unit == "weekend" else monday, sunday)
        if unit == "month":
            first = today.replace(day=1) + relativedelta(months=step)
            return Moment("month", first, first + relativedelta(months=1, days=-1))
        return _whole_year(today.year + step)

    def _ago(self, match: re.Match[str]) -> Moment:
        amount = _amount(match["n"] or match["n2"])
        back = (match["ago"] or "").lower() == "ago"
        return self._shifted(Moment("day", self._now.date()), Duration(amount, match["unit"] or match["unit2"]), back)

    def _year(self, match: re.Match[str]) -> Moment:
        return _whole_year(int(match["y"]))

    def _joined(self, text: str, found: list[Found]) -> list[Found]:
        """A day and a time next to each other are one moment; a lone time belongs to the nearest day before, or after.

        In "on Monday from 9:00 to 11:00" both times are Monday's.
        """
        joined: list[Found] = []
        for item in found:
            before = joined[-1] if joined else None
            if before is not None and _JOIN.fullmatch(text, before.end, item.start):
                moment = _merge(before.value, item.value)
                if moment is not None:
                    joined[-1] = Found(before.start, item.end, moment)
                    continue
            joined.append(item)
        days = [item.value for item in joined if isinstance(item.value, Moment) and item.value.day is not None]
        single = next((day for day in days if day.grain in ("day", "time")), None)
        return [self._dated(item, single) for item in joined]

    def _dated(self, item: Found, day: Moment | None) -> Found:
        if isinstance(item.value, Moment) and item.value.day is None and day is not None:
            return replace(item, value=replace(item.value, day=day.day, zone=day.zone))
        return item

    def _sums(self, text: str, durations: list[Found], dates: list[Found]) -> Iterator[Found]:
        for chain in _chained(text, durations):
            for base in dates:
                shift = _SHIFT.fullmatch(text, chain[-1].end, base.start)
                if shift is None or not isinstance(base.value, Moment) or base.value.day is None:
                    continue
                back = shift["w"].lower() in ("before", "prior to", "earlier than")
                moment = base.value
                try:
                    for part in chain:
                        if isinstance(part.value, Duration):
                            moment = self._shifted(moment, part.value, back)
                except (ValueError, OverflowError):
                    continue
                yield Found(chain[0].start, base.end, moment, is_sum=True)

    def _shifted(self, moment: Moment, by: Duration, back: bool) -> Moment:
        amount = -by.amount if back else by.amount
        unit = by.unit.lower()
        base = datetime.combine(moment.day or self._now.date(), moment.clock or self._now.time())
        shifted = base + relativedelta(**{unit + "s": amount})  # type: ignore[arg-type]
        if unit in ("hour", "minute", "second"):
            return Moment("time", shifted.date(), clock=shifted.time().replace(microsecond=0), zone=moment.zone)
        return replace(moment, grain="time" if moment.clock else "day", day=shifted.date(), last=None)


def _longest(found: list[Found]) -> list[Found]:
    """In order, without what lies inside something longer."""
    kept: list[Found] = []
    for item in sorted(found, key=lambda item: (item.start - item.end, item.start)):
        if all(item.end <= other.start or item.start >= other.end for other in kept):
            kept.append(item)
    return sorted(kept, key=lambda item: item.start)


def _merge(left: Moment | Duration, right: Moment | Duration) -> Moment | None:
    if not isinstance(left, Moment) or not isinstance(right, Moment):
        return None
    day, clock = (left, right) if left.clock is None else (right, left)
    if day.clock is not None or clock.day is not None or day.grain != "day":
        return None
    return Moment("time", day.day, clock=clock.clock, zone=clock.zone)


def _chained(text: str, durations: list[Found]) -> list[list[Found]]:
    """Durations that are added up: "3 years and 2 months" is a chain of two."""
    chains: list[list[Found]] = []
    for item in durations:
        if chains and re.fullmatch(r"(?:,?\s*and\s+|,\s*)", text[chains[-1][-1].end : item.start]):
            chains[-1].append(item)
        else:
            chains.append([item])
    return chains


def _signed(text: str, durations: list[Found]) -> Iterator[Found]:
    """Durations that end in "before" or "ago" point back."""
    for chain in _chained(text, durations):
        back = re.match(r"\s+(?:before|ago|earlier|prior|back)\b", text[chain[-1].end :], re.IGNORECASE)
        for item in chain:
            if back and isinstance(item.value, Duration):
                item = replace(item, value=replace(item.value, amount=-item.value.amount))
            yield item


def _whole_year(year: int) -> Moment:
    return Moment("year", date(year, 1, 1), date(year, 12, 31))


def _amount(text: str) -> int:
    return 1 if text.lower() in ("a", "an") else int(number(text) or 0)


def _clock(text: str) -> time | None:
    low = text.lower().replace(".", "").replace(" ", "")
    if low in ("noon", "midnight"):
        return time(12 if low == "noon" else 0)
    match = re.fullmatch(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))?(am|pm|o'clock)?", low)
    if match is None:
        return None
    hour = int(match[1])
    if match[4] in ("am", "pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    return time(hour, int(match[2] or 0), int(match[3] or 0))
