"""Which words of a demonstration say the literals of its plan, and how others are read in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise, product
from typing import Any, Final, Protocol

from pydantic import JsonValue

from planner_svc.backends.compact.forms import Form, written
from planner_svc.backends.demonstrated.times import Writing, writings
from planner_svc.backends.demonstrated.wording import MAX_TOKENS, Run, Wording, number_of
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.readings import same
from planner_svc.reading.text import STOP, shape, stem

Path = tuple[str | int, ...]
_MAX_TEXT: Final = 2_000
_MAX_CLOCKS: Final = 8
_MAX_PAIRS: Final = 16
"""Clocks, and pairs of a literal and words, that are looked at in search of when a demonstration was made."""
_STEPS: Final = 4
_FORMS: Final = (
    Form.COPY, Form.TITLE, Form.CAPITAL, Form.LOWER, Form.UPPER, Form.SINGULAR, Form.CAPITAL_SINGULAR,
)  # fmt: skip
_BREAK: Final = re.compile(r"[,;:?!()\"\n]|[^\W\d_]{4,}\.\s")
_INNER: Final = frozenset({"the", "of", "a", "an", "my", "our", "your", "his", "her", "their"})
"""Function words that a name or the name of a thing may hold."""
_JOINING: Final = frozenset({"and", "or", "but", "not", "no", "then", "also", "nor", "without", "except", "&"})
_AND: Final = re.compile(r"\s*[,;]\s*(?:(?:and|&|plus)\s+)?|\s+(?:and|&|plus)\s+", re.IGNORECASE)
_ARTICLES: Final = frozenset({"a", "the", "some"})
_ARTICLE: Final = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_KEY: Final = re.compile(r"([a-z]+[_-])\w*\d\w*")
"""An identifier that says what it identifies: "cus_2"."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A literal of a plan: a text, a number, or a list of such.

    Attributes:
        path: where it is in the plan as JSON.
        step: which step's it is, counted from 0.
        slot: the argument, or the member of one, where the API is known to have it.
        profile: of the API.
    """

    path: Path
    value: JsonValue
    step: int
    slot: Slot | None
    profile: Profile

    def accepts(self, value: JsonValue) -> bool:
        """Whether the schema allows the value, as far as there is one."""
        return self.slot is None or self.profile.schemas.problem(self.slot.node, value) is None


class Reader(Protocol):
    """Reads a run of a request as a value; None where it is none of the kind."""

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The value."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Words that say a literal.

    Attributes:
        run: which.
        readers: all ways of reading them that give it. On other words they must agree.
        kind: number, moment, choice, text or list.
    """

    run: Run
    readers: tuple[Reader, ...]
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class MomentReader:
    """Reads dates and times in one way of writing."""

    writing: Writing
    month_first: bool

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The moment as the literal is written."""
        moment = wording.moments(month_first=self.month_first).get(run)
        return None if moment is None else self.writing.written(moment, wording.now.tzinfo)


@dataclass(frozen=True, slots=True, eq=False)
class NumberReader:
    """Reads numbers as the literal is one: as text, whole, or a share of 100 ("5 %")."""

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
    """Reads which of a parameter's listed values is named."""

    slot: Slot

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The listed value."""
        named = wording.choices(self.slot).get(run)
        if named is not None:
            return named
        return next((choice for choice in self.slot.choices if same(choice, wording.said(run))), None)


@dataclass(frozen=True, slots=True, eq=False)
class TextReader:
    """Reads words of the sort that the demonstration has there, written likewise."""

    leaf: Leaf
    forms: tuple[Form | None, ...]
    old: str
    old_tokens: int

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The text; None where the words are of another sort, or more than the one value."""
        text = wording.said(run)
        if not wording.tokens[run[0]].quoted and not self._is_like(text, wording, run):
            return None
        forms = self.forms
        if " " in text and Form.CAPITAL in forms and " " not in self.old and Form.COPY not in forms:
            forms = (Form.TITLE, *forms)
        made = (_formed(form, text, wording) for form in forms)
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
        """Whether nothing in the words joins, excludes or goes on, unless the demonstration's do."""
        if _BREAK.search(text) and not _BREAK.search(self.old):
            return False
        allowed = _INNER | set(self.old.lower().split())
        for word in text.replace("\u2019", "'").split():
            low = word.lower()
            if low not in allowed and (low in _JOINING or (low in STOP and not word[0].isupper())):
                return False
        return True


