"""Times of day that only their range shows to be such: "from 2 to 4 pm", "9am-10", "9 December from 10 to 12"."""

import re
from collections.abc import Iterator, Sequence
from datetime import time

from planner_svc.reading.clocks import NO_NOUN
from planner_svc.reading.moments import Found, Moment
from planner_svc.reading.numbers import CURRENCY_SIGNS
from planner_svc.reading.ranges import MOVED, MOVED_REACH

_TIME = r"(?P<h{0}>2[0-3]|1\d|0?\d)(?:(?P<sign{0}>[:.h])(?P<m{0}>[0-5]\d))?(?:\s?(?P<half{0}>[ap]\.?m\b\.?))?"
_RANGE = re.compile(
    rf"(?<![\w.,:/+{CURRENCY_SIGNS}-]){_TIME.format(1)}(?:(?P<dash>\s?[-\u2013]\s?)|\s+(?:to|until|till|and)\s+){_TIME.format(2)}"
    rf"(?![\w%{CURRENCY_SIGNS}])(?![.,:/-]\d)",
    re.IGNORECASE,
)
_OPENS = re.compile(r"\b(?:from|between|at)\s+$", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s+$", re.IGNORECASE)
_AFTER_DAY = re.compile(r"(?:,?\s+(?:(?:from|between|at)\s+)?)")
_BEFORE_DAY = re.compile(r",?\s+(?:on\s+)?(?:the\s+)?", re.IGNORECASE)
_NOUN = re.compile(NO_NOUN, re.IGNORECASE)
_EARLIEST = 7
"""Without minutes, earlier hours are rather in the afternoon."""


def clocks_of_ranges(text: str, dates: Sequence[Found]) -> Iterator[Found]:
    """The two times of each range.

    One that has "pm" or a colon shows that the other is a time too. Where neither does, a day has to be beside them.

    Args:
        text: the text.
        dates: the days in it.
    """
    for match in _RANGE.finditer(text):
        before = text[max(match.start() - MOVED_REACH, 0) : match.start()]
        follows = any(_AFTER_DAY.fullmatch(text, day.end, match.start()) for day in dates if _is_day(day))
        opened = _OPENS.search(before) is not None
        shown = any(match[name] for name in ("half1", "half2")) or ":" in (match["sign1"], match["sign2"])
        if not (shown and (match["dash"] or opened or follows)) and not _is_beside_day(match, dates, follows):
            continue
        if both := _both(match):
            ends = (match.start("h1"), _end(match, 1)), (match.start("h2"), _end(match, 2))
            for place, clock in zip(ends, both, strict=True):
                yield Found(*place, Moment("time", clock=clock))


def _is_day(found: Found) -> bool:
    return isinstance(found.value, Moment) and found.value.grain == "day"


def _is_beside_day(match: re.Match[str], dates: Sequence[Found], follows: bool) -> bool:
    """Whether a range of bare numbers is one of times, as the day beside it tells."""
    if (not match["m1"] and int(match["h1"]) < _EARLIEST) or bool(match["m1"]) != bool(match["m2"]):
        return False
    text = match.string
    if follows:
        return _NOUN.match(text, match.end()) is not None
    before = text[max(match.start() - MOVED_REACH, 0) : match.start()]
    opened = _FROM.search(before) is not None and MOVED.search(before) is None
    return opened and any(_BEFORE_DAY.fullmatch(text, match.end(), day.start) for day in dates if _is_day(day))


def _end(match: re.Match[str], number: int) -> int:
    return max(match.end(f"{part}{number}") for part in ("h", "m", "half"))


def _both(match: re.Match[str]) -> tuple[time, time] | None:
    """Both times; a half of the day that only one names is the other's too, where they are then in order."""
    first, last = _hours(match, 1), _hours(match, 2)
    if match["half1"] and match["half2"]:
        pairs = [(one, two) for one in first for two in last]
    else:
        pairs = [(one, two) for one in reversed(first) for two in last if one < two]
        pairs.sort(key=lambda pair: pair[1].hour - pair[0].hour)
    return pairs[0] if pairs else None


def _hours(match: re.Match[str], number: int) -> list[time]:
    """What a time may be; both halves of the day where only the other time names one."""
    hour, minute = int(match[f"h{number}"]), int(match[f"m{number}"] or 0)
    half, other = match[f"half{number}"], match[f"half{3 - number}"]
    if half:
        return [time(hour % 12 + (12 if half[0] in "pP" else 0), minute)] if 1 <= hour <= 12 else []
    if other and 1 <= hour <= 12:
        return [time(hour % 12, minute), time(hour % 12 + 12, minute)]
    return [time(hour, minute)]
