"""Values for a parameter as people write them: "Paris", "next Monday", "$1,200", "two", "red, blue and green".

The text is drawn first. Its value is what the planner's reader makes of it, so both always agree.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from planner_svc.reading.examples import MAX_EXAMPLE, examples_in
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.readings import readings
from planner_svc.reading.text import singular, split_name, word_set
from services.contracts.api import Api, Location
from training.planner import banks, random_values
from training.planner.meanings import Meaning, meaning_of

_TRIES = 5
_BROAD = word_set(
    """
    area position condition role field target subject category label period location place data type system framework
    material level name time information detail test option
    """
)
"""Words that mean something else after another word: an "area of need" is not a place."""
_MAX_KNOWN = 40
_LENT = frozenset({"loan", "payment", "investment", "transfer", "donation", "deposit", "bill"})
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@dataclass(frozen=True, slots=True)
class SampledValue:
    """A value in words.

    Attributes:
        items: pairs of text and value; one pair unless ``listed``.
        listed: whether they are the items of a list.
        before: text directly before it ("$").
        after: text directly after it ("%", " minutes").
        option: whether the value is one of the parameter's listed values, or a boolean.
    """

    items: tuple[tuple[str, JsonValue], ...]
    listed: bool = False
    before: str = ""
    after: str = ""
    option: bool = False

    @property
    def text(self) -> str:
        """The text; of a list the first item's."""
        return self.items[0][0]


Lexicon = Mapping[str, Sequence[str]]
"""Example values by noun ("severity": "low", "high"), from a catalogue's own descriptions."""


