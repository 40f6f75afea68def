"""Periods and days that have names: "Q3 2026", "mid October", "the first week of May", "Christmas Eve", "Easter"."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, timedelta

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta

from planner_svc.reading.calendar_words import MONTH, MONTHS, YEAR
from planner_svc.reading.moments import Found, Moment
from planner_svc.reading.tense import is_over

Days = tuple[date, date]
"""The first and the last."""

_NTHS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": -1}
_NTH = rf"(?:the\s+)?(?P<nth>{'|'.join(_NTHS)})"
_YEAR = rf"(?:,?\s+(?:of\s+)?(?P<y>{YEAR})(?!\w))?"
_OF_MONTH = rf"(?P<mon>{MONTH}){_YEAR}"
_FEASTS = {
    "christmas": (12, 25), "christmas eve": (12, 24), "christmas day": (12, 25), "boxing day": (12, 26),
    "new year": (1, 1), "new year's": (1, 1), "new year's day": (1, 1), "new year's eve": (12, 31),
    "valentine's day": (2, 14), "halloween": (10, 31),
}  # fmt: skip
"""Month and day."""
_BY_EASTER = {"good friday": -2, "easter": 0, "easter sunday": 0, "easter monday": 1, "pentecost": 49}
"""Days after Easter Sunday."""
_AROUND = {"christmas": (-1, 1), "new year": (-1, 0), "new year's": (-1, 0), "easter": (-2, 1)}
"""The days "over" a feast, counted from its own."""
_FEAST = "|".join(sorted((*_FEASTS, *_BY_EASTER), key=len, reverse=True)).replace(" ", r"\s+").replace("'", "['\u2019]")


def named_periods(text: str, today: date) -> Iterator[Found]:
    """The periods and days with names, each in the year that is said, or else the next; the last if it is over.

    Args:
        text: the request.
        today: the day that it refers to.
    """
    for pattern, read in _PATTERNS:
        for match in pattern.finditer(text):
            with suppress(ValueError, OverflowError):  # beyond the calendar
                first, last = _in_year(match, today, read)
                is_day = first == last
                moment = Moment("day" if is_day else "week", first, None if is_day else last)
                yield Found(match.start("is"), match.end("is"), moment)


def _in_year(match: re.Match[str], today: date, read: Callable[[re.Match[str], int], Days]) -> Days:
    said = match.groupdict()
    if said["y"]:
        return read(match, int(said["y"]))
    if way := (said.get("way") or "").lower():
        return read(match, today.year + {"next": 1, "last": -1}.get(way, 0))
    near = [read(match, today.year + ahead) for ahead in (-1, 0, 1)]
    over = [days for days in near if days[0] <= today]
    if said.get("last") or is_over(match.string, match.start("is"), [days[1] for days in over], today):
        return over[-1]
    return next(days for days in near if days[1] >= today)


def _quarter(match: re.Match[str], year: int) -> Days:
    number = match.groupdict().get("q") or _NTHS[match["nth"].lower()] % 5
    first = date(year, 3 * int(number) - 2, 1)
    return first, first + relativedelta(months=3, days=-1)


def _half(match: re.Match[str], year: int) -> Days:
    is_second = match["q"] == "2" or (match["nth"] or "").lower() == "second"
    first = date(year, 7 if is_second else 1, 1)
    return first, first + relativedelta(months=6, days=-1)


def _part_of_month(match: re.Match[str], year: int) -> Days:
    first, last = {"early": (1, 10), "mid": (11, 20), "late": (21, 31), "first": (1, 15), "second": (16, 31)}[
        (match["part"] or match["nth"]).lower()
    ]
    month = date(year, MONTHS[match["mon"].lower().rstrip(".")], 1)
    return month.replace(day=first), month + relativedelta(day=last)


def _week_of_month(match: re.Match[str], year: int) -> Days:
    """The seven days of a month with this number."""
    month, number = date(year, MONTHS[match["mon"].lower().rstrip(".")], 1), _NTHS[match["nth"].lower()]
    first = month + (relativedelta(day=31, days=-6) if number < 0 else relativedelta(weeks=number - 1))
    return first, first + timedelta(days=6)


def _feast(match: re.Match[str], year: int) -> Days:
    name = " ".join(match["feast"].lower().replace("\u2019", "'").split())
    day = easter(year) + timedelta(days=_BY_EASTER[name]) if name in _BY_EASTER else date(year, *_FEASTS[name])
    before, after = _AROUND.get(name, (0, 0)) if match["over"] else (0, 0)
    return day + timedelta(days=before), day + timedelta(days=after)


_PATTERNS = tuple(
    (re.compile(rf"\b{pattern}", re.IGNORECASE), read)
    for pattern, read in (
        (rf"(?P<is>(?:Q(?P<q>[1-4])|{_NTH}\s+quarter(?!\s+(?:to|past)\b)(?<!last\squarter)){_YEAR})(?!\w)", _quarter),
        (
            rf"(?P<is>{_NTH}\s+quarter,?\s+(?:of\s+)?(?:(?P<way>the|this|next|last)\s+year|(?P<y>{YEAR}))(?!\w))",
            _quarter,
        ),
        (
            r"(?P<is>(?:H(?P<q>[12])|(?:the\s+)?(?P<nth>first|second)\s+half\s+of)\s+"
            rf"(?:(?P<way>the|this|next|last)\s+year|(?P<y>{YEAR}))(?!\w))",
            _half,
        ),
        (rf"(?P<is>(?:(?P<part>early|mid|late)(?:\s+in)?[\s-]|{_NTH}\s+half\s+of\s+){_OF_MONTH})", _part_of_month),
        (rf"(?P<is>{_NTH}\s+week\s+(?:of|in)\s+{_OF_MONTH})", _week_of_month),
        (
            r"(?:(?P<over>over|during|around)|(?:on|at|by|until|till|before|after|since|from|to|for|and|between|through))\s+"
            rf"(?P<is>(?:(?:this|next|(?P<last>last))\s+)?(?P<feast>{_FEAST}){_YEAR})(?![\w'\u2019-])(?!\s+(?-i:[A-Z]))",
            _feast,
        ),
    )
)
