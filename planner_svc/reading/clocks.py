"""Times of day in a request: "6:30 pm", "half past seven in the evening", "morning 11:30", "noon"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, time, tzinfo

_HOURS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_MINUTES = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25, "twenty five": 25}
NO_NOUN = r"(?=\s*(?:$|[.,;:!?)])|\s+(?:at|on|and|or|to|until|till|through|from|for|around|by|with|please|instead)\b)"
"""What follows a number that counts nothing: not "the 10th floor", not "this evening 5 people"."""
_CLOCK = (
    (
        r"(?:[01]?\d|2[0-3])(?:[:.h][0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b\.?)|:[0-5]\d(?::[0-5]\d)?|\s?[ap]\.?m\b\.?|\s?O_CLOCK)"
        r"|(?:(?:half|(?:a\s+)?quarter|MINUTES)\s+past|(?:a\s+)?quarter\s+to|(?<=\bat\s)MINUTES\s+to)\s+HOUR\b"
        r"(?:\s?[ap]\.?m\b\.?)?|HOUR(?:\s+O_CLOCK|\s?[ap]\.?m\b\.?)|noon\b|midnight\b"
        r"|(?:\d{1,2}(?:\.[0-5]\d)?|HOUR)(?=\s+in\s+the\s+(?:morning|afternoon|evening))"
    )
    .replace("HOUR", f"(?:1[0-2]|[1-9]|{'|'.join(_HOURS)})")
    .replace("MINUTES", r"(?:twenty[\s-]five|twenty|ten|five|[1-5]\d|[1-9])(?:\s+minutes?)?")
    .replace("O_CLOCK", r"o['\"\u2019]\s?clock\b")
)
_PART_OF_DAY = r"(?P<part>\s+in\s+the\s+(?:morning|afternoon|evening)|\s+at\s+night)?"


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day, and the characters that say it; ``zone`` is set only if the words name one."""

    place: tuple[int, int]
    clock: time
    zone: tzinfo | None = None


def pattern_of(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, for whole words, ignoring case."""
    return re.compile(rf"(?:(?<![\w-])|(?<=\d[-\u2013])){pattern}(?![\w])", re.IGNORECASE)


_CLOCK_RX = pattern_of(rf"(?P<t>{_CLOCK}){_PART_OF_DAY}(?P<z>\s*(?:UTC|GMT|Z))?")
_PART_CLOCK = re.compile(
    rf"(?:\b|(?<=\bto))(?P<part>morning|afternoon|evening|night)\s+(?:at\s+)?"
    rf"(?P<t>(?:1[0-2]|0?[1-9])[:.][0-5]\d(?!\w)|(?:1[0-2]|[1-9])(?!\w){NO_NOUN}"
    rf"|(?<=\bat\s)(?:{'|'.join(_HOURS)})(?!\w){NO_NOUN})",
    re.IGNORECASE,
)

_SHIFT = re.compile(r"(?:a\s+)?(?P<n>[a-z]+(?:[\s-]five)?|\d+)(?:\s+minutes?)?\s+(?P<way>past|to)\s+")


def clocks_in(text: str) -> Iterator[Clock]:
    """The times of day that a text names; they may overlap."""
    for match in _CLOCK_RX.finditer(text):
        clock = _clock(match["t"], (match["part"] or "").split()[-1:])
        if clock is not None:
            yield Clock(match.span(), clock, UTC if match["z"] else None)
    for match in _PART_CLOCK.finditer(text):
        clock = _clock(match["t"], [match["part"].lower()])
        if clock is not None:
            yield Clock(match.span(), clock)


def _clock(text: str, part: list[str]) -> time | None:
    """A time of day; ``part`` is the word for the part of the day, if there is one."""
    low = text.lower()
    minutes = 0
    if shift := _SHIFT.match(low):
        minutes = _MINUTES.get(" ".join(shift["n"].split())) or int(shift["n"])
        minutes = -minutes if shift["way"] == "to" else minutes
        low = low[shift.end() :]
    low = re.sub(r"[.\s]", "", re.sub(r"(?<=\d)[.h](?=\d)", ":", low))
    low = re.sub('o["\u2019]clock', "o'clock", low)
    if low in ("noon", "midnight"):
        return time(12 if low == "noon" else 0)
    match = re.fullmatch(rf"(\d{{1,2}}|{'|'.join(_HOURS)})(?::(\d\d))?(?::(\d\d))?(am|pm|o'clock)?", low)
    if match is None:
        return None
    hour = int(match[1]) if match[1].isdigit() else _HOURS.index(match[1]) + 1
    half = match[4] if match[4] in ("am", "pm") else "am" if part == ["morning"] else "pm" if part else None
    if half and not 1 <= hour <= 12:
        return None if match[4] or hour > 23 or int(match[2] or 0) > 59 else time(hour, int(match[2] or 0))
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    total = (hour * 60 + int(match[2] or 0) + minutes) % (24 * 60)
    return time(total // 60, total % 60, int(match[3] or 0))
