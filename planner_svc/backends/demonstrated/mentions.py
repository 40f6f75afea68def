"""Finds the words of a demonstration that say the literals of its plan."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice, product
from typing import Final

from pydantic import JsonValue

from planner_svc.backends.compact.forms import Form, written
from planner_svc.backends.demonstrated.leaves import Leaf
from planner_svc.backends.demonstrated.readers import (
    ARTICLES,
    JOINT,
    ChoiceReader,
    ListReader,
    MomentReader,
    NumberReader,
    Reader,
    TextReader,
    formed,
)
from planner_svc.backends.demonstrated.times import writings
from planner_svc.backends.demonstrated.wording import MAX_TOKENS, Run, Wording
from planner_svc.reading.text import STOP, stem
from services.compute import checkpoint

_MAX_TEXT: Final = 2_000
_MAX_CLOCKS: Final = 8
_MAX_PAIRS: Final = 16
"""Most clocks, and most pairs of literal and words, that are tried to find when a demonstration was made."""
_STEPS: Final = 4
_MAX_ALIKE: Final = 8
"""Most tokens of a text that is said in another form."""
_FORMS: Final = (
    Form.COPY, Form.TITLE, Form.CAPITAL, Form.LOWER, Form.UPPER, Form.SINGULAR, Form.CAPITAL_SINGULAR,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """Words that say a literal.

    Attributes:
        run: the words.
        readers: all readers that read the literal from them. On other words they must agree.
        kind: number, moment, choice, text or list.
    """

    run: Run
    readers: tuple[Reader, ...]
    kind: str


class MentionFinder:
    """Finds the words that say literals.

    It is unknown when a demonstration was made. Relative dates are read at the clocks that explain most of the plan's
    times.

    Args:
        demo: the demonstration's request, read at the new request's clock.
        found: the literals of its plan.
    """

    def __init__(self, demo: Wording, found: Sequence[Leaf]) -> None:
        self._demo = demo
        self.relative = frozenset(relative(demo))
        self._wanted = frozenset(v for leaf in found for v in leaf.values if isinstance(v, str) and _is_sought(v))
        searched = self.relative and len(demo.tokens) <= MAX_TOKENS
        self._clocks = tuple(self._likely_clocks(found)) if searched else ()

    def _likely_clocks(self, found: Sequence[Leaf]) -> list[datetime]:
        """The clocks that explain most literals, if they all pair them with the same words; else none."""
        values = [v for leaf in found for v in leaf.values]
        times = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and writings(v)]
        pairs = list(islice(product(dict.fromkeys(times), sorted(self.relative)), _MAX_PAIRS))
        told: dict[datetime, frozenset[tuple[str | int, Run]]] = {}
        for clock in islice(dict.fromkeys(clock for pair in pairs for clock in self._solving(*pair)), _MAX_CLOCKS):
            told[clock] = frozenset((v, run) for v, run in pairs if any(self._relative_readers(v, run, clock)))
        most = max((len({value for value, _ in said}) for said in told.values()), default=0)
        best = {clock: said for clock, said in told.items() if len({value for value, _ in said}) == most}
        return list(best) if len(set(best.values())) == 1 else []

    def _solving(self, value: str | int, run: Run) -> Iterator[datetime]:
        """Clocks at which the relative words mean that time."""
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
        """Readers that read the value from relative words at that clock."""
        moment = self._demo.moments(month_first=True, now=clock).get(run)
        if moment is not None:
            yield from (
                MomentReader(way, month_first=True)
                for way in writings(value)
                if way.written(moment, clock.tzinfo) == value
            )

    def mentions(self, leaf: Leaf) -> list[Mention]:
        """The words that say a literal: several if it is said several times, none if it is not said."""
        if isinstance(leaf.value, list):
            return self._listed(leaf, leaf.value)
        return self._scalar(leaf, leaf.value)

    def _scalar(self, leaf: Leaf, value: JsonValue) -> list[Mention]:
        checkpoint()
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return []
        if leaf.slot is not None and leaf.slot.paging and value in (0, 1):
            return []  # the first page is a constant; a 0 or 1 in the request is something else
        finders: list[Callable[[Leaf, str | int | float], Iterator[Mention]]]
        if isinstance(value, str):
            finders = [self._choices, self._moments, self._numbers, self._texts, self._formed]
        else:
            finders = [self._choices, self._numbers, *([self._moments] if _is_part_of_time(leaf) else [])]
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            return []
        return next((found for find in finders if (found := list(find(leaf, value)))), [])

    def _listed(self, leaf: Leaf, values: Sequence[JsonValue]) -> list[Mention]:
        """A list that is said as one phrase, in order: "3, 7 and 19"."""
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
            found.append(Mention(run, readers, "list"))
        return found

    def _are_joined(self, left: Run, right: Run) -> bool:
        if left[1] > right[0]:
            return False
        tokens = self._demo.tokens
        last = right[0] - 1 if tokens[right[0] - 1].key in ARTICLES and left[1] < right[0] else right[0]
        between = self._demo.text[tokens[left[1] - 1].end : tokens[last].start]
        return JOINT.fullmatch(between) is not None

    def _choices(self, leaf: Leaf, value: str | int | float) -> Iterator[Mention]:
        if leaf.slot is not None and leaf.slot.choices:
            for run, named in self._demo.choices(leaf.slot).items():
                if named == value:
                    yield Mention(run, (ChoiceReader(leaf.slot),), "choice")

    def _moments(self, leaf: Leaf, value: str | int | float) -> Iterator[Mention]:
        if isinstance(value, float):
            return
        ways = writings(value)
        if not ways:
            return
        found: list[Mention] = []
        for run in self._demo.moments(month_first=True):
            if run in self.relative:
                continue
            readers = [MomentReader(way, month_first) for way in ways for month_first in (False, True)]
            readers = [reader for reader in readers if reader(self._demo, run) == value]
            if readers:
                found.append(Mention(run, tuple(readers), "moment"))
        if not found:
            for run, clock in product(sorted(self.relative), self._clocks):
                readers = list(self._relative_readers(value, run, clock))
                if readers:
                    found.append(Mention(run, tuple(readers), "moment"))
        yield from found

    def _numbers(self, leaf: Leaf, value: str | int | float) -> Iterator[Mention]:
        if isinstance(value, str) and not (value.isdecimal() and value == str(int(value))):
            return  # "007" is not a number
        tokens = self._demo.tokens
        for run in self._demo.numbers:
            percent = run[1] < len(tokens) and tokens[run[1]].key in ("%", "percent")
            readers = [NumberReader(value, share) for share in ((False, True) if percent else (False,))]
            readers = [reader for reader in readers if reader(self._demo, run) == value]
            if readers:
                yield Mention(run, tuple(readers), "number")

    def _texts(self, leaf: Leaf, value: str | int | float) -> Iterator[Mention]:
        """Places of the text itself, ignoring case."""
        if not isinstance(value, str) or not value.strip():
            return
        for match in re.finditer(re.escape(value.strip()), self._demo.text, re.IGNORECASE):
            run = self._demo.run(*match.span())
            if run is not None and (match[0] == value or match[0].lower() not in STOP):
                said = self._text(leaf, run, value)
                if said is not None:
                    yield said

    def _formed(self, leaf: Leaf, value: str | int | float) -> Iterator[Mention]:
        """Places of the text in another form: in the plural, or with blanks and signs."""
        if not isinstance(value, str):
            return
        for run in self._alike.get(value, ()):
            said = self._text(leaf, run, value)
            if said is not None:
                yield said

    @cached_property
    def _alike(self) -> Mapping[str, Sequence[Run]]:
        """Places of each literal's text in another form. One pass serves all literals, since there may be many."""
        found: dict[str, list[Run]] = defaultdict(list)
        count = len(self._demo.tokens)
        initials = {value[0].lower() for value in self._wanted}
        for first, token in enumerate(self._demo.tokens):
            checkpoint()
            initial = self._demo.text[token.start].lower()
            if initial not in initials:
                continue
            for after in range(first + 1, min(first + _MAX_ALIKE, count) + 1):
                text = self._demo.said((first, after))
                for made in {formed(form, text, self._demo) for form in (*_FORMS, None)} & self._wanted:
                    if made is not None and made[0].lower() == initial:
                        found[made].append((first, after))
        return found

    def _text(self, leaf: Leaf, run: Run, value: str) -> Mention | None:
        text = self._demo.said(run)
        forms: list[Form | None] = [form for form in _FORMS if written(form, text, self._demo.now) == value]
        if not forms and len(value) > 5 and any(map(str.isdigit, value)) and formed(None, text, self._demo) == value:
            forms.append(None)
        if not forms:
            return None
        return Mention(run, (TextReader(leaf, tuple(forms), text, run[1] - run[0]),), "text")


def relative(wording: Wording) -> Iterator[Run]:
    """The runs whose moments change with the clock."""
    later = wording.now + timedelta(days=403)
    for run, moment in wording.moments(month_first=True).items():
        if wording.moments(month_first=True, now=later).get(run) != moment:
            yield run


def _is_sought(value: str) -> bool:
    """Whether other forms of a text are searched for."""
    return 3 <= len(value) <= _MAX_TEXT


def _is_part_of_time(leaf: Leaf) -> bool:
    """Whether a number may be a year, month or day, by the name of its argument."""
    return leaf.slot is not None and bool({"year", "month", "day"}.intersection(leaf.slot.words))


def nearness(leaf: Leaf, wording: Wording, run: Run) -> float:
    """How near a word of the literal's argument is to the run: 1 if adjacent, 0 if there is none."""
    words = leaf.slot.words if leaf.slot is not None else ()
    before, after = wording.tokens[max(run[0] - 3, 0) : run[0]][::-1], wording.tokens[run[1] : run[1] + 3]
    places = [place for side in (before, after) for place, token in enumerate(side, 1) if stem(token.key) in words]
    return 1 / min(places) if places else 0.0
