"""Which of a parameter's listed values a request names, in any wording: "km", "kilometres", "degrees Celsius"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from planner_svc.reading.option_names import calendar_names, option_names
from planner_svc.reading.profile import Role, Slot
from planner_svc.reading.text import MAX_CHARS, STOP, Word, stem, stem_set, words_of
from services.compute import with_checkpoints

UNIT_SYMBOLS = {
    "in": "inch", "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot",
    "yd": "yard", "nmi": "nautical_mile", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound",
    "lbs": "pound", "oz": "ounce", "l": "liter", "ml": "milliliter", "mph": "mile_per_hour", "kwh": "kilowatt_hour",
    "kw": "kilowatt", "w": "watt", "hp": "horsepower", "pa": "pascal", "psi": "psi", "gb": "gigabyte", "mb": "megabyte",
    "kb": "kilobyte", "tb": "terabyte", "h": "hour", "s": "second", "min": "minute", "ha": "hectare",
    "C": "celsius",
    "F": "fahrenheit",
}  # fmt: skip
"""International symbols of units."""
_SYMBOL_OF = {stem(name): symbol for symbol, name in reversed(UNIT_SYMBOLS.items())}
_GRADES = stem_set("level grade class type size option version mode")
"""Words that a single letter may follow."""
_SIGN_NAMES = {"_": "underscore", "-": "hyphen", ".": "dot", ",": "comma", ";": "semicolon", "/": "slash", "|": "pipe"}
_FIRST = re.compile(r"\w")
_NO_DEGREE = re.compile(r"^degrees?_", re.IGNORECASE)
_SAID_SIGNS = {"+": r"(?:\+|[\s-](?:plus|positive)\b)", "-": r"(?:-(?!\w)|[\s-](?:minus|negative)\b)"}
"""Signs at the end of an option, as requests have them."""


@dataclass(frozen=True, slots=True)
class NamedChoice:
    """A listed value and the characters that name it.

    Attributes:
        near: words around it, nearest first.
        role: the end of a pair: "from" after a number ("5 km"), "to" after words such as "in" or "how many".
    """

    value: JsonValue
    start: int
    end: int
    near: tuple[Word, ...]
    role: Role | None


def named_choices(slot: Slot, text: str) -> Iterator[NamedChoice]:
    """Choices whose words are adjacent in the text, longest first.

    Unit symbols ("km") match the unit's choice. Codes match the words that the description or calendar has for them.
    What only signs tell from another choice ("A-" from "A+") is named by its signs.
    """
    words, signed = words_of(text[:MAX_CHARS]), signed_choices(slot)
    written = _written(signed, text[:MAX_CHARS])
    by_stem: dict[tuple[str, ...], JsonValue] = {}
    for choice in with_checkpoints(slot.choices):
        if isinstance(choice, str) and choice.strip() and choice not in signed:
            first, *rest = _parts(choice)
            by_stem.setdefault((first, *rest), choice)
            if first in STOP and rest:
                by_stem.setdefault((first, "the", *rest), choice)
            if choice in _SIGN_NAMES:
                by_stem.setdefault((stem(_SIGN_NAMES[choice]),), choice)
            by_stem.setdefault(tuple(_NO_DEGREE.sub("", choice).lower().split("_")), choice)
    for symbol, name in UNIT_SYMBOLS.items():
        key = tuple(stem(part) for part in name.split("_"))
        if key in by_stem and symbol not in STOP:
            by_stem.setdefault((symbol,), by_stem[key])
        elif (symbol,) in by_stem:
            by_stem[key] = by_stem[symbol,]
    for key in [key for key in by_stem if "per" in key]:
        symbols = tuple(_SYMBOL_OF.get(part, part) for part in key if part != "per")
        by_stem.setdefault(symbols, by_stem[key])
    by_stem = calendar_names(slot) | option_names(slot) | by_stem
    index = 0
    while index < len(words):
        if (sign := written.get(words[index].start)) is not None:
            length = sum(words[index].start <= word.start < sign[0] for word in words)
            yield _named(words, index, length, sign[1])
            index += length
            continue
        length = next((n for n in (4, 3, 2, 1) if _choice(by_stem, slot, words, index, n) is not None), 0)
        value = _choice(by_stem, slot, words, index, length) if length else None
        followed = (
            length == 1 and words[index].stem == "degre" and _choice(by_stem, slot, words, index + 1, 1) is not None
        )
        if value is not None and not followed:
            yield _named(words, index, length, value)
        index += max(length, 1)


def signed_choices(slot: Slot) -> frozenset[str]:
    """Choices that only a sign at their start or end tells from another one: "A+" and "A-", "-name" beside "name"."""
    texts = [choice for choice in slot.choices if isinstance(choice, str) and choice.strip()]
    times = Counter(map(_parts, with_checkpoints(texts)))
    return frozenset(one for one in texts if times[_parts(one)] > 1 and not (one[0].isalnum() and one[-1].isalnum()))


def _parts(choice: str) -> tuple[str, ...]:
    return tuple(stem(part) for part in re.findall(r"[^\W_]+", choice) or [choice])


def _written(signed: Collection[str], text: str) -> dict[int, tuple[int, str]]:
    """Where a text has these choices with their signs: the first word's start, with the end and the choice."""
    found: dict[int, tuple[int, str]] = {}
    low = text.lower()
    for choice in with_checkpoints(signed):
        word, sign = _FIRST.search(choice), _SAID_SIGNS.get(choice[-1])
        if word is None:
            continue
        lead, rest = choice[: word.start()], choice[word.start() : -1 if sign else None]
        if rest.lower() not in low:  # of ten thousand options most are not said, and each pattern would be compiled
            continue
        pattern = rf"(?<![\w+-]){re.escape(lead)}(?P<said>{re.escape(rest)}{sign or ''})(?!\w)"
        found |= {one.start("said"): (one.end(), choice) for one in re.finditer(pattern, text, re.IGNORECASE)}
    return found


