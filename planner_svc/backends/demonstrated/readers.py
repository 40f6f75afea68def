"""Readers: they read a literal's value from words, first the demonstration's, then others in their place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from pydantic import JsonValue

from planner_svc.backends.compact.forms import Form, written
from planner_svc.backends.demonstrated.leaves import Leaf
from planner_svc.backends.demonstrated.times import Writing
from planner_svc.backends.demonstrated.wording import Run, Wording, number_of
from planner_svc.reading.enumerations import joint
from planner_svc.reading.profile import Slot
from planner_svc.reading.readings import same
from planner_svc.reading.text import STOP, shape

_BREAK: Final = re.compile(r"[,;:?!()\"\n]|[^\W\d_]{4}\.\s")
_INNER: Final = frozenset({"the", "of", "a", "an", "my", "our", "your", "his", "her", "their"})
"""Function words that may be part of a name."""
_JOINING: Final = frozenset({"and", "or", "but", "not", "no", "then", "also", "nor", "without", "except", "&"})
_KEY: Final = re.compile(r"([a-z]+[_-])\w*\d\w*")
"""An identifier whose prefix says what it identifies: "cus_2"."""
_ARTICLE: Final = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
ARTICLES: Final = frozenset({"a", "the", "some"})
"""Words that may precede an item of a list without being part of it."""
JOINT: Final = re.compile(joint("and|&|plus"), re.IGNORECASE)
"""The text between two items of a list."""


class Reader(Protocol):
    """Reads a run of a request as a value; None if it is not a value of this kind."""

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The value."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MomentReader:
    """Reads dates and times, and writes them in one notation."""

    writing: Writing
    month_first: bool

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The moment in the literal's notation."""
        moment = wording.moments(month_first=self.month_first).get(run)
        return None if moment is None else self.writing.written(moment, wording.now.tzinfo)


@dataclass(frozen=True, slots=True, eq=False)
class NumberReader:
    """Reads numbers of the literal's type: as text, as an integer, or as a share of 100 ("5 %")."""

    value: str | int | float
    share: bool = False

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The number."""
        said = wording.numbers.get(run)
        if said is None:
            return None
        if isinstance(self.value, str):
            return wording.said(run) if wording.said(run).isdigit() else str(said)
        made = said / 100 if self.share else said
        return int(made) if isinstance(self.value, int) and float(made).is_integer() else made


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceReader:
    """Reads the listed value of a parameter that the words name."""

    slot: Slot

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The listed value."""
        named = wording.choices(self.slot).get(run)
        if named is not None:
            return named
        return next((choice for choice in self.slot.choices if same(choice, wording.said(run))), None)


@dataclass(frozen=True, slots=True, eq=False)
class TextReader:
    """Reads words of the same sort as the demonstration's, and writes them in the same form."""

    leaf: Leaf
    forms: tuple[Form | None, ...]
    old: str
    old_tokens: int

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The text; None if the words are of another sort, or are more than one value."""
        text = wording.said(run)
        if not wording.tokens[run[0]].quoted and not self._is_like(text, wording, run):
            return None
        forms = self.forms
        if " " in text and Form.CAPITAL in forms and " " not in self.old and Form.COPY not in forms:
            forms = (Form.TITLE, *forms)
        made = (formed(form, text, wording) for form in forms)
        return next((value for value in made if value and self._fits(value)), None)

    def _fits(self, value: str) -> bool:
        return self.leaf.accepts([value] if isinstance(self.leaf.value, list) else value)

    def _is_like(self, text: str, wording: Wording, run: Run) -> bool:
        """Whether the words are one value of the same sort."""
        old, new = sort_of(self.old), sort_of(text)
        if old == new == "phone":
            return True
        if run[1] - run[0] > max(6, 2 * self.old_tokens) or not self._is_one(text):
            return False
        if (old, new) == ("name", "words"):
            return wording.text == wording.text.lower()
        if old == new == "code":
            keys = _KEY.fullmatch(self.old), _KEY.fullmatch(text)
            return (keys[0] and keys[0][1]) == (keys[1] and keys[1][1]) and _is_like_shape(self.old, text)
        return old == new or (old, new) == ("words", "name")

    def _is_one(self, text: str) -> bool:
        """Whether no word joins, excludes or continues, except those that the demonstration's text has."""
        if _BREAK.search(text) and not _BREAK.search(self.old):
            return False
        allowed = _INNER | set(self.old.lower().split())
        for word in text.replace("\u2019", "'").split():
            low = word.lower()
            if low not in allowed and (low in _JOINING or (low in STOP and not word[0].isupper())):
                return False
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ListReader:
    """Reads values joined by commas or "and"."""

    item: Reader

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The values, in order; None if one of them cannot be read."""
        start, end = wording.tokens[run[0]].start, wording.tokens[run[1] - 1].end
        edges = [start, *(edge for match in JOINT.finditer(wording.text, start, end) for edge in match.span()), end]
        values: list[JsonValue] = []
        for first, after in list(pairwise(edges))[::2]:
            item = wording.run(first, after)
            if item is not None and item[1] - item[0] > 1 and wording.tokens[item[0]].key in ARTICLES:
                item = item[0] + 1, item[1]
            value = None if item is None else self.item(wording, item)
            if value is None:
                return None
            values.append(value)
        return values


def sort_of(text: str) -> str:
    """The kind of a text by its look: address, url, number, phone, code, name or words."""
    text = _ARTICLE.sub("", text)
    if "@" in text or "://" in text:
        return "address" if "@" in text else "url"
    if number_of(text) is not None:
        return "number"
    if re.fullmatch(r"\+?[\d\s().-]{6,}", text):
        return "phone"
    if any(c.isdigit() for c in text) or "_" in text or (len(text) > 1 and text.isupper() and " " not in text):
        return "code"
    return "name" if text[:1].isupper() else "words"


def _is_like_shape(old: str, new: str) -> bool:
    """Whether both codes have the same kinds of characters (letters, digits, signs): "HND" is not like "cus_2"."""
    signs = [set(shape(text)) - {" "} for text in (old, new)]
    return signs[0] == signs[1] or (len(old) > 12 and len(new) > 12)


def formed(form: Form | None, text: str, wording: Wording) -> str | None:
    """The text in the given form; form None removes blanks and signs."""
    return re.sub(r"[\s().-]", "", text) if form is None else written(form, text, wording.now)
