"""Days and periods that a request counts out: "the last 30 days", "end of next month", "first Monday in May"."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

from dateutil.relativedelta import relativedelta

from planner_svc.reading.calendar_words import MONTH, MONTHS, WEEKDAYS, YEAR
from planner_svc.reading.moments import Found, Moment
from planner_svc.reading.numbers import NUMBER_WORD, number
from planner_svc.reading.tense import is_over

_NTHS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
_PERIOD = (
    rf"\s+(?:(?P<mon>{MONTH})(?:,?\s+(?P<y>{YEAR}))?"
    r"|(?P<which>the|this|the\s+current|next|last)\s+(?P<unit>UNITS))(?!\w)"
)
_ROLLING = re.compile(
    rf"\b(?:(?:the\s+)?(?P<way>last|past|previous|next|coming|following|within)|(?P<age>(?:old|new|young)er\s+than))"
    rf"\s+(?P<is>(?P<n>\d{{1,4}}|couple\s+of|few|an?|{NUMBER_WORD})\s+(?P<unit>minute|hour|day|week|fortnight|month|year)s?)\b"
    r"(?!\s+(?:of|after|before|from)\b)",
    re.IGNORECASE,
)
_EDGE = re.compile(
    rf"\b(?:the\s+)?(?P<edge>end|beginning|start)\s+of"
    rf"(?:\s+(?P<in_year>{YEAR})(?!\w)|{_PERIOD.replace('UNITS', 'week|month|quarter|year')})",
    re.IGNORECASE,
)
"""Only with "of": contracts may "end in May"."""
_NTH = re.compile(
    rf"\b(?:the\s+)?(?P<nth>{'|'.join(_NTHS)})\s+(?P<day>{'|'.join(WEEKDAYS)})\s+(?:of|in)"
    rf"{_PERIOD.replace('UNITS', 'month')}",
    re.IGNORECASE,
)
_FORTNIGHT = re.compile(
    r"\b(?:in\s+)?a\s+fortnight(?:\s+from\s+(?:now|today)|'s\s+time|(?<=in a fortnight))", re.IGNORECASE
)
_WEEKDAY_WEEK = re.compile(
    rf"\b(?:(?P<day>{'|'.join(WEEKDAYS)})\s+week"
    rf"|(?<!once )(?<!twice )(?<!times )a\s+week\s+on\s+(?P<day2>{'|'.join(WEEKDAYS)}))(?!\w)",
    re.IGNORECASE,
)


def phrases(text: str, now: datetime) -> Iterator[Found]:
    """The days and periods that a text counts out from today, or in a month; they may overlap.

    Args:
        text: the request.
        now: the clock that it refers to.
    """
    today = now.date()
    for pattern, read in (
        (_EDGE, _edge),
        (_NTH, _nth),
        (_FORTNIGHT, _fortnight),
        (_WEEKDAY_WEEK, _weekday_week),
    ):
        for match in pattern.finditer(text):
            with suppress(ValueError, OverflowError):  # beyond the calendar
                moment = read(match, today)
                yield Found(match.start(), match.end(), moment)
    for match in _ROLLING.finditer(text):
        with suppress(ValueError, OverflowError):
            period = _rolling(match, now)
            if period is not None:
                yield Found(match.start("is" if match["age"] else 0), match.end(), period)


def _rolling(match: re.Match[str], now: datetime) -> Moment | None:
    """A period that ends or starts today; hours and the age of things only tell its other end."""
    words, way = match["n"].lower(), (match["way"] or "").lower()
    count = 2 if words.startswith("couple") else 1 if words in ("a", "an") else number(words)
    if not isinstance(count, int):
        return None  # a few
    unit, times = match["unit"].lower(), 1
    if unit == "fortnight":
        unit, times = "week", 2
    span = relativedelta(**{f"{unit}s": count * times})  # type: ignore[arg-type]
    back = match["age"] or way in ("last", "past", "previous")
    end = now - span if back else now + span
    if unit in ("minute", "hour"):
        return Moment("time", end.date(), clock=end.time().replace(second=0, microsecond=0))
    if match["age"]:
        return Moment("day", end.date()) if unit != "year" else None
    return Moment("week", min(now, end).date(), max(now, end).date())


def _edge(match: re.Match[str], today: date) -> Moment:
    unit = "year" if match["in_year"] else (match["unit"] or "month").lower()
    if unit == "week":
        first = today - timedelta(days=today.weekday()) + timedelta(weeks=_step(match))
        last = first + timedelta(days=6)
    elif unit == "quarter":
        first = today.replace(day=1) + relativedelta(months=3 * _step(match) - (today.month - 1) % 3)
        last = first + relativedelta(months=3, days=-1)
    elif unit == "year":
        first = date(int(match["in_year"] or today.year + _step(match)), 1, 1)
        last = first.replace(month=12, day=31)
    else:
        return Moment("day", _in_month(match, today, _last if match["edge"].lower() == "end" else _first))
    return Moment("day", last if match["edge"].lower() == "end" else first)


def _nth(match: re.Match[str], today: date) -> Moment:
    wanted, nth = WEEKDAYS[match["day"].lower()], _NTHS[match["nth"].lower()]

    def day_of(first: date) -> date:
        if nth < 0:
            last = _last(first)
            return last - timedelta(days=(last.weekday() - wanted) % 7)
        return first + timedelta(days=(wanted - first.weekday()) % 7, weeks=nth)

    return Moment("day", _in_month(match, today, day_of))


def _fortnight(match: re.Match[str], today: date) -> Moment:
    return Moment("day", today + timedelta(weeks=2))


def _weekday_week(match: re.Match[str], today: date) -> Moment:
    wanted = WEEKDAYS[(match["day"] or match["day2"]).lower()]
    return Moment("day", today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 8))


def _in_month(match: re.Match[str], today: date, day_of: Callable[[date], date]) -> date:
    """The day of the month that is named, by its first day; without a year the next one, or the last if it is over."""
    if not match["mon"]:
        return day_of(today.replace(day=1) + relativedelta(months=_step(match)))
    month = MONTHS[match["mon"].lower().rstrip(".")]
    if match["y"]:
        return day_of(date(int(match["y"]), month, 1))
    days = [day_of(date(today.year + ahead, month, 1)) for ahead in (-1, 0, 1)]
    past = [day for day in days if day <= today]
    return past[-1] if is_over(match.string, match.start(), past, today) else next(day for day in days if day >= today)


def _first(first: date) -> date:
    return first


def _last(first: date) -> date:
    return first + relativedelta(months=1, days=-1)


def _step(match: re.Match[str]) -> int:
    return {"next": 1, "last": -1}.get((match["which"] or "").lower(), 0)
