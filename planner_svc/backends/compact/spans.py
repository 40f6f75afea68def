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
from pydantic import JsonValue

from planner_svc.backends.compact.boundaries import plausible
from planner_svc.backends.compact.inputs import Floats, Origin
from planner_svc.backends.compact.surface_features import CODE, quotations
from planner_svc.reading.examples import examples_in
from planner_svc.reading.profile import Slot
from planner_svc.reading.readings import number_in
from planner_svc.reading.text import STOP, Word, shape, stems, words_of

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
_MOST_VALUE_LIKE: Final = 4
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
class ParameterTarget:
    """A parameter to fill.

    Attributes:
        number: number of its API among the candidates.
        place: place of the parameter among the items.
        slot: the parameter.
        namesake: whether another API that is likely called has an answer field of the same name.
        demo_values: its values in demos.
    """

    number: int
    place: int
    slot: Slot
    namesake: bool = False
    demo_values: tuple[str, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        """Its known values: those in its description, and those in demos."""
        return (*shown_examples(self.slot), *self.demo_values)


def as_in_examples(target: ParameterTarget, value: JsonValue) -> JsonValue:
    """The value as an example writes it, if they differ only in capitals and endings: "male"."""
    if not isinstance(value, str) or value in target.examples:
        return value
    said = stems(value)
    return next((one for one in target.examples if stems(one) == said), value)


class Spans:
    """The spans of one request, and the evidence for each.

    Args:
        query: the request.
        offsets: characters of each token, start and end.
        starts: (m, t) probability that the value of an item starts at a token.
        ends: (m, t) probability that it ends there.
        origins: (m, Origin) probabilities of the value's source.
        targets: the parameters of the APIs that are likely called; they compete for words.
    """

    def __init__(
        self,
        query: str,
        offsets: Sequence[tuple[int, int]],
        starts: Floats,
        ends: Floats,
        origins: Floats,
        targets: Sequence[ParameterTarget],
    ) -> None:
        query = query[: max(end for _, end in offsets)]  # the part that the network read
        self._query, self._starts, self._ends, self._origins, self._targets = query, starts, ends, origins, targets
        self._offsets = offsets
        self._possible = plausible(query, offsets)
        self._possible *= np.triu(np.tri(len(offsets), k=_MAX_TOKENS - 1, dtype=np.float32))
        self._words = words_of(query)
        self._word_at = {at: i for i, word in enumerate(self._words) for at in range(word.start, word.end)}
        self._quoted = frozenset(quotations(query))
        self._firsts = {start: i for i, (start, end) in reversed(list(enumerate(offsets))) if end > start}
        self._lasts = {end: i for i, (start, end) in enumerate(offsets) if end > start}
        self._value_like = list(self._tokens_of(_value_like(query)))
        self._likely: dict[int, Floats] = {}
        self._contexts: dict[tuple[int, int], SpanContext] = {}

    def likely(self, place: int) -> Floats:
        """(t, t) probability that a parameter's value goes from one token to another, by the network alone."""
        if place not in self._likely:
            self._likely[place] = np.outer(self._starts[place], self._ends[place]) * self._possible
        return self._likely[place]

    def candidates(self, target: ParameterTarget, times: int = 1) -> list[tuple[int, int]]:
        """First and last tokens of the spans to rescore, likeliest first.

        For a list, or if the API is called several times, spans that do not overlap each other are added.
        """
        likely = self.likely(target.place)
        edges = (np.argsort(side[target.place])[-_LIKELIEST:].tolist() for side in (self._starts, self._ends))
        found = sorted(product(*edges), key=lambda span: (-likely[span], span[1] - span[0]))[:_LIKELIEST]
        found += sorted(self._value_like, key=lambda span: -likely[span])[:_MOST_VALUE_LIKE]
        found += self._tokens_of(self._example_ranges(target))
        if times > 1 or target.slot.kinds == {"array"}:
            found += _non_overlapping(likely)
        return sorted({span for span in found if likely[span] > 0}, key=lambda span: (-likely[span], span))

    def evidence(self, target: ParameterTarget, spans: Sequence[tuple[int, int]]) -> Floats:
        """(spans, SPAN_SIGNS): the evidence for and against each being the parameter's value."""
        likely, slot = self.likely(target.place), target.slot
        starts, ends, origins = self._starts[target.place], self._ends[target.place], self._origins[target.place]
        most = float(likely.max()) + _FLOOR**2
        said = float(origins[Origin.SPAN])
        kinds = (
            slot.required,
            bool(slot.kinds & {"integer", "number"}),
            "string" in slot.kinds,
            "array" in slot.kinds,
            slot.temporal,
            target.namesake,
        )
        rivals = self._competition(target, spans)
        rows = []
        for rank, (span, rival) in enumerate(zip(spans, rivals, strict=True)):
            context, own = self._context(span), float(likely[span])
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
                    *context.numbers,
                    *self._named(context, frozenset(slot.words)),
                    *_example_features(context.text, target),
                    *rival,
                    own * said - max(rival[:2]),
                    *kinds,
                )
            )
        return np.asarray(rows, np.float32).reshape(-1, len(SPAN_SIGNS))

    def _competition(
        self, target: ParameterTarget, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[float, float, float]]:
        """How strongly other parameters want each span: the same API's, other APIs'; and an overlapping span."""
        beside = [one.place for one in self._targets if one.number == target.number and one.place != target.place]
        elsewhere = [one.place for one in self._targets if one.number != target.number]
        firm = [self._likeliest(place) for place in beside]

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

    def _likeliest(self, place: int) -> tuple[tuple[int, int], float]:
        """The likeliest span of a parameter, and the probability that it is its value."""
        likely = self.likely(place)
        first, last = divmod(int(likely.argmax()), likely.shape[1])
        return (first, last), float(likely[first, last] * self._origins[place][Origin.SPAN])

    def _context(self, span: tuple[int, int]) -> SpanContext:
        if span not in self._contexts:
            self._contexts[span] = self._read_context(self._offsets[span[0]][0], self._offsets[span[1]][1])
        return self._contexts[span]

    def _read_context(self, start: int, end: int) -> SpanContext:
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
        return SpanContext(text, tuple(words), tuple(before), tuple(after), numbers)

    @staticmethod
    def _named(context: SpanContext, names: frozenset[str]) -> tuple[bool, bool, bool, bool]:
        """Whether a word of the parameter's name is right before a span, right after it, its last, its first."""
        before = next((word.stem for word in reversed(context.before) if word.text.lower() not in STOP), "")
        return (
            before in names,
            any(word.stem in names for word in context.after),
            bool(context.words) and context.words[-1].stem in names,
            bool(context.words) and context.words[0].stem in names,
        )

    def _example_ranges(self, target: ParameterTarget) -> Iterator[tuple[int, int]]:
        """The character ranges that equal one of a parameter's examples."""
        for example in target.examples:
            for found in _as_word(example).finditer(self._query):
                yield found.span()

    def _tokens_of(self, spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for start, end in spans:
            first, last = self._firsts.get(start), self._lasts.get(end)
            if first is not None and last is not None and first <= last:
                yield first, last


@dataclass(frozen=True, slots=True)
class SpanContext:
    """A span's text and words, the words beside it, and the columns that do not depend on a parameter."""

    text: str
    words: tuple[Word, ...]
    before: tuple[Word, ...]
    after: tuple[Word, ...]
    numbers: tuple[float, ...]


def shown_examples(slot: Slot) -> tuple[str, ...]:
    """The examples of a parameter: those of its schema, and those that its description gives."""
    return _joined(slot.examples, examples_in(slot.parameter.description))


@lru_cache(4_096)
def _joined(examples: tuple[str, ...], described: tuple[str, ...]) -> tuple[str, ...]:
    """Texts without duplicates. Cached by the texts: a slot would keep its whole API in memory."""
    return tuple(dict.fromkeys([*examples, *described]))


@lru_cache(4_096)
def _as_word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)