def _choice(
    by_stem: Mapping[tuple[str, ...], JsonValue], slot: Slot, words: Sequence[Word], index: int, length: int
) -> JsonValue:
    """The choice that these words name, if any; a letter, or "in", is a symbol only right after a number."""
    part = words[index : index + length]
    if len(part) < length or not part:
        return None
    key, exact = tuple(w.stem for w in part), tuple(w.text for w in part)
    before = words[index - 1] if index else None
    graded = before is not None and (before.stem in _GRADES or before.stem in {*slot.words, *slot.about})
    counted = before is not None and before.text[-1:].isdigit()
    is_sign = len(exact) == 1 and (len(exact[0]) == 1 or (exact[0] in UNIT_SYMBOLS and exact[0] in STOP))
    if is_sign and not counted and not (graded and exact[0] in slot.choices):
        return None
    return by_stem.get(key, by_stem.get(exact))


def _named(words: Sequence[Word], index: int, length: int, value: JsonValue) -> NamedChoice:
    near = (*words[max(index - 2, 0) : index][::-1], *words[index + length : index + length + 1])
    return NamedChoice(value, words[index].start, words[index + length - 1].end, near, _role(words, index))


def _role(words: Sequence[Word], index: int) -> Role | None:
    """The end of a pair that the words from this one on are, as those before them tell."""
    counted = index > 0 and re.match(r"[\d.]+$|degree", words[index - 1].text.lower()) is not None
    wanted = [w.text.lower() for w in words[max(index - 2, 0) : index]]
    asked = wanted[-1:] in (["in"], ["into"], ["to"], ["as"]) or wanted == ["how", "many"]
    return "from" if counted else "to" if asked else None


def end_converted(text: str, start: int) -> Role | None:
    """The end of a conversion that the words at a character are: "20 dollars" is what it begins with."""
    words = words_of(text[:MAX_CHARS])
    return next((_role(words, index) for index, word in enumerate(words) if word.start == start), None)