def sort_of(text: str) -> str:
    """What kind of thing a text looks like: address, number, code, name, or just words."""
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
    """Whether both codes have letters, digits and signs, or both lack them: "HND" is not like "cus_2"."""
    signs = [set(shape(text)) - {" "} for text in (old, new)]
    return signs[0] == signs[1] or (len(old) > 12 and len(new) > 12)


def _formed(form: Form | None, text: str, wording: Wording) -> str | None:
    """The text in that form; None as a form stands for without its blanks and signs."""
    return re.sub(r"[\s().-]", "", text) if form is None else written(form, text, wording.now)


class Finder:
    """Finds the words that say literals.

    Relative dates are read at the clocks that make them say most of the plan's: when it was made is not known.

    Args:
        demo: the demonstration's request, read against the new request's clock.
        found: the literals of its plan.
    """

    def __init__(self, demo: Wording, found: Sequence[Leaf]) -> None:
        self._demo = demo
        self.relative = frozenset(self._relative())
        searched = self.relative and len(demo.tokens) <= MAX_TOKENS
        self._clocks = tuple(self._likely_clocks(found)) if searched else ()

    def _relative(self) -> Iterator[Run]:
        """The moments that are others at another clock."""
        later = self._demo.now + timedelta(days=403)
        for run, moment in self._demo.moments(month_first=True).items():
            if self._demo.moments(month_first=True, now=later).get(run) != moment:
                yield run

    def _likely_clocks(self, found: Sequence[Leaf]) -> list[datetime]:
        """Those at which most literals are said, where they say the same ones by the same words; else none."""
        values = [v for leaf in found for v in (leaf.value if isinstance(leaf.value, list) else [leaf.value])]
        times = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and writings(v)]
        pairs = list(islice(product(dict.fromkeys(times), sorted(self.relative)), _MAX_PAIRS))
        told: dict[datetime, frozenset[tuple[str | int, Run]]] = {}
        for clock in islice(dict.fromkeys(clock for pair in pairs for clock in self._solving(*pair)), _MAX_CLOCKS):
            told[clock] = frozenset((v, run) for v, run in pairs if any(self._relative_readers(v, run, clock)))
        most = max((len({value for value, _ in said}) for said in told.values()), default=0)
        best = {clock: said for clock, said in told.items() if len({value for value, _ in said}) == most}
        return list(best) if len(set(best.values())) == 1 else []

    def _solving(self, value: str | int, run: Run) -> Iterator[datetime]:
        """Clocks at which the relative words are that time."""
        for way in writings(value):
            wanted = way.read(value)
            if wanted is None or way.last:
                continue
            clock = wanted.replace(tzinfo=self._demo.now.tzinfo)
            for _ in range(_STEPS):
                moment = self._demo.moments(month_first=True, now=clock).get(run)
                got = None if moment is None else way.written(moment, clock.tzinfo)
                reached = None if got is None else way.read(got)
                if got == value:
                    yield clock
                if got == value or reached is None:
                    break
                with suppress(OverflowError):
                    clock += wanted - reached

    def _relative_readers(self, value: str | int, run: Run, clock: datetime) -> Iterator[MomentReader]:
        """Ways of reading relative words that give the value at that clock."""
        moment = self._demo.moments(month_first=True, now=clock).get(run)
        if moment is not None:
            yield from (
                MomentReader(way, month_first=True)
                for way in writings(value)
                if way.written(moment, clock.tzinfo) == value
            )

    def said(self, leaf: Leaf) -> list[Said]:
        """The words that say a literal: several where it is said several times, none where it is not."""
        if isinstance(leaf.value, list):
            return self._listed(leaf, leaf.value)
        return self._scalar(leaf, leaf.value)

    def _scalar(self, leaf: Leaf, value: JsonValue) -> list[Said]:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return []
        if leaf.slot is not None and leaf.slot.paging and value in (0, 1):
            return []  # the first page is a constant, whatever else there is one of
        finders: list[Callable[[Leaf, str | int | float], Iterator[Said]]]
        if isinstance(value, str):
            finders = [self._choices, self._moments, self._numbers, self._texts, self._formed]
        else:
            finders = [self._choices, self._numbers, *([self._moments] if _is_part_of_time(leaf) else [])]
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            return []
        return next((found for find in finders if (found := list(find(leaf, value)))), [])

    def _listed(self, leaf: Leaf, values: Sequence[JsonValue]) -> list[Said]:
        """A list said in one go, in its order: "3, 7 and 19"."""
        items = [self._scalar(leaf, value) for value in values]
        if not items or not all(items):
            return []
        chains = [[one] for one in items[0]]
        for item in items[1:]:
            chains = [[*c, one] for c in chains for one in item if self._are_joined(c[-1].run, one.run)][:4]
        found = []
        for chain in chains:
            run = chain[0].run[0], chain[-1].run[1]
            readers = tuple(ListReader(reader) for reader in chain[0].readers)
            found.append(Said(run, readers, "list"))
        return found

    def _are_joined(self, left: Run, right: Run) -> bool:
        if left[1] > right[0]:
            return False
        tokens = self._demo.tokens
        last = right[0] - 1 if tokens[right[0] - 1].key in _ARTICLES and left[1] < right[0] else right[0]
        between = self._demo.text[tokens[left[1] - 1].end : tokens[last].start]
        return _AND.fullmatch(between) is not None

    def _choices(self, leaf: Leaf, value: str | int | float) -> Iterator[Said]:
        if leaf.slot is not None and leaf.slot.choices:
            for run, named in self._demo.choices(leaf.slot).items():
                if named == value:
                    yield Said(run, (ChoiceReader(leaf.slot),), "choice")

    def _moments(self, leaf: Leaf, value: str | int | float) -> Iterator[Said]:
        if isinstance(value, float):
            return
        ways = writings(value)
        if not ways:
            return
        found: list[Said] = []
        for run in self._demo.moments(month_first=True):
            if run in self.relative:
                continue
            readers = [MomentReader(way, month_first) for way in ways for month_first in (False, True)]
            readers = [reader for reader in readers if reader(self._demo, run) == value]
            if readers:
                found.append(Said(run, tuple(readers), "moment"))
        if not found:
            for run, clock in product(sorted(self.relative), self._clocks):
                readers = list(self._relative_readers(value, run, clock))
                if readers:
                    found.append(Said(run, tuple(readers), "moment"))
        yield from found

    def _numbers(self, leaf: Leaf, value: str | int | float) -> Iterator[Said]:
        if isinstance(value, str) and not (value.isdecimal() and value == str(int(value))):
            return  # "007" is no number
        tokens = self._demo.tokens
        for run in self._demo.numbers:
            percent = run[1] < len(tokens) and tokens[run[1]].key in ("%", "percent")
            readers = [NumberReader(value, share) for share in ((False, True) if percent else (False,))]
            readers = [reader for reader in readers if reader(self._demo, run) == value]
            if readers:
                yield Said(run, tuple(readers), "number")

    def _texts(self, leaf: Leaf, value: str | int | float) -> Iterator[Said]:
        """Where the text itself stands, in small letters or capitals."""
        if not isinstance(value, str) or not value.strip():
            return
        for match in re.finditer(re.escape(value.strip()), self._demo.text, re.IGNORECASE):
            run = self._demo.run(*match.span())
            if run is not None and (match[0] == value or match[0].lower() not in STOP):
                said = self._text(leaf, run, value)
                if said is not None:
                    yield said

    def _formed(self, leaf: Leaf, value: str | int | float) -> Iterator[Said]:
        """Where a like text stands: in the plural, or with blanks and signs."""
        tokens = self._demo.tokens
        if not isinstance(value, str) or len(value) < 3:
            return
        starts = [
            i
            for i, token in enumerate(tokens)
            if self._demo.text[token.start] == value[0] or (self._demo.text[token.start].lower() == value[0].lower())
        ]
        for first in starts:
            for after in range(first + 1, min(first + 9, len(tokens) + 1)):
                said = self._text(leaf, (first, after), value)
                if said is not None:
                    yield said

    def _text(self, leaf: Leaf, run: Run, value: str) -> Said | None:
        text = self._demo.said(run)
        forms: list[Form | None] = [form for form in _FORMS if written(form, text, self._demo.now) == value]
        if not forms and len(value) > 5 and any(map(str.isdigit, value)) and _formed(None, text, self._demo) == value:
            forms.append(None)
        if not forms:
            return None
        return Said(run, (TextReader(leaf, tuple(forms), text, run[1] - run[0]),), "text")


