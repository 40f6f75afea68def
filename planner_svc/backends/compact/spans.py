"""Which words of a request are a parameter's value: rescores the spans that the network finds likely.

The network predicts a start and an end for each parameter separately. Trees weigh what it does not see: the examples in
the parameter's description, the words beside a span, and which other parameters compete for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np

from planner_svc.backends.compact.boundaries import plausible
from planner_svc.backends.compact.inputs import Floats, Origin
from planner_svc.backends.compact.looks import CODE, quotations
from planner_svc.reading.examples import examples_in
from planner_svc.reading.profile import Slot
from planner_svc.reading.readings import number_in
from planner_svc.reading.text import STOP, Word, shape, words_of

SPAN_SIGNS: Final = (
    "start", "end", "relative", "rank", "likely", "said", "left_out", "from_call",
    "words", "characters", "quoted", "number", "capital", "code",
    "named_before", "named_after", "named_last", "named_first",
    "example", "like_example", "described",
    "wanted_beside", "wanted_elsewhere", "overlaps", "margin",
    "required", "takes_number", "takes_text", "takes_list", "temporal", "namesake",
)  # fmt: skip
"""What the trees weigh of a parameter and a span."""
_LIKELIEST: Final = 8
_MARKED: Final = 4
_MAX_TOKENS: Final = 128
_MAX_APART: Final = 12
_LEAST: Final = 0.01
"""Smallest share of the likeliest span's probability, by the network, for further spans that do not overlap it."""
_CLEAR: Final = 0.2
"""Smallest probability at which another parameter's best span counts as its own."""
_FLOOR: Final = 1e-6
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NAME: Final = re.compile(r"[A-Z][\w\u2019'.&-]*(?:\s+(?:(?:of|the|and|de|for|&)\s+)?[A-Z0-9][\w\u2019'.&-]*)*")
_CHUNK: Final = re.compile(r"[^\s\"'()\u201c\u201d`,;]+")
_EDGES: Final = ".,;:!?'\u2019-&"