def _example_features(text: str, target: ParameterTarget) -> tuple[float, float, float]:
    """Whether a text is an example of the parameter, looks like one (-1: there are none), and is in its description."""
    examples = target.examples
    low = text.lower()
    return (
        any(low == one.lower() for one in examples),
        float(_shape(text) in map(_shape, examples)) if examples else -1.0,
        low in target.slot.parameter.description.lower(),
    )


_shape = lru_cache(20_000)(shape)


def _non_overlapping(likely: Floats) -> Iterator[tuple[int, int]]:
    """The likeliest spans that do not overlap each other."""
    left = likely.copy()
    bound = float(left.max()) * _LEAST
    for _ in range(_MAX_APART):
        first, last = divmod(int(left.argmax()), left.shape[1])
        if left[first, last] <= bound:
            return
        yield first, last
        left[: last + 1, first:] = 0


def _value_like(query: str) -> Iterator[tuple[int, int]]:
    """Character ranges that look like a value of any parameter: quotations, numbers, names, codes."""
    yield from quotations(query)
    for pattern in (_NUMBER, _NAME):
        for match in pattern.finditer(query):
            yield match.start(), match.start() + len(match[0].rstrip(_EDGES))
    for match in _CHUNK.finditer(query):
        if CODE.search(match[0]) or any(map(str.isdigit, match[0])):
            yield match.start(), match.start() + len(match[0].rstrip(_EDGES))