@dataclass(frozen=True, slots=True, eq=False)
class ListReader:
    """Reads values that are joined by commas or "and"."""

    item: Reader

    def __call__(self, wording: Wording, run: Run) -> JsonValue:
        """The values, in order; None where one of them cannot be read."""
        start, end = wording.tokens[run[0]].start, wording.tokens[run[1] - 1].end
        edges = [start, *(edge for match in _AND.finditer(wording.text, start, end) for edge in match.span()), end]
        values: list[JsonValue] = []
        for first, after in list(pairwise(edges))[::2]:
            item = wording.run(first, after)
            if item is not None and item[1] - item[0] > 1 and wording.tokens[item[0]].key in _ARTICLES:
                item = item[0] + 1, item[1]
            value = None if item is None else self.item(wording, item)
            if value is None:
                return None
            values.append(value)
        return values


def _is_part_of_time(leaf: Leaf) -> bool:
    """Whether a number may be a year, month or day: its argument says so."""
    return leaf.slot is not None and bool({"year", "month", "day"}.intersection(leaf.slot.words))


def nearness(leaf: Leaf, wording: Wording, run: Run) -> float:
    """How near a word of the literal's argument stands: 1 right beside it, 0 for none."""
    words = leaf.slot.words if leaf.slot is not None else ()
    before, after = wording.tokens[max(run[0] - 3, 0) : run[0]][::-1], wording.tokens[run[1] : run[1] + 3]
    places = [place for side in (before, after) for place, token in enumerate(side, 1) if stem(token.key) in words]
    return 1 / min(places) if places else 0.0