@dataclass(frozen=True, slots=True)
class Wish:
    """A parameter to fill.

    Attributes:
        number: number of its API among the candidates.
        place: place of the parameter among the items.
        slot: the parameter.
        namesake: whether another API that is likely called has an answer field of the same name.
        shown: its values in demos.
    """

    number: int
    place: int
    slot: Slot
    namesake: bool = False
    shown: tuple[str, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        """Its known values: those in its description, and those in demos."""
        return (*shown_examples(self.slot), *self.shown)


class Spans:
    """The spans of one request, and the evidence for each.

    Args:
        query: the request.
        offsets: characters of each token, start and end.
        starts: (m, t) probability that the value of an item starts at a token.
        ends: (m, t) probability that it ends there.
        origins: (m, Origin) probabilities of the value's source.
        wishes: the parameters of the APIs that are likely called; they compete for words.
    """

    def __init__(
        self,
        query: str,
        offsets: Sequence[tuple[int, int]],
        starts: Floats,
        ends: Floats,
        origins: Floats,
        wishes: Sequence[Wish],
    ) -> None:
        query = query[: max(end for _, end in offsets)]  # the part that the network read
        self._query, self._starts, self._ends, self._origins, self._wishes = query, starts, ends, origins, wishes
        self._offsets = offsets
        self._possible = plausible(query, offsets)
        self._possible *= np.triu(np.tri(len(offsets), k=_MAX_TOKENS - 1, dtype=np.float32))
        self._words = words_of(query)
        self._word_at = {at: i for i, word in enumerate(self._words) for at in range(word.start, word.end)}
        self._quoted = frozenset(quotations(query))
        self._firsts = {start: i for i, (start, end) in reversed(list(enumerate(offsets))) if end > start}
        self._lasts = {end: i for i, (start, end) in enumerate(offsets) if end > start}
        self._marked = list(self._tokens_of(_marked(query)))
        self._likely: dict[int, Floats] = {}
        self._looks: dict[tuple[int, int], Look] = {}

    def likely(self, place: int) -> Floats:
        """(t, t) probability that a parameter's value goes from one token to another, by the network alone."""
        if place not in self._likely:
            self._likely[place] = np.outer(self._starts[place], self._ends[place]) * self._possible
        return self._likely[place]

    def candidates(self, wish: Wish, times: int = 1) -> list[tuple[int, int]]:
        """First and last tokens of the spans to rescore, likeliest first.

        For a list, or if the API is called several times, spans that do not overlap each other are added.
        """
        likely = self.likely(wish.place)
        edges = (np.argsort(side[wish.place])[-_LIKELIEST:].tolist() for side in (self._starts, self._ends))
        found = sorted(product(*edges), key=lambda span: -likely[span])[:_LIKELIEST]
        found += sorted(self._marked, key=lambda span: -likely[span])[:_MARKED]
        found += self._tokens_of(self._shown(wish))
        if times > 1 or wish.slot.kinds == {"array"}:
            found += _apart(likely)
        return sorted({span for span in found if likely[span] > 0}, key=lambda span: (-likely[span], span))

    def evidence(self, wish: Wish, spans: Sequence[tuple[int, int]]) -> Floats:
        """(spans, SPAN_SIGNS): the evidence for and against each being the parameter's value."""
        likely, slot = self.likely(wish.place), wish.slot
        starts, ends, origins = self._starts[wish.place], self._ends[wish.place], self._origins[wish.place]
        most = float(likely.max()) + _FLOOR**2
        said = float(origins[Origin.SPAN])
        kinds = (
            slot.required,
            bool(slot.kinds & {"integer", "number"}),
            "string" in slot.kinds,
            "array" in slot.kinds,
            slot.temporal,
            wish.namesake,
        )
        rivals = self._rivals(wish, spans)
        rows = []
        for rank, (span, rival) in enumerate(zip(spans, rivals, strict=True)):
            look, own = self._look(span), float(likely[span])
            rows.append(
                (
                    math.log(float(starts[span[0]]) + _FLOOR),
                    math.log(float(ends[span[1]]) + _FLOOR),
                    math.log(own / most + _FLOOR),
                    rank,
                    most,
                    said,
                    float(origins[Origin.ABSENT]),
                    float(origins[Origin.REFERENCE]),
                    *look.numbers,
                    *self._named(look, frozenset(slot.words)),
                    *_exemplary(look.text, wish),
                    *rival,
                    own * said - max(rival[:2]),
                    *kinds,
                )
            )
        return np.asarray(rows, np.float32).reshape(-1, len(SPAN_SIGNS))

    def _rivals(self, wish: Wish, spans: Sequence[tuple[int, int]]) -> list[tuple[float, float, float]]:
        """How strongly other parameters want each span: the same API's, other APIs'; and an overlapping span."""
        beside = [one.place for one in self._wishes if one.number == wish.number and one.place != wish.place]
        elsewhere = [one.place for one in self._wishes if one.number != wish.number]
        firm = [self._firm(place) for place in beside]

        def most(places: Sequence[int], span: tuple[int, int]) -> float:
            wanted = (float(self.likely(at)[span] * self._origins[at][Origin.SPAN]) for at in places)
            return max(wanted, default=0.0)

        return [
            (
                most(beside, span),
                most(elsewhere, span),
                max((sure for (a, b), sure in firm if sure > _CLEAR and a <= span[1] and span[0] <= b), default=0.0),
            )
            for span in spans
        ]

    def _firm(self, place: int) -> tuple[tuple[int, int], float]:
        """The likeliest span of a parameter, and the probability that it is its value."""
        likely = self.likely(place)
        first, last = divmod(int(likely.argmax()), likely.shape[1])
        return (first, last), float(likely[first, last] * self._origins[place][Origin.SPAN])

    def _look(self, span: tuple[int, int]) -> Look:
        if span not in self._looks:
            self._looks[span] = self._look_at(self._offsets[span[0]][0], self._offsets[span[1]][1])
        return self._looks[span]

    def _look_at(self, start: int, end: int) -> Look:
        text = self._query[start:end]
        inside = [self._word_at[at] for at in (start, end - 1) if at in self._word_at]
        words = self._words[inside[0] : inside[-1] + 1] if inside else []
        before = self._words[max(0, inside[0] - 4) : inside[0]] if inside else []
        after = self._words[inside[-1] + 1 : inside[-1] + 2] if inside else []
        numbers = (
            len(words),
            len(text),
            (start, end) in self._quoted,
            number_in(text) is not None,
            text[:1].isupper(),
            CODE.search(text) is not None,
        )
        return Look(text, tuple(words), tuple(before), tuple(after), numbers)

    @staticmethod
    def _named(look: Look, names: frozenset[str]) -> tuple[bool, bool, bool, bool]:
        """Whether a word of the parameter's name is right before a span, right after it, its last, its first."""
        before = next((word.stem for word in reversed(look.before) if word.text.lower() not in STOP), "")
        return (
            before in names,
            any(word.stem in names for word in look.after),
            bool(look.words) and look.words[-1].stem in names,
            bool(look.words) and look.words[0].stem in names,
        )

    def _shown(self, wish: Wish) -> Iterator[tuple[int, int]]:
        """The character ranges that equal one of a parameter's examples."""
        for example in wish.examples:
            for found in _as_word(example).finditer(self._query):
                yield found.span()

    def _tokens_of(self, spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for start, end in spans:
            first, last = self._firsts.get(start), self._lasts.get(end)
            if first is not None and last is not None and first <= last:
                yield first, last


@dataclass(frozen=True, slots=True)
class Look:
    """A span by itself: its text, its words, the words beside it, and the columns that do not depend on a parameter."""

    text: str
    words: tuple[Word, ...]
    before: tuple[Word, ...]
    after: tuple[Word, ...]
    numbers: tuple[float, ...]


@lru_cache(4_096)
def shown_examples(slot: Slot) -> tuple[str, ...]:
    """The examples of a parameter: those of its schema, and those that its description gives."""
    return tuple(dict.fromkeys([*slot.examples, *examples_in(slot.parameter.description)]))


@lru_cache(4_096)
def _as_word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)


def _exemplary(text: str, wish: Wish) -> tuple[float, float, float]:
    """Whether a text is an example of the parameter, looks like one (-1: there are none), and is in its description."""
    examples = wish.examples
    low = text.lower()
    return (
        any(low == one.lower() for one in examples),
        float(_shape(text) in map(_shape, examples)) if examples else -1.0,
        low in wish.slot.parameter.description.lower(),
    )


_shape = lru_cache(20_000)(shape)


def _apart(likely: Floats) -> Iterator[tuple[int, int]]:
    """The likeliest spans that do not overlap each other."""
    left = likely.copy()
    bound = float(left.max()) * _LEAST
    for _ in range(_MAX_APART):
        first, last = divmod(int(left.argmax()), left.shape[1])
        if left[first, last] <= bound:
            return
        yield first, last
        left[: last + 1, first:] = 0


def _marked(query: str) -> Iterator[tuple[int, int]]:
    """Character ranges that look like a value of any parameter: quotations, numbers, names, codes."""
    yield from quotations(query)
    for pattern in (_NUMBER, _NAME):
        for match in pattern.finditer(query):
            yield match.start(), match.start() + len(match[0].rstrip(_EDGES))
    for match in _CHUNK.finditer(query):
        if CODE.search(match[0]) or any(map(str.isdigit, match[0])):
            yield match.start(), match.start() + len(match[0].rstrip(_EDGES))