class Sampler:
    """Draws values.

    Args:
        rng: source of randomness.
        now: the time that "tomorrow" refers to.
        lexicon: usual values, see :func:`lexicon_of`.
    """

    def __init__(self, rng: random.Random, now: datetime, lexicon: Lexicon | None = None) -> None:
        self._rng = rng
        self.now = now
        self._lexicon = lexicon or {}

    def sample(self, profile: Profile, slot: Slot) -> SampledValue | None:
        """A value for the parameter; None if none was found that its schema accepts."""
        meant = meaning_of(slot)
        if meant.sense in ("object", "flag"):
            return None
        if slot.kinds == {"array"}:
            return self._list(profile, slot, meant)
        for _ in range(_TRIES):
            said = self._one(slot, meant)
            if said is not None and (found := self._read(profile, slot, said)) is not None:
                return found
        return None

    def _read(self, profile: Profile, slot: Slot, said: SampledValue) -> SampledValue | None:
        """Add the value that the reader makes of the text; None if the schema accepts none."""
        text, value = said.items[0]
        if said.option:
            return said if profile.schemas.problem(slot.node, value) is None else None
        values = readings(profile, slot, text, self.now)
        return SampledValue(((text, values[0]),), False, said.before, said.after) if values else None

    def _list(self, profile: Profile, slot: Slot, meant: Meaning) -> SampledValue | None:
        found: dict[str, JsonValue] = {}
        wanted = self._rng.choice((1, 2, 2, 3, 3, 4))
        option = False
        for _ in range(3 * wanted):
            one = self._one(slot, meant)
            if one is None or "," in one.text or " and " in one.text:
                continue
            values = [one.items[0][1]] if one.option else readings(profile, slot, one.text, self.now)
            if values and one.text not in found:
                found[one.text], option = values[0], one.option
            if len(found) == wanted:
                break
        if not found or profile.schemas.problem(slot.node, list(found.values())) is not None:
            return None
        return SampledValue(tuple(found.items()), listed=True, option=option)

    def _one(self, slot: Slot, meant: Meaning) -> SampledValue | None:
        """A text for the value. The value itself is set only if it cannot be read from the text."""
        if slot.choices:
            return self._choice(slot)
        if meant.sense in ("date", "moment", "time", "year"):
            return _said(random_values.moment(self._rng, self.now, meant.sense))
        if (slot.kinds & {"integer", "number"} and "string" not in slot.kinds) or meant.sense in (
            "money",
            "count",
            "duration",
        ):
            return self._number(slot, meant)
        if meant.sense in ("currency", "language", "code") and self._rng.random() < 0.6:
            return _said(random_values.known(self._rng, meant) or "")
        shown = [e for e in slot.examples if 0 < len(e) <= MAX_EXAMPLE]
        if shown and (slot.specific or slot.patterned or self._rng.random() < 0.5):
            return _said(self._like(self._rng.choice(shown)))
        if len(slot.samples) > 1 and self._rng.random() < 0.5:
            return _said(self._rng.choice(slot.samples[1:]))
        told = _fitting(examples_in(slot.parameter.description), meant)
        if told and self._rng.random() < (0.95 if len(told) > 2 else 0.7):
            example = self._rng.choice(told)
            return _said(self._like(example) if meant.sense == "id" else example)
        return _said(self._text(meant, slot))

    def _choice(self, slot: Slot) -> SampledValue | None:
        value = self._rng.choice(slot.choices)
        if isinstance(value, bool) or value is None or not isinstance(value, str | int | float):
            return None
        said = str(value).strip()
        if re.fullmatch(r"[A-Za-z]+(?:[_-][A-Za-z]+)+|[a-z]{2,}(?:[A-Z][a-z]+)+|[A-Z]{5,}", said):
            said = " ".join(split_name(said))
        return SampledValue(((said, value),), option=True) if said and len(said) <= MAX_EXAMPLE else None

    def _like(self, example: str) -> str:
        """A value of the example's form: other digits, and other letters if it looks like a code."""
        if self._rng.random() < 0.2 or not any(c.isdigit() for c in example):
            return example
        coded = re.fullmatch(r"[A-Za-z0-9]{6,}", example) is not None
        changed = [
            self._rng.choice(string.digits[1:])
            if c.isdigit()
            else self._rng.choice(string.ascii_uppercase if c.isupper() else string.ascii_lowercase)
            if coded and c.isalpha()
            else c
            for c in example
        ]
        return "".join(changed)

    def _number(self, slot: Slot, meant: Meaning) -> SampledValue:
        rng = self._rng
        low, high = self._bounds(slot, meant)
        whole = "number" not in slot.kinds
        value: float = rng.randint(int(low), max(int(high), int(low)))
        if meant.sense == "id":
            return SampledValue(((str(rng.randint(1, 10 ** rng.choice((2, 3, 4, 5)))), None),))
        if not whole and rng.random() < 0.5:
            value = round(rng.uniform(low, max(high, low)), rng.choice((1, 1, 2)))
        said = f"{value:g}" if abs(value) < 1e6 else str(value)
        if isinstance(value, int) and value >= 1000 and meant.sense not in ("year", "id"):
            value = round(value, -2) or value
            said = f"{value:,}" if rng.random() < 0.5 else str(value)
        elif isinstance(value, int) and 0 < value < len(_WORDS) and meant.sense == "count" and rng.random() < 0.5:
            said = _WORDS[value]
        before = rng.choice(("$", "$", "€", "", "")) if _is_price(meant) and said[0].isdigit() else ""
        after = "%" if meant.sense == "percent" and rng.random() < 0.7 and said[0].isdigit() else ""
        if meant.unit and rng.random() < 0.75:
            after = f" {meant.unit}"
        return SampledValue(((said, None),), before=before, after=after)

    def _bounds(self, slot: Slot, meant: Meaning) -> tuple[float, float]:
        schema = slot.parameter.json_schema
        usual = next((banks.SIZES[w] for w in reversed(meant.words) if w in banks.SIZES), (2, 60))
        known = any(w in banks.SIZES for w in meant.words) or meant.sense == "limit"
        found = []
        for index, names in enumerate((("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))):
            limits = [
                schema[n]
                for n in names
                if isinstance(schema.get(n), int | float) and not isinstance(schema.get(n), bool)
            ]
            found.append(float(limits[0]) if limits else float(usual[index]))  # type: ignore[arg-type]
        low, high = found
        if known and max(low, usual[0]) <= min(high, usual[1]):
            low, high = max(low, usual[0]), min(high, usual[1])
        return (low, high if high >= low else low + 50) if abs(low) < 1e9 and abs(high) < 1e12 else (1, 100)

    def _text(self, meant: Meaning, slot: Slot) -> str:
        rng = self._rng
        known = random_values.known(rng, meant)
        if known is not None:
            return known
        if meant.sense == "topic" and slot.name in banks.BY_WORD and rng.random() < 0.3:
            return rng.choice(banks.BY_WORD[slot.name])
        if meant.sense == "topic":
            return rng.choice(banks.TOPICS)
        return rng.choice(self._bank(meant, slot))

    def _bank(self, meant: Meaning, slot: Slot) -> Sequence[str]:
        """Usual values, preferring banks that match more of the parameter's name."""
        thing = meant.noun or (slot.text if meant.sense == "named" else "")
        if banks.PEOPLE & {singular(word) for word in thing.split()} - {"name"}:
            return [random_values.person(self._rng, meant)]
        own = [
            " ".join(meant.words),
            thing,
            *(singular(word) for word in reversed(thing.split())),
            *reversed(meant.noun.split()),
            *reversed(meant.words),
        ]
        for word in own if meant.sense == "text" else own[1:]:
            if word in _BROAD and len(meant.words) > 1:
                continue
            for known in (singular(word), word):
                told = _fitting(self._lexicon.get(known, ()), meant) if meant.sense != "place" else []
                if len(told) > 1 and (known not in banks.BY_WORD or self._rng.random() < 0.6):
                    return told
                if known in banks.BY_WORD:
                    return banks.BY_WORD[known]
        if meant.sense == "place":
            return banks.CITIES
        technical = slot.name != slot.name.lower() or slot.parameter.location is Location.PATH
        if meant.sense == "named":
            return banks.SLUGS if technical else banks.TITLES if "title" in meant.words else banks.THINGS
        return banks.SLUGS if technical else (*banks.THINGS, *banks.TAGS, *banks.BY_WORD["type"])


def lexicon_of(apis: Iterable[Api]) -> Lexicon:
    """The examples in parameters' descriptions by the parameter's name, its noun, and its last word."""
    found: dict[str, dict[str, None]] = {}
    for api in apis:
        for parameter in api.parameters:
            words = split_name(parameter.name)[:6]
            shown = examples_in(parameter.description) if words else []
            if not shown or any(any(map(str.isdigit, item)) for item in shown):
                continue
            bare = words[:-1] if words[-1] in ("name", "type", "id", "names") and len(words) > 1 else words
            keys = {" ".join(words), singular(" ".join(bare)), singular(bare[-1])} - {"name", "type", "id", "data"}
            for key in keys:
                known = found.setdefault(key, {})
                if len(known) < _MAX_KNOWN:
                    known.update(dict.fromkeys(shown))
    return {key: tuple(known) for key, known in found.items()}


def _fitting(shown: Sequence[str], meant: Meaning) -> list[str]:
    """The examples without names of kinds ("(e.g., city, state)"), if a specific place or person is needed."""
    return [item for item in shown if meant.sense not in ("place", "person") or not item.islower()]


def _is_price(meant: Meaning) -> bool:
    return meant.sense == "money" and (meant.words[-1] != "amount" or bool(_LENT & set(meant.words)))


def _said(text: str) -> SampledValue:
    article = "the " if text.startswith("day after") else ""
    return SampledValue(((text.strip(), None),), before=article)
