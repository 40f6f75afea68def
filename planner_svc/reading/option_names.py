"""Words for options that are codes: names that the parameter's description gives, and those of weekdays and months."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.calendar_words import MONTHS, WEEKDAYS
from planner_svc.reading.profile import Slot
from planner_svc.reading.text import STOP, WORD, stem

Key = tuple[str, ...]
"""Words as a request has them: stems, or a short name as it is written."""

_MONTH_NAMES: Final = tuple({number: name for name, number in reversed(MONTHS.items())}[n] for n in range(1, 13))
_MOST: Final = 200
"""Options, and words of a description, beyond which nothing is read."""
_LONGEST: Final = 40
"""Characters of the longest code. The pattern of all of them is compiled, and kept by ``re``."""
_MAX_ABOUT: Final = 2_000
_MAX_WORDS: Final = 4
_AROUND: Final = STOP - {"no", "not", "without"}
"""Words around a name that are not part of it."""
_SHORT: Final = 3
_LEAST_DAYS: Final = 5
"""Options that are weekdays need not include the weekend."""
_NAME: Final = r"[^,;|.()/\n]+"
_AFTER: Final = re.compile(rf"[\"'`]?\s*(?:\((?P<inside>[^()]+)\)|[:=\u2013\u2014-]\s*[\"'`]?(?P<told>{_NAME}))")
_BESIDE: Final = re.compile(rf"[\"'`]?\s+(?P<told>{_NAME})")
_BEFORE: Final = re.compile(r"(?P<told>[^,;|.():/\n]+)\(\s*[\"'`]?$")


def option_names(slot: Slot) -> dict[Key, JsonValue]:
    """The options of a parameter by the words that its description has for them, such as "double" for ``DBL``.

    Read are "DBL double", "DBL: double", "DBL = double", "DBL - double", "DBL (double)" and "double (DBL)". Words that
    two options share, and those of the parameter's own name, may be left out. Empty if fewer than 2 are explained.
    """
    codes = {str(one): one for one in slot.choices if isinstance(one, str | int) and not isinstance(one, bool)}
    if not 1 < len(codes) <= _MOST or any(len(code) > _LONGEST for code in codes):
        return {}
    told = {code: words for code, text in _told(_about(slot), codes) if (words := _words(text))}
    if len(told) < 2:
        return {}
    common = Counter(word for words in told.values() for word in set(words))
    shared = {word for word, times in common.items() if times > 1} | {*slot.words}
    keys = [
        (key, codes[code])
        for code, words in told.items()
        for key in {words, tuple(word for word in words if word not in shared)}
    ]
    meant = Counter(key for key, _ in keys)
    return {
        key: value for key, value in keys if meant[key] == 1 and any(w not in STOP and not w.isdigit() for w in key)
    }


def calendar_names(slot: Slot) -> dict[Key, JsonValue]:
    """The options of a parameter by the names of weekdays or months: "Thursday", "Thu" and "THU" for ``TH``.

    Empty unless the options are the days from Monday to Friday at least, or all months.
    """
    found: dict[Key, JsonValue] = {}
    for names, least in ((tuple(WEEKDAYS), _LEAST_DAYS), (_MONTH_NAMES, len(_MONTH_NAMES))):
        options = _by_beginning(slot.choices, names)
        for name, value in options.items() if len(options) >= least else ():
            found[stem(name),] = value
            for length in range(_SHORT, len(name)):
                found[name[:length].title(),] = found[name[:length].upper(),] = value
    return found


def weekday_options(slot: Slot) -> dict[int, JsonValue]:
    """The options that are weekdays, by number from Monday, 0; empty unless there are Monday to Friday."""
    options = _by_beginning(slot.choices, tuple(WEEKDAYS))
    return {WEEKDAYS[name]: value for name, value in options.items()} if len(options) >= _LEAST_DAYS else {}


def _by_beginning(choices: Sequence[JsonValue], names: Sequence[str]) -> dict[str, JsonValue]:
    """The options that are the beginning of one name, by this name."""
    found: dict[str, JsonValue] = {}
    for choice in choices:
        low = choice.lower().rstrip(".") if isinstance(choice, str) else ""
        meant = [name for name in names if len(low) > 1 and name.startswith(low)]
        if len(meant) == 1:
            found.setdefault(meant[0], choice)
    return found


def _about(slot: Slot) -> str:
    """What is written about the options: of a list, also about its items."""
    schema = slot.parameter.json_schema
    items = schema.get("items")
    texts = [slot.parameter.description, schema.get("description")]
    texts += [items.get("description")] if isinstance(items, dict) else []
    return "\n".join(dict.fromkeys(text[:_MAX_ABOUT] for text in texts if isinstance(text, str)))


def _told(about: str, codes: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Each code that is explained, and the text that explains it, which ends before the next code."""
    listed = "|".join(re.escape(code) for code in sorted(codes, key=len, reverse=True))
    places = list(re.finditer(rf"(?<![\w.-])(?:{listed})(?!\w)", about))
    ends = [0, *(place.end() for place in places)]
    starts = [*(place.start() for place in places), len(about)]
    for number, place in enumerate(places):
        code, before, after = place[0], about[ends[number] : place.start()], about[place.end() : starts[number + 1]]
        inside = _BEFORE.search(before) if after.lstrip("\"'` ").startswith(")") else None
        found = inside or _AFTER.match(after)
        if found is None and code == code.upper():  # "DBL double", but not "active users"
            found = _BESIDE.match(after)
        if found is not None:
            yield code, found["told"] or found["inside"]


def _words(text: str) -> Key:
    """The stems of the words of a name without function words around them; empty if they are too many."""
    words = [word.lower() for word in WORD.findall(text)]
    while words and words[0] in _AROUND:
        words.pop(0)
    while words and words[-1] in _AROUND:
        words.pop()
    return tuple(map(stem, words)) if len(words) <= _MAX_WORDS else ()