def leaves(plan: Mapping[str, Any], profiles: Mapping[str, Profile]) -> Iterator[Leaf]:
    """The literals of a plan, given as JSON: in arguments, loops and conditions."""
    for index, step in enumerate(plan["steps"]):
        profile = profiles[step["api"]]
        slots = {slot.name: slot for slot in profile.slots}
        path: Path = ("steps", index)
        for name, value in step["arguments"].items():
            yield from _in_value(value, (*path, "arguments", name), index, slots.get(name), profile)
        if step["foreach"] is not None:
            yield from _in_value(step["foreach"]["items"], (*path, "foreach", "items"), index, None, profile)
        if step["when"] is not None:
            for side in ("left", "right"):
                yield from _in_value(step["when"][side], (*path, "when", side), index, None, profile)


def _in_value(value: Mapping[str, Any], path: Path, step: int, slot: Slot | None, profile: Profile) -> Iterator[Leaf]:
    if value["kind"] == "literal":
        yield from _in_literal(value["value"], (*path, "value"), step, slot, profile)
    elif value["kind"] == "list":
        for index, item in enumerate(value["items"]):
            yield from _in_value(item, (*path, "items", index), step, slot, profile)
    elif value["kind"] == "object":
        members = {child.name: child for child in slot.children} if slot is not None else {}
        for name, member in value["fields"].items():
            yield from _in_value(member, (*path, "fields", name), step, members.get(name), profile)


def _in_literal(value: JsonValue, path: Path, step: int, slot: Slot | None, profile: Profile) -> Iterator[Leaf]:
    if isinstance(value, dict):
        members = {child.name: child for child in slot.children} if slot is not None else {}
        for name, member in value.items():
            yield from _in_literal(member, (*path, name), step, members.get(name), profile)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _in_literal(item, (*path, index), step, slot, profile)
    else:
        yield Leaf(path, value, step, slot, profile)
