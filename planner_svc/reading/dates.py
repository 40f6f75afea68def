"""Dates, times and durations in a request, relative to its clock and zone. The grammar covers English and ISO 8601."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta

from dateutil.relativedelta import relativedelta

from planner_svc.reading.calendar_phrases import phrases
from planner_svc.reading.calendar_words import MONTH, MONTHS, RANGE, WEEKDAY, WEEKDAY_NUMBERS, YEAR
from planner_svc.reading.clock_ranges import clocks_of_ranges
from planner_svc.reading.clocks import NO_NOUN, clocks_in, pattern_of
from planner_svc.reading.moments import Duration, Found, Grain, Moment
from planner_svc.reading.named_periods import named_periods
from planner_svc.reading.numbers import NUMBER_WORD, number
from planner_svc.reading.ranges import ends_in_order, same_year
from planner_svc.reading.tense import is_over, is_past
from planner_svc.reading.text import NOT_NAMES, STOP, without_look_alikes

_MONTHS_A_YEAR = 12
_MONTHS_AHEAD = 4
"""Months to search for a day: no two months in a row lack a 31st, and the rest is a margin."""
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")

_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_AMOUNT = rf"(?:\d+|an?|{NUMBER_WORD})"
_SPAN_UNIT = rf"(?P<n>{_AMOUNT})[\s-]+(?P<unit>{'|'.join(UNITS)})s?\b"


_ON_WEEKDAY = rf"(?:{WEEKDAY},?\s+(?:the\s+)?)?"
_ISO = re.compile(
    r"(?<![\w-])(?P<y>\d{4})(?P<s>[-/])(?P<m>\d\d)(?P=s)(?P<d>\d\d)"
    r"(?:[T ](?P<t>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?P<z>Z|[+-]\d\d:?\d\d)?)?(?!\w)"
)
_DAY_MONTH = pattern_of(rf"{_ON_WEEKDAY}(?P<d>{_DAY})(?:\s+of)?\s+(?P<mon>{MONTH})(?:,?\s+(?P<y>{YEAR}))?")
_DAY_TO_DAY = pattern_of(rf"(?P<d>{_DAY})(?={RANGE}{_DAY}(?:\s+of)?\s+(?P<mon>{MONTH})(?:,?\s+(?P<y>{YEAR}))?)")
"""The first day of "1 to 31 December 2027"."""
_NO_DAY = r"(?<!\b\d\s)(?<!\b\d\d\s)(?<!\d(?:st|nd|rd|th)\s)"
"""What is before a month that a day follows: "7 December 10-12" is no tenth."""
_MONTH_DAY = pattern_of(
    rf"{_ON_WEEKDAY}{_NO_DAY}(?P<mon>{MONTH})\s+(?:the\s+)?(?P<d>{_DAY})(?!\d|:)(?:,?\s+(?P<y>{YEAR}))?"
)
_NUMERIC = pattern_of(rf"(?P<a>\d{{1,2}})(?P<sep>[/.-])(?P<b>\d{{1,2}})(?P=sep)(?P<y>{YEAR})(?!(?<=-\d{{4}})-)")
_BEFORE_NUMERIC = "|".join(rf"(?<=\b{word}\s)" for word in ("on", "by", "from", "until", "till", "since", "between"))
_NO_YEAR = re.compile(
    rf"(?:{_BEFORE_NUMERIC}|(?<=\d/\d\d\s(?:to|or)\s)|(?<=\d/\d\d\sand\s)|(?<=\.\d\d\.\sto\s))"
    r"(?P<a>\d{1,2})(?:(?P<sep>/)(?P<b>\d{1,2})(?![\w/]|[.,]\d|\s+of\b)|\.(?P<b2>\d{1,2})\.(?!\w))",
    re.IGNORECASE,
)
"""24/12 and 24.12. after a preposition: otherwise they may be fractions or versions."""
_DAY_FIRST = re.compile(r"(?<![\d/])(?:1[3-9]|2\d|3[01])/(?:0?[1-9]|1[0-2])(?!\d)")
"""A date whose first number is no month."""
_MONTH_YEAR = pattern_of(rf"(?P<mon>{MONTH})(?:,?\s+(?:of\s+)?(?P<y>{YEAR}))?")
_RELATIVE_DAY = pattern_of(
    r"(?:(?:later|earlier|early|late)\s+)?"
    r"(?P<w>day after tomorrow|day before yesterday|today|tonight|tomorrow|yesterday)"
)
_AT = rf"\s+(?:at\b|\d{{1,2}}(?:[:.]\d\d|\s?[ap]\.?m\b|{NO_NOUN}))"
_PART_OF_TODAY = re.compile(
    rf"(?<![\w-])(?P<w>this(?=\s+(?:morning|afternoon|evening){_AT})|to(?=night{_AT}))", re.IGNORECASE
)
"""Only "this" of "this morning at 9", and "to" of "tonight at 9": the part of the day belongs to the time."""
_WEEKDAY_RX = pattern_of(rf"(?:(?P<q>next|this|coming|last|past)\s+)?(?P<w>{WEEKDAY})")
_WEEKDAY_OF = pattern_of(rf"(?P<w>{WEEKDAY})\s+(?:of\s+)?(?P<q>next|this|coming|last|past)\s+week")
_ORDINAL = r"(?P<d>(?:[12]\d|3[01]|[1-9])(?:st|nd|rd|th))"
_DAY_OF_MONTH = pattern_of(
    rf"(?:the\s+)?{_ORDINAL}\s+of\s+(?:the\s+)?(?P<q>next|this|coming|last|past|current)\s+month"
)
_BEFORE_DAY = ["on", "by", "to", "from", "till", "until", "since", "through", "before", "after", "for", "and"]
_BARE_DAY = re.compile(
    "(?:^|" + "|".join(rf"(?<=\b{word} )" for word in _BEFORE_DAY) + rf")the\s+{_ORDINAL}{NO_NOUN}", re.IGNORECASE
)
"""The 10th, without a month."""
_WORD_BEFORE = re.compile(r"\b([A-Z][a-z]+)\s+$")
_NOW = re.compile(
    r"\b(?:what|which)\s+(?!time\b)\w+\s+(?P<w>are\s+we\s+in\b|is\s+it(?=\s*(?:[?!.,]|$)))", re.IGNORECASE
)
_PERIOD = pattern_of(r"(?P<q>next|this|coming|last|past|current)\s+(?P<w>week|weekend|month|quarter|year)")
_YEAR_RX = pattern_of(rf"(?P<y>{YEAR})(?!\s*(?:{'|'.join(UNITS)})s?\b)(?![.,]\d)")
_AGO = pattern_of(
    rf"(?:in\s+{_SPAN_UNIT}(?!\s+(?:before|after|from))"
    rf"|{_SPAN_UNIT.replace('<n>', '<n2>').replace('<unit>', '<unit2>')}\s+(?P<ago>ago|from now))"
)
_DURATION = pattern_of(_SPAN_UNIT)
_SHIFT = re.compile(
    r"\s+(?P<w>after|before|from|following|prior to|earlier than|later than)\s+(?:the\s+)?", re.IGNORECASE
)
_WEEK_OF = re.compile(
    r"\b(?:the\s+)?week\s+(?P<way>of|beginning|starting|commencing)\s+(?:on\s+)?(?:the\s+)?$", re.IGNORECASE
)
_JOIN = re.compile(r"(?:,?\s*(?:at|on|by|from|between|starting|around|T)\s+|,?\s+)(?:the\s+)?", re.IGNORECASE)


_CLOCK_AFTER = re.compile(
    rf"\s+at\s+(?P<h>1\d|2[0-3]|0?[7-9])(?:[.h](?P<m>[0-5]\d)(?![\w%]|\.\d|\s*(?:each|per)\b)|(?!\.\d){NO_NOUN})",
    re.IGNORECASE,
)
"""Without minutes, hours before 7 are left out: they are rather in the afternoon."""


class DateReader:
    """Finds moments and durations in a text.

    Args:
        now: the clock that "today" refers to, with its zone.
        month_first: whether 03/04/2027 is in March. None: yes, but of 3/4 without a year, the day nearer to today.
    """

    def __init__(self, now: datetime, *, month_first: bool | None = False) -> None:
        self._now = now
        self._month_first = month_first

    def find(self, text: str) -> list[Found]:
        """All moments and durations in order. A date with its time is one moment, and so is "3 weeks after" a date.

        The parts of such a sum ("3 weeks", the date) are found as well, since some APIs compute the sum themselves.
        """
        text = without_look_alikes(text)
        times = (Found(*one.place, Moment("time", clock=one.clock, zone=one.zone)) for one in clocks_in(text))
        dates = _longest([*self._days(text), *times, *phrases(text, self._now), *named_periods(text, self._now.date())])
        clocks = (*_bare_clocks(text, dates), *clocks_of_ranges(text, dates))
        dates = _longest([*dates, *self._bare_days(text, dates), *clocks])
        dates = [_week_of(text, one) for one in same_year(text, self._joined(text, dates))]
        dates = self._dated(ends_in_order(text, dates, self._now.date()))
        durations = [
            Found(m.start(), m.end(), Duration(_amount(m["n"]), m["unit"].lower())) for m in _DURATION.finditer(text)
        ]
        sums = list(self._sums(text, durations, dates))
        dates = [
            replace(d, part="term") if any(s.start <= d.start and d.end <= s.end for s in sums) else d for d in dates
        ]
        return sorted(
            [*dates, *sums, *self._from_now(text), *_signed(text, durations)],
            key=lambda found: (found.start, -found.end),
        )

    def _days(self, text: str) -> Iterator[Found]:
        for pattern, read in (
            (_ISO, self._iso),
            (_DAY_TO_DAY, self._day_month),
            (_DAY_MONTH, self._day_month),
            (_MONTH_DAY, self._day_month),
            (_NUMERIC, self._numeric),
            (_NO_YEAR, self._no_year),
            (_MONTH_YEAR, self._month),
            (_RELATIVE_DAY, self._relative_day),
            (_PART_OF_TODAY, self._relative_day),
            (_WEEKDAY_RX, self._weekday),
            (_WEEKDAY_OF, self._weekday_of),
            (_DAY_OF_MONTH, self._day_of_month),
            (_PERIOD, self._period),
            (_YEAR_RX, self._year),
        ):
            for match in pattern.finditer(text):
                try:
                    moment = read(match)
                except (ValueError, OverflowError):  # 31 April, year 10000: not a date
                    continue
                if moment is not None:
                    yield Found(match.start(), match.end(), moment)

    def _iso(self, match: re.Match[str]) -> Moment:
        day = date(int(match["y"]), int(match["m"]), int(match["d"]))
        if not match["t"]:
            return Moment("day", day)
        zone = datetime.fromisoformat(f"2000-01-01T00:00{match['z']}").tzinfo if match["z"] else None
        return Moment("time", day, clock=time.fromisoformat(match["t"]), zone=zone)

    def _day_month(self, match: re.Match[str]) -> Moment:
        month, day = MONTHS[match["mon"].lower().rstrip(".")], _ordinal(match)
        if match["y"]:
            return Moment("day", date(int(match["y"]), month, day))
        return Moment("day", self._near(month, day, match))

    def _near(self, month: int, day: int, match: re.Match[str]) -> date:
        """The last such day if the words tell that it is over, otherwise the next."""
        this_year, today = date(self._now.year, month, day), self._now.date()
        if is_over(match.string, match.start(), (this_year, this_year - relativedelta(years=1)), today):
            return this_year if this_year <= today else date(today.year - 1, month, day)
        return this_year if this_year >= today else date(today.year + 1, month, day)

    def _numeric(self, match: re.Match[str]) -> Moment:
        return Moment("day", date(int(match["y"]), *self._month_and_day(match, match["b"])))

    def _no_year(self, match: re.Match[str]) -> Moment:
        first, second, today = int(match["a"]), int(match["b"] or match["b2"]), self._now.date()
        if self._month_first is None and match["sep"] and max(first, second) <= _MONTHS_A_YEAR:
            days = [self._near(month, day, match) for month, day in ((first, second), (second, first))]
            return Moment("day", min(days, key=lambda day: abs(day - today)))
        month, day = self._month_and_day(match, match["b"] or match["b2"])
        return Moment("day", self._near(month, day, match))

    def _month_and_day(self, match: re.Match[str], second: str) -> tuple[int, int]:
        """The month and the day of 3/1; both dates of "28/12 to 3/1" are in the same order."""
        first, is_open = match["a"], match["sep"] == "/" and self._month_first is not False
        american = is_open and int(first) <= _MONTHS_A_YEAR and _DAY_FIRST.search(match.string) is None
        month, day = (first, second) if american or int(second) > _MONTHS_A_YEAR else (second, first)
        return int(month), int(day)

    def _month(self, match: re.Match[str]) -> Moment | None:
        name = match["mon"]
        if not match["y"] and (not name[0].isupper() or match.start() == 0):
            return None  # "may" and "march" are also verbs
        if re.search(r"\d\s*$", match.string[max(match.start() - 3, 0) : match.start()]):
            return None  # the rest of an invalid date such as 31 April
        today, end = self._now.date(), relativedelta(months=1, days=-1)
        first = date(int(match["y"] or today.year), MONTHS[name.lower().rstrip(".")], 1)
        if not match["y"]:
            ends = (first + end, first - relativedelta(years=1) + end)
            over = is_over(match.string, match.start(), ends, today)
            near = -(first > today) if over else int(first + end < today)
            first += relativedelta(years=near)
        return Moment("month", first, first + end)

    def _relative_day(self, match: re.Match[str]) -> Moment:
        word = match["w"].lower()
        shift = {"day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "yesterday": -1}.get(word, 0)
        return Moment("day", self._now.date() + timedelta(days=shift))

    def _weekday(self, match: re.Match[str]) -> Moment | None:
        before = _WORD_BEFORE.search(match.string, max(match.start() - 30, 0), match.start())
        if before is not None and not match["q"] and before[1].lower() not in STOP | NOT_NAMES:
            return None  # "Easter Monday" is a name
        today, wanted = self._now.date(), WEEKDAY_NUMBERS[match["w"].lower().rstrip(".")]
        if (match["q"] or "").lower() in ("last", "past") or (not match["q"] and is_past(match.string, match.start())):
            return Moment("day", today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1))
        return Moment("day", today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1))

    def _weekday_of(self, match: re.Match[str]) -> Moment:
        return Moment(
            "day", self._monday(_step(match["q"])) + timedelta(days=WEEKDAY_NUMBERS[match["w"].lower().rstrip(".")])
        )

    def _day_of_month(self, match: re.Match[str]) -> Moment:
        first = self._now.date().replace(day=1) + relativedelta(months=_step(match["q"]))
        return Moment("day", first.replace(day=_ordinal(match)))

    def _bare_days(self, text: str, dates: Sequence[Found]) -> Iterator[Found]:
        """The next such day after the last day said before it, or else from today on; the last one if it is over."""
        said, after = deque(dates), self._now.date()
        for match in _BARE_DAY.finditer(text):
            while said and said[0].end <= match.start():
                before = said.popleft().value
                if isinstance(before, Moment) and before.grain in ("day", "time") and before.day is not None:
                    after = before.day
            past = is_past(text, match.start())
            day = _last_day(self._now.date(), _ordinal(match)) if past else _next_day(after, _ordinal(match))
            if day is not None and not (said and said[0].start < match.end()):
                after = day
                yield Found(match.start(), match.end(), Moment("day", day))

    def _period(self, match: re.Match[str]) -> Moment:
        step = _step(match["q"])
        today, unit = self._now.date(), match["w"].lower()
        if unit in ("week", "weekend"):
            monday = self._monday(step)
            sunday = monday + timedelta(days=6)
            return Moment("week", sunday - timedelta(days=1) if unit == "weekend" else monday, sunday)
        if unit in ("month", "quarter"):
            months = 1 if unit == "month" else 3
            first = today.replace(day=1) + relativedelta(months=step * months - (today.month - 1) % months)
            grain: Grain = "month" if unit == "month" else "week"
            return Moment(grain, first, first + relativedelta(months=months, days=-1))
        return _whole_year(today.year + step)

    def _monday(self, step: int) -> date:
        """The Monday of this week, or of the week ``step`` weeks later."""
        return self._now.date() + timedelta(days=-self._now.weekday(), weeks=step)

    def _from_now(self, text: str) -> Iterator[Found]:
        """The moments of "in three weeks" and "3 weeks ago": the sum, and today as its term."""
        today = Moment("day", self._now.date())
        for match in _AGO.finditer(text):
            duration = Duration(_amount(match["n"] or match["n2"]), match["unit"] or match["unit2"])
            try:
                moment = self._shifted(today, duration, (match["ago"] or "").lower() == "ago")
            except (ValueError, OverflowError):
                continue
            place = match.span("ago") if match["ago"] else (match.start(), match.start() + 2)
            yield Found(match.start(), match.end(), moment, "sum")
            yield Found(*place, today, "term")
        for match in _NOW.finditer(text):
            yield Found(*match.span("w"), today)

    def _year(self, match: re.Match[str]) -> Moment:
        return _whole_year(int(match["y"]))

    def _joined(self, text: str, found: list[Found]) -> list[Found]:
        """Merge a day and an adjacent time into one moment.

        In "on Monday from 9:00 to 11:00", the first time is merged with Monday; ``_dated`` gives the second one its
        day.
        """
        joined: list[Found] = []
        for item in found:
            before = joined[-1] if joined else None
            if before is not None and (before.end == item.start or _JOIN.fullmatch(text, before.end, item.start)):
                moment = _merge(before.value, item.value)
                if moment is not None:
                    joined[-1] = Found(before.start, item.end, moment)
                    continue
            joined.append(item)
        return joined

    def _dated(self, found: list[Found]) -> list[Found]:
        """Give a time of day without a date the nearest day said before it, or else the first after it."""
        dated: list[Found] = []
        days = [item for item in found if isinstance(item.value, Moment) and item.value.grain in ("day", "time")]
        days = [item for item in days if isinstance(item.value, Moment) and item.value.day is not None]
        for item in found:
            near = [day for day in days if day.start < item.start][-1:] or days[:1]
            if isinstance(item.value, Moment) and item.value.day is None and near:
                day = near[0].value
                assert isinstance(day, Moment)
                item = replace(item, value=replace(item.value, day=day.day, zone=item.value.zone or day.zone))
            dated.append(item)
        return dated

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
                yield Found(chain[0].start, base.end, moment, "sum")

    def _shifted(self, moment: Moment, by: Duration, back: bool) -> Moment:
        amount = -by.amount if back else by.amount
        unit = by.unit.lower()
        base = datetime.combine(moment.day or self._now.date(), moment.clock or self._now.time())
        shifted = base + relativedelta(**{unit + "s": amount})  # type: ignore[arg-type]
        if unit in ("hour", "minute", "second"):
            return Moment("time", shifted.date(), clock=shifted.time().replace(microsecond=0), zone=moment.zone)
        return replace(moment, grain="time" if moment.clock else "day", day=shifted.date(), last=None)


def _bare_clocks(text: str, dates: Sequence[Found]) -> Iterator[Found]:
    """Times after a day that are no times elsewhere: "3 December at 8.15", "on Monday at 9"."""
    for found in dates:
        match = _CLOCK_AFTER.match(text, found.end)
        if match is not None and isinstance(found.value, Moment) and found.value.grain == "day":
            clock = time(int(match["h"]), int(match["m"] or 0))
            yield Found(match.start("h"), match.end(), Moment("time", clock=clock))


def _week_of(text: str, found: Found) -> Found:
    """The week that a day is said to be in, or to start."""
    match, day = _WEEK_OF.search(text, 0, found.start), found.value
    if match is None or not isinstance(day, Moment) or day.grain != "day" or day.day is None:
        return found
    first = day.day - timedelta(days=day.day.weekday() if match["way"].lower() == "of" else 0)
    return replace(found, start=match.start(), value=Moment("week", first, first + timedelta(days=6)))


def _step(word: str) -> int:
    """The offset of "next", "this" and "last", in weeks, months or years."""
    return {"next": 1, "coming": 1, "last": -1, "past": -1}.get(word.lower(), 0)


def _ordinal(match: re.Match[str]) -> int:
    """The number of a day: 3 for "3rd"."""
    return int(re.sub(r"\D", "", match["d"]))


def _next_day(after: date, day: int) -> date | None:
    """The first day with this number on or after a date; None beyond the end of the calendar."""
    for ahead in range(_MONTHS_AHEAD):
        with suppress(ValueError, OverflowError):  # 31 April, year 10000
            found = (after.replace(day=1) + relativedelta(months=ahead)).replace(day=day)
            if found >= after:
                return found
    return None


def _last_day(before: date, day: int) -> date | None:
    """The last day with this number on or before a date; None before the beginning of the calendar."""
    for back in range(_MONTHS_AHEAD):
        with suppress(ValueError, OverflowError):
            found = (before.replace(day=1) - relativedelta(months=back)).replace(day=day)
            if found <= before:
                return found
    return None


def _longest(found: list[Found]) -> list[Found]:
    """The items in order, without those that overlap a longer one."""
    kept: list[Found] = []
    covered = bytearray(max((item.end for item in found), default=0))
    for item in sorted(found, key=lambda item: (item.start - item.end, item.start)):
        if not any(covered[item.start : item.end]):
            covered[item.start : item.end] = b"\1" * (item.end - item.start)
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
    """Durations that are added together: "3 years and 2 months" is a chain of two."""
    chains: list[list[Found]] = []
    for item in durations:
        if chains and re.fullmatch(r"(?:,?\s*and\s+|,\s*)", text[chains[-1][-1].end : item.start]):
            chains[-1].append(item)
        else:
            chains.append([item])
    return chains


def _signed(text: str, durations: list[Found]) -> Iterator[Found]:
    """The durations, negative if "before" or "ago" follows."""
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
