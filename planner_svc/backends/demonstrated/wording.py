"""A request as words: tokens by which two requests are compared, and the meaning of runs of them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from planner_svc.reading.choices import named_choices
from planner_svc.reading.moments import Moment
from planner_svc.reading.numbers import number
from planner_svc.reading.profile import Slot
from planner_svc.reading.readings import whole_moments
from planner_svc.reading.text import QUOTED

Run = tuple[int, int]
"""A range of tokens: the first, and the one after the last."""

_CHUNK: Final = re.compile(r"\S+")
_OPENING: Final = "([{<$€£¥"
_CLOSING: Final = ")]}>%"
_STOPS: Final = ",.;:!?"
_OWNER: Final = ("'s", "\u2019s")
_MEASURED: Final = re.compile(r"([-+\u2212]?\d[\d,]*(?:\.\d+)?)(°?[A-Za-z]{1,3})")
"""A number with its unit: "5km"."""
_POLITE: Final = (frozenset({"please", "hi", "hello", "hey"}), frozenset({"please", "thanks"}))
"""Words that may begin and end a request without being part of it."""
MAX_TOKENS: Final = 200
"""A longer request gets a demonstration's plan only if it is the same request."""
MAX_NUMBER: Final = 4
"""Most tokens of a number in words."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a sign or the inside of quotation marks; its characters are ``start`` to ``end``.

    ``key`` is compared: it keeps capitals only where they may matter, in codes and quoted text. ``stopped`` tells
    whether a comma or another stop follows.
    """

    key: str
    start: int
    end: int
    quoted: bool = False
    stopped: bool = False


def tokens_of(text: str) -> tuple[Token, ...]:
    """The tokens of a request, without stops and commas between words, and without "please" at either end."""
    found: list[Token] = []
    at = 0
    for match in QUOTED.finditer(text):
        found += _plain(text, at, match.start())
        inner = match.lastindex or 1
        found.append(Token('"', match.start(), match.start(inner)))
        found.append(Token(match[inner], *match.span(inner), quoted=True))
        found.append(Token('"', match.end(inner), match.end()))
        at = match.end()
    found += _plain(text, at, len(text))
    first = next((i for i, token in enumerate(found) if token.key not in _POLITE[0]), 0)
    last = next((i for i, token in enumerate(reversed(found)) if token.key not in _POLITE[1]), 0)
    return tuple(found[first : len(found) - last])


def _plain(text: str, start: int, end: int) -> Iterator[Token]:
    """The tokens between two positions: split at blanks, without stops, with signs and units as separate tokens."""
    for chunk in _CHUNK.finditer(text, start, end):
        first, after = chunk.span()
        found: list[Token] = []
        while first < after and text[first] in _OPENING:
            found.append(_token(text, first, first + 1))
            first += 1
        tail: list[Token] = []
        while first < after and (text[after - 1] in _CLOSING or text[after - 1] in _STOPS):
            after -= 1
            if text[after] in _CLOSING:
                tail.insert(0, _token(text, after, after + 1))
        if text[first:after].endswith(_OWNER) and after - first > 2:
            after -= 2
            tail.insert(0, _token(text, after, after + 2))
        measured = _MEASURED.fullmatch(text, first, after)
        if measured is not None:
            found += [_token(text, *measured.span(1)), _token(text, *measured.span(2))]
        elif first < after:
            found.append(_token(text, first, after))
        found += tail
        if found and chunk[0][-1] in _STOPS:
            found[-1] = replace(found[-1], stopped=True)
        yield from found


def _token(text: str, start: int, end: int) -> Token:
    said = text[start:end].replace("\u2019", "'")
    key = said.casefold() if said.replace("'", "").replace("-", "").isalpha() else said
    return Token("a" if key == "an" else key, start, end)


class Wording:
    """A request's text and tokens, read at a clock.

    Args:
        text: the request.
        now: the clock that relative dates refer to, with its zone.
    """

    def __init__(self, text: str, now: datetime) -> None:
        self.text, self.now = text, now
        self.tokens = tokens_of(text)
        self._starts = [token.start for token in self.tokens]
        self._ends = [token.end for token in self.tokens]
        self._moments: dict[tuple[bool, datetime], dict[Run, Moment]] = {}
        self._choices: dict[Slot, dict[Run, JsonValue]] = {}

    def keys(self, run: Run) -> tuple[str, ...]:
        """The keys by which a run is compared."""
        return tuple(token.key for token in self.tokens[slice(*run)])

    def said(self, run: Run) -> str:
        """The characters of a run, with the stops inside it."""
        first, after = run
        return self.text[self.tokens[first].start : self.tokens[after - 1].end] if first < after else ""

    def run(self, start: int, end: int) -> Run | None:
        """The tokens at these characters; None if the range begins or ends inside a token."""
        first = bisect_right(self._ends, start)
        after = bisect_left(self._starts, end)
        if first >= after or self._starts[first] < start or self._ends[after - 1] > end:
            return None
        return first, after

    def moments(self, *, month_first: bool, now: datetime | None = None) -> dict[Run, Moment]:
        """The moments in the request, each in its context, at the request's clock or another."""
        key = (month_first, now or self.now)
        if key not in self._moments:
            found = {
                self.run(one.start, one.end): one.value
                for one in whole_moments(self.text, key[1], month_first=month_first)
                if isinstance(one.value, Moment)
            }
            self._moments[key] = {self._with_article(run): moment for run, moment in found.items() if run is not None}
        return self._moments[key]

    def _with_article(self, run: Run) -> Run:
        """The run with a preceding "the": "3 May" may replace "the 3rd of May"."""
        return (run[0] - 1, run[1]) if run[0] and self.tokens[run[0] - 1].key == "the" else run

    @cached_property
    def numbers(self) -> dict[Run, int | float]:
        """The numbers in the request, in digits or words, without units; not those in a longer moment or in quotes."""
        taken = {i for first, after in self.moments(month_first=True) if after - first > 1 for i in range(first, after)}
        found: dict[Run, int | float] = {}
        first = 0
        while first < len(self.tokens):
            run = next((run for run in self._counted(first) if not taken.intersection(range(*run))), None)
            value = None if run is None else number_of(self.said(run))
            if run is not None and value is not None:
                found[run] = value
            first = run[1] if run is not None else first + 1
        return found

    def _counted(self, first: int) -> Iterator[Run]:
        """The runs from this token on that are numbers, longest first."""
        for after in range(min(first + MAX_NUMBER, len(self.tokens)), first, -1):
            quoted = any(token.quoted for token in self.tokens[first:after])
            if not quoted and number_of(self.said((first, after))) is not None:
                yield first, after

    def choices(self, slot: Slot) -> dict[Run, JsonValue]:
        """The slot's listed values that the request names."""
        if slot not in self._choices:
            named = named_choices(slot, self.text)
            found = {self.run(one.start, one.end): one.value for one in named}
            self._choices[slot] = {run: value for run, value in found.items() if run is not None}
        return self._choices[slot]


def number_of(text: str) -> int | float | None:
    """The number that a text is by itself; "45m" is none, as it may be metres or millions."""
    return None if re.search(r"[\d.]\s?m$", text.strip().lower()) else number(text)
