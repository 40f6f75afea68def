"""Both ends of a range of dates: "from 1 May to 3 June 2027"."""

import re
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta

from dateutil.relativedelta import relativedelta

from planner_svc.reading.calendar_words import MONTH, RANGE, WEEKDAY, YEAR
from planner_svc.reading.moments import Found, Moment

_TO_END = re.compile(
    r"\s*(?:to|until|till|through|-|\u2013)\s*(?:the\s+)?"
    r"|,?\s+(?:and\s+|then\s+)*(?:check(?:ing|s)?[\s-]?out|leav(?:e|es|ing)|depart(?:s|ing|ure)?|return(?:s|ing)?"
    r"|end(?:s|ing)?)(?:\s+(?:on|is|at))*\s+(?:the\s+)?",
    re.IGNORECASE,
)
"""What stands between both ends, and not between two days of their own as "and" may."""
_AND = re.compile(r"\s+and\s+(?:the\s+)?", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.IGNORECASE)
_DAY_BETWEEN = re.compile(r".+\sbetween\s+\S+(?:\s?[ap]\.?m\.?)?", re.IGNORECASE)
MOVED = re.compile(
    r"\b(?:move|shift|change|reschedule|bring|shorten|swap|switch|correct|advance)(?:e?d|s)?\b"
    r"[^.;!?]*\bfrom\s+(?:the\s+)?$",
    re.IGNORECASE,
)
"""Moved from one day to another: the other may come first."""
_NAMED_MONTH = re.compile(rf"{MONTH}|\d[/.]\d", re.IGNORECASE)
_THEIR_MONTH = re.compile(rf"{RANGE}\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+{MONTH}", re.IGNORECASE)
"""The month of both days in "between 1 and 20 October"."""
_NAMED_WEEKDAY = re.compile(WEEKDAY, re.IGNORECASE)
MOVED_REACH = 80
_FAR = timedelta(days=3_660)
"""Ends further apart are left as they are."""


def same_year(text: str, found: list[Found]) -> list[Found]:
    """Apply a range's year to both ends: in "from 1 May to 3 June 2027" both days are in 2027."""
    result = list(found)
    for index in range(len(result) - 2, -1, -1):
        first, second = result[index], result[index + 1]
        one, two = first.value, second.value
        if not (isinstance(one, Moment) and isinstance(two, Moment) and one.day and two.day):
            continue
        said = [re.search(YEAR, text[f.start : f.end]) is not None for f in (first, second)]
        if said == [False, True] and re.search(MONTH, text[first.start : first.end], re.IGNORECASE):
            shifted = _in_year(one, two.day.year)
            if shifted.day and shifted.day <= two.day and re.fullmatch(RANGE, text[first.end : second.start]):
                result[index] = replace(first, value=shifted)
    return result


def ends_in_order(text: str, found: list[Found], today: date) -> list[Found]:
    """Move an end of a range that is before its start: in "from Friday to Monday" the Monday after that Friday.

    It is moved by weeks or years, whatever its words leave open. If it is over, the start is moved back instead.
    """
    result = list(found)
    for index in range(len(result) - 1):
        first, second = result[index], result[index + 1]
        one, two = first.value, second.value
        if not (isinstance(one, Moment) and isinstance(two, Moment) and one.day and two.day and two.day < one.day):
            continue
        over = two.day <= today
        moved = first if over else second
        by = open_in(text, moved.start, moved.end)
        if (
            by is None
            or one.day - two.day > _FAR
            or not is_range(text, (first.start, first.end), (second.start, second.end))
        ):
            continue
        with suppress(ValueError, OverflowError):  # beyond the calendar
            if over:
                result[index] = replace(first, value=_before(one, two.day, by))
            else:
                result[index + 1] = replace(second, value=_after(two, one.day, by))
    return result


def is_range(text: str, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether the dates at these characters are the first and the last of a range."""
    before, between = text[max(first[0] - MOVED_REACH, 0) : first[0]], text[first[1] : second[0]]
    if _AND.fullmatch(between):
        return _BETWEEN.search(before) is not None or _DAY_BETWEEN.fullmatch(text, *first) is not None
    return _TO_END.fullmatch(between) is not None and MOVED.search(before) is None


def open_in(text: str, start: int, end: int) -> relativedelta | None:
    """The step between the days that these words may mean; None if they mean one day."""
    words = text[start:end]
    if re.search(YEAR, words) is not None:
        return None
    if _NAMED_MONTH.search(words) or _THEIR_MONTH.match(text, end):
        return relativedelta(years=1)
    weekday = _NAMED_WEEKDAY.search(text, start, end)  # in context: a short name needs its preposition
    return relativedelta(weeks=1) if weekday is not None else None


def _after(moment: Moment, start: date, by: relativedelta) -> Moment:
    """The moment, moved to the first such day on or after ``start``."""
    while moment.day is not None and moment.day < start:
        moment = _moved(moment, by)
    return moment


def _before(moment: Moment, end: date, by: relativedelta) -> Moment:
    """The moment, moved to the last such day on or before ``end``."""
    while moment.day is not None and moment.day > end:
        moment = _moved(moment, -by)
    return moment


def _moved(moment: Moment, by: relativedelta) -> Moment:
    return replace(moment, day=moment.day and moment.day + by, last=moment.last and moment.last + by)


def _in_year(moment: Moment, year: int) -> Moment:
    return _moved(moment, relativedelta(year=year))
