"""Generates aligned examples from a catalogue alone, if there are no recorded requests, similar to Seal-Tools.

A request is built from pieces that carry marks, so every span is exact. All random draws come from one generator: the
same catalogue and seed give the same examples.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from services.contracts.api import Api
from training.planner.catalogue import Catalogue, Neighbourhood
from training.planner.drafts import Drafter, Use
from training.planner.examples import Example, InvalidExample, Output, check
from training.planner.labelling import Rendered, labelled_calls, render
from training.planner.meanings import meaning_of
from training.planner.phrasing import CallPhraser, PhrasedCall
from training.planner.pieces import Text, plain, text
from training.planner.request_text import call_sentences, joined, typed_in_hurry, with_context
from training.planner.samples import Lexicon, Sampler, lexicon_of
from training.planner.scenarios import Scenario, ScenarioMaker
from training.planner.unserved import unserved_request

PER_VISIT = (8, 96)
"""Minimum and maximum of examples made per visit of a neighbourhood: reading its APIs costs more than an example."""
_FEW = 500
"""Up to this many examples, each visit makes only one, so that a small sample is diverse."""
MADE = "-made"
"""Suffix of the source's name for generated requests."""
MAX_CHARS = 1_500
_TRIES = 12
_BUFFER = 2_000
_SLIPPED = 0.12
_TERSE = 0.12
_START = datetime(2024, 1, 1, 8, tzinfo=UTC)


def synthesise(apis: Iterable[Api], seed: int, count: int, *, source: str = "synthetic") -> Iterator[Example]:
    """Generate examples for a catalogue lazily.

    Args:
        apis: the catalogue.
        seed: of the generator.
        count: how many; fewer only if the catalogue has nothing to ask for.
        source: the examples' source.
    """
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    catalogue = Catalogue(apis)
    maker = _Maker(catalogue, rng, lexicon_of(catalogue.apis), source)
    yield from _shuffled(maker.examples(count), rng.randrange(2**32), min(_BUFFER, max(count // 4, 1)))


class _Maker:
    def __init__(self, catalogue: Catalogue, rng: random.Random, lexicon: Lexicon, source: str) -> None:
        self._catalogue, self._rng, self._source = catalogue, rng, source
        self._sampler = Sampler(rng, _START, lexicon)
        self._scenarios = ScenarioMaker(rng, Drafter(rng, self._sampler))
        self._phraser = CallPhraser(rng)

    def examples(self, count: int) -> Iterator[Example]:
        made = barren = 0
        while made < count and barren < 3:
            places = self._catalogue.neighbourhoods(self._rng)
            least, most = PER_VISIT
            each = max(1 if count <= _FEW else least, min(most, -(-count // max(len(places), 1))))
            before = made
            for place in places:
                for _ in range(min(each, count - made)):
                    example = self._example(place, made)
                    if example is not None:
                        made += 1
                        yield example
                place.__dict__.clear()  # its cached profiles are large
                if made >= count:
                    return
            barren = barren + 1 if made == before else 0

    def _example(self, place: Neighbourhood, number: int) -> Example | None:
        now = _START + timedelta(hours=self._rng.randrange(24 * 365 * 3))
        self._sampler.now = now
        for _ in range(_TRIES):
            scenario = self._scenarios.scenario(place)
            if scenario is None:
                continue
            example = self._worded(scenario, f"{self._source}-{number}", now)
            if example is not None:
                return example
        return None

    def _worded(self, scenario: Scenario, identifier: str, now: datetime) -> Example | None:
        whole, asked = self._said(scenario)
        if self._rng.random() < _SLIPPED:
            whole = typed_in_hurry(whole, self._rng, _lowerable(scenario.uses))
        rendered = render(whole)
        if not 3 <= len(rendered.text) <= MAX_CHARS:
            return None
        nothing = scenario.kind == "nothing"
        calls = () if nothing else labelled_calls(scenario.uses, rendered)
        answer = () if nothing else tuple(Output(call, path) for one in asked for call, path in one.answer)
        example = Example(
            identifier,
            self._source,
            rendered.text,
            self._catalogue.offer([use.entry.api for use in scenario.uses], self._rng, without=nothing),
            calls,
            answer=tuple(sorted(answer, key=lambda o: o.call)),
            now=now,
        )
        try:
            check(example)
        except InvalidExample:
            return None
        return example if nothing or _is_complete(scenario, rendered) else None

    def _said(self, scenario: Scenario) -> tuple[Text, list[PhrasedCall]]:
        rng = self._rng
        if scenario.kind == "nothing" and rng.random() < 0.5:
            return text(unserved_request(rng)), []
        terse = rng.random() < _TERSE
        uses = list(scenario.top_level)
        if not scenario.ordered and rng.random() < 0.3 and not any(use.shared for use in uses):
            rng.shuffle(uses)
        asked = [self._phraser.phrase(use, terse=terse) for use in uses]
        whole = (
            call_sentences(asked[0], rng, polite=not terse)
            if len(asked) == 1
            else joined(asked, rng, ordered=scenario.ordered)
        )
        return (whole if terse else with_context(whole, rng)), asked


def _is_complete(scenario: Scenario, rendered: Rendered) -> bool:
    """Whether everything that was drafted is stated."""
    for use in scenario.uses:
        for name, said in use.said.items():
            for one, calls in said:
                places = [
                    (call, name, item) for call in calls for item in (range(len(one.items)) if one.listed else (-1,))
                ]
                if any(("value", *place) not in rendered.places for place in places):
                    return False
    return True


def _lowerable(uses: Sequence[Use]) -> frozenset[tuple[int, str]]:
    """Calls and parameters whose values may be in lower case: free text."""
    found = set()
    for use in uses:
        for name, said in use.said.items():
            slot = use.slot(name)
            free = (
                meaning_of(slot).sense in ("person", "place", "named", "topic", "text", "message")
                and not slot.patterned
            )
            if free and not slot.choices and not slot.specific:
                found |= {(call, name) for _, calls in said for call in calls}
    return frozenset(found)


def _shuffled(examples: Iterator[Example], seed: int, size: int) -> Iterator[Example]:
    """Shuffle with a buffer of this size."""
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    held: list[Example] = []
    for example in examples:
        if len(held) < size:
            held.append(example)
            continue
        at = rng.randrange(size)
        yield held[at]
        held[at] = example
    rng.shuffle(held)
    yield from held


__all__ = ["plain", "synthesise"]
