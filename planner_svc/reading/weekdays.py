"""Weekdays that a request names for an argument whose options are weekdays: "every Monday and Thursday"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.calendar_words import SHORT_WEEKDAYS, WEEKDAYS
from planner_svc.reading.option_names import weekday_options
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.ranges import MOVED, MOVED_REACH
from planner_svc.reading.text import MAX_CHARS, without_look_alikes, without_quotes

_SHORT: Final = "|".join(form for name in SHORT_WEEKDAYS for form in (name.title(), name.upper()))
_DAY: Final = rf"(?:(?i:{'|'.join(WEEKDAYS)})s?|(?:{_SHORT}))\b\.?"
_JOINT: Final = (
    r"(?:\s*(?:,\s*(?:and\s+|or\s+)?|&|/|[-\u2013])\s*|\s+(?:and|or|to|through|till|until)\s+)"
    r"(?:every\s+|each\s+)?(?:on\s+)?"
)
_RUN: Final = re.compile(
    rf"(?P<except>\b(?i:except|but\s+not|excluding|not|no\s+longer|instead\s+of|rather\s+than)\s+(?i:for\s+)?(?i:on\s+)?)?(?P<every>\b(?i:every|each)\s+)?"
    rf"(?<!\w)(?P<days>{_DAY}(?:{_JOINT}{_DAY})*)(?!\w)"
)
_ONE: Final = re.compile(_DAY)
_TO: Final = re.compile(r"[-\u2013]|\b(?:to|through|till|until)\b")
_ANY: Final = r"\b(?:every|each)\s+"
_NO_NAME: Final = rf"\b(?!\s*[:=(]|\s+(?:to|are|is|as)\b|\s+{_DAY})"
"""After "weekdays", if it is not the name of the argument that follows."""
_GROUPS: Final = tuple(
    (re.compile(rf"(?:{words}){_NO_NAME}", re.IGNORECASE), days)
    for words, days in (
        (rf"\bweekdays|\bwork(?:ing\s+)?days|{_ANY}(?:weekday|work(?:ing\s+)?day)", range(5)),
        (rf"\bweekends|(?:{_ANY}|\b(?:at|on)\s+(?:the\s+)?)weekend", range(5, 7)),
        (rf"{_ANY}(?:single\s+)?day(?!\s+of\b)", range(7)),
    )
)
Place = tuple[int, int]


def named_weekdays(profile: Profile, slot: Slot, query: str) -> tuple[list[JsonValue], list[Place]]:
    """The options that are the weekdays that a request names, from Monday, and the characters that name them.

    If another argument takes a date, "on Monday" may be that date: then only days that recur count, such as "every
    Monday", "Mondays" and "weekdays". Both lists are empty unless the options are weekdays.

    Args:
        profile: the argument's API.
        slot: the argument.
        query: the request.
    """
    options = weekday_options(slot)
    if not options:
        return [], []
    recurring = any(_takes_date(other) for other in profile.slots)
    days: set[int] = set()
    without: set[int] = set()
    places: list[Place] = []
    for found, place, is_excepted in _days(without_quotes(without_look_alikes(query[:MAX_CHARS])), recurring=recurring):
        (without if is_excepted else days).update(found)
        places.append(place)
    named = sorted((days - without) & options.keys())
    return [options[day] for day in named], places if named else []


def _days(text: str, *, recurring: bool) -> Iterator[tuple[set[int], Place, bool]]:
    """The days of each group of words, their place, and whether they are excepted: "not on Sundays"."""
    for pattern, group in _GROUPS:
        for match in pattern.finditer(text):
            yield set(group), match.span(), False
    for run in _RUN.finditer(text):
        plural = any(one[0].lower().endswith("days") for one in _ONE.finditer(run["days"]))
        if run["except"] or run["every"] or plural or not recurring:
            moved = MOVED.search(text[max(run.start("days") - MOVED_REACH, 0) : run.start("days")]) is not None
            days = _TO.split(run["days"])[-1] if moved else run["days"]
            yield _run(days), run.span("days"), run["except"] is not None


def _run(text: str) -> set[int]:
    """The days of an enumeration, with those between the ends of a range: "Mon-Wed and Friday"."""
    found: set[int] = set()
    last, end = 0, 0
    for one in _ONE.finditer(text):
        day = next(number for name, number in WEEKDAYS.items() if name.startswith(one[0].lower()[:3]))
        if end and _TO.search(text[end : one.start()]):
            found.update((last + step) % 7 for step in range((day - last) % 7 + 1))
        found.add(day)
        last, end = day, one.end()
    return found


def _takes_date(slot: Slot) -> bool:
    """Whether an argument takes a date, and not only a time of day."""
    dated = "date" in str(slot.parameter.json_schema.get("format"))
    return slot.temporal and not slot.choices and (dated or "time" not in slot.words)
