"""What words may mean as a parameter's value, and whether two notations are the same value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import JsonValue

from planner_svc.reading.date_formats import date_formats, in_stated_format
from planner_svc.reading.dates import DateReader
from planner_svc.reading.moments import Duration, Found, Moment
from planner_svc.reading.numbers import CURRENCY_SIGNS, DIGITS, NUMBER_WORD, number
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.renderings import renderings
from planner_svc.reading.text import stem

NO_CLOCK = datetime(2024, 1, 1, tzinfo=UTC)
"""Used for examples without a clock: then only dates with a year are certain."""

ORDINALS: dict[str, float] = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "once": 1, "twice": 2, "single": 1, "couple": 2, "both": 2, "half": 0.5, "quarter": 0.25,
}  # fmt: skip
"""Words that mean numbers but are not counting words."""
_COUNTED = re.compile(
    rf"[{CURRENCY_SIGNS}]?\s?(?P<n>{DIGITS}(?:\s?(?:million|billion|thousand|hundred|k)\b)?)(?P<after>.*)", re.DOTALL
)
_WORDED = re.compile(rf"(?P<n>{NUMBER_WORD})\b(?P<after>.*)", re.IGNORECASE | re.DOTALL)
_DECIMAL_COMMA = re.compile(
    rf"[{CURRENCY_SIGNS}]?\s?(?P<whole>\d{{1,3}}(?:\.\d{{3}})+|\d+),(?P<part>\d{{1,2}})(?P<after>.*)", re.DOTALL
)
"""A number as much of Europe writes it: 1.234,50. With three digits after it, a comma separates thousands."""
_UNIT = re.compile(rf"\s?(?:%|percent|°\s?[CF]?|-?[^\W\d_]{{1,14}}|[{CURRENCY_SIGNS}])?\.?")
_YES, _NO = ("yes", "true", "on", "enabled"), ("no", "false", "off", "disabled")
TRUTHS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
"""Words for true and false."""
MAX_TEXT = 300


def readings(
    profile: Profile, slot: Slot, text: str, now: datetime | None = None, moment: Moment | None = None
) -> list[JsonValue]:
    """Values that the text may mean for an argument, likeliest first; the schema allows each of them.

    Args:
        profile: the API's profile, for its schemas.
        slot: the argument, or for an item of a list the list argument itself.
        text: the words, without quotes.
        now: the clock that relative dates refer to.
        moment: the moment that the words mean in their context, if known: "14:00" on a day said before.
    """
    found: list[JsonValue] = []
    for value in _candidates(slot, text, now or NO_CLOCK, moment):
        allowed = profile.schemas.problem(slot.node, [value] if slot.kinds == {"array"} else value) is None
        if allowed and value not in found:
            found.append(value)
    return found


def same(left: JsonValue, right: JsonValue) -> bool:
    """Whether two values mean the same: 5 and "5.0", "Paris" and "paris "; lists are compared by their items."""
    if isinstance(left, bool) or isinstance(right, bool):
        return str(left).lower() == str(right).lower()
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return left == right
    if _plain(str(left)) == _plain(str(right)):
        return True
    numbers = number_in(str(left)), number_in(str(right))
    return None not in numbers and numbers[0] == numbers[1]


def number_in(text: str) -> int | float | None:
    """The number that a text is, with an optional currency sign or unit: "$1,000", "5%", "two", "90 minutes"."""
    if len(text) > MAX_TEXT:
        return None
    if text.strip().lower() in ORDINALS:
        return ORDINALS[text.strip().lower()]
    for pattern in (_COUNTED, _WORDED):
        match = pattern.fullmatch(text.strip())
        if match is not None and _UNIT.fullmatch(match["after"]):
            return number(match["n"])
    match = _DECIMAL_COMMA.fullmatch(text.strip())
    if match is not None and _UNIT.fullmatch(match["after"]):
        return number(f"{match['whole'].replace('.', '')}.{match['part']}")
    return None


def moments_in(text: str, now: datetime, *, month_first: bool | None = None) -> list[Found]:
    """The moments in a text. For a day with a time, the day and the time are added as separate moments."""
    reader = DateReader(now, month_first=month_first)
    found: list[Found] = []
    for one in whole_moments(text, now, month_first=month_first):
        found.append(one)
        whole = one.value
        if isinstance(whole, Moment) and whole.day is not None and whole.clock is not None and not one.part:
            found += _halves(reader, text, one)
    return found


def whole_moments(text: str, now: datetime, *, month_first: bool | None = None) -> list[Found]:
    """The moments in a text, each in its context: a time of day is on the day said before it."""
    return [one for one in _found(DateReader(now, month_first=month_first), text) if isinstance(one.value, Moment)]


def moment_of(text: str, now: datetime, *, month_first: bool | None = None) -> Moment | None:
    """The moment that the whole text means, if it is one."""
    if len(text) > 60:
        return None
    plain = text.strip()
    for one in _found(DateReader(now, month_first=month_first), plain):
        if isinstance(one.value, Moment) and (one.start, one.end) == (0, len(plain)):
            return one.value
    return None


def _halves(reader: DateReader, text: str, whole: Found) -> Iterator[Found]:
    """The day and the time of a moment, each with its place."""
    said = text[whole.start : whole.end]
    edges = [match.start() for match in re.finditer(r"\b\w", said)] + [len(said)]
    for start, end in ((0, edge) for edge in edges[1:-1]):
        yield from _half(reader, said[start:end], whole.start + start)
    for start in edges[1:-1]:
        yield from _half(reader, said[start:], whole.start + start)


def _half(reader: DateReader, part: str, offset: int) -> Iterator[Found]:
    bare = part.rstrip(" ,") if not part.endswith((" at ", " on ", " by ", " from ")) else ""
    for one in _found(reader, bare):
        value = one.value
        if isinstance(value, Moment) and (one.start, one.end) == (0, len(bare)) and not (value.day and value.clock):
            yield Found(offset, offset + len(bare), value)


def _candidates(slot: Slot, text: str, now: datetime, moment: Moment | None) -> Iterator[JsonValue]:
    kinds = slot.kinds
    for choice in slot.choices:
        if same(choice, text):
            yield choice
    if kinds & {"string", "array"} or not kinds:
        yield from _as_text(slot, text, now, moment)
    if kinds & {"integer", "number", "array"}:
        yield from _as_number(slot, text, now)
    if kinds & {"boolean", "array"} and text.lower() in TRUTHS:
        yield TRUTHS[text.lower()]


def _as_text(slot: Slot, text: str, now: datetime, moment: Moment | None) -> Iterator[JsonValue]:
    stated = date_formats(slot.parameter.description)
    if moment is None and (slot.temporal or stated or any(c.isdigit() for c in text)):
        moment = moment_of(text, now)
    forms: list[str] = []
    if moment is not None:
        moment = moment.last_day() if slot.role == "to" else moment
        forms = list(renderings(moment, now.tzinfo or UTC))
        forms = [*in_stated_format(moment, stated), *forms]
        forms += [value.replace("T", " ") for value in forms if "T" in value]
    yield from (*forms, text) if slot.temporal or stated else (text, *forms)
    counted = number_in(text)
    if counted is not None:
        yield str(counted)


def _as_number(slot: Slot, text: str, now: datetime) -> Iterator[JsonValue]:
    counted = number_in(text)
    if counted is not None:
        yield counted
        if isinstance(counted, float) and counted.is_integer():
            yield int(counted)
        if "%" in text or "percent" in text:
            yield counted / 100
    moment = moment_of(text, now)
    if moment is not None and moment.day is not None:
        yield moment.day.year if "year" in slot.words else moment.day.month if "month" in slot.words else moment.day.day
    for one in _found(DateReader(now), text):
        if isinstance(one.value, Duration) and (one.start, one.end) == (0, len(text)):
            yield abs(one.value.amount)


def _found(reader: DateReader, text: str) -> list[Found]:
    try:
        return reader.find(text)
    except ValueError:  # "30 in the morning" is read as an hour
        return []


def _plain(text: str) -> str:
    return " ".join(stem(word) for word in re.findall(r"\w+", text.lower()))
