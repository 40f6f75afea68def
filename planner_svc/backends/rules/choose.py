"""Which APIs to call: for each part of the request the call that explains it best, and the best division into parts.

A call is worth what it explains of the words, how likely the retriever holds its API, how well its arguments are
filled and whether its answer has what is asked for; steps and missing arguments cost.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from planner_svc.backends.rules.chain import Call, Composer, Output, Said
from planner_svc.backends.rules.fit import Fitter
from planner_svc.backends.rules.links import Links
from planner_svc.backends.rules.segments import Segment, weights
from planner_svc.backends.rules.spread import spread
from planner_svc.evidence import NOTHING, Tried
from planner_svc.reading.actions import asks_for_action, may_call
from planner_svc.reading.answers import Answerer, Question, read_question
from planner_svc.reading.profile import Library, Profile
from planner_svc.reading.text import stems
from planner_svc.reading.values import HARD, Span

MAX_SINKS = 14
CONFIRMS = 0.7
"""How well the answer of a call that changes something fits: it says what was done."""

_ANAPHORA = re.compile(
    r"\b(?:it|its|that|this|there|their|them|they|these|those|his|her|the same|the result)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for a call, and against it. All of them add up over the parts of a request.

    Attributes:
        meaning: Cosine of the part and what the API says of itself.
        retrieved: The retriever's score for the part.
        explained: Weight of the words that the calls explain.
        answers: How well a field of the answer fits what is asked for.
        acts: Whether a change is asked for and made, or neither.
        steps: Calls besides the one that answers.
        missing: Share of the required arguments that have no value.
        torn: Whether values joined by "and" went into arguments that are no pair.
        parts: 1: dividing a request has its price, too.
    """

    meaning: float
    retrieved: float
    explained: float
    answers: float
    acts: float
    steps: float
    missing: float
    torn: float
    parts: float = 1.0


WEIGHTS = Signals(
    meaning=7.0, retrieved=2.4, explained=4.5, answers=5.5, acts=2.0, steps=-2.2, missing=-5.2, torn=-1.6, parts=-8.2
)
"""How much each signal counts.

Fitted to the development questions: the likelihood of the divisions into parts that call the right APIs among all
divisions (a semi-Markov conditional random field: Sarawagi & Cohen, 2004), with a Gaussian prior. ``retrieved`` was
lowered from 3.4 on the same questions when the retriever's encoder was trained: its scores are higher since.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The calls chosen for one part, the same API with other values where values are coordinated."""

    segment: Segment
    question: Question
    calls: tuple[Call, ...]
    signals: Signals
    utility: float
    explained: float

    @property
    def api(self) -> str:
        """The id of the API that answers this part."""
        return self.calls[0].profile.api.id


class Chooser:
    """Chooses calls for the parts of one request.

    Args:
        relevance: for each API id its score for each clause.
        demonstrated: pairs (producer, consumer) and ids that similar demos use.
        tried: calls that are not made again.
    """

    def __init__(
        self,
        library: Library,
        links: Links,
        fitter: Fitter,
        profiles: Sequence[Profile],
        relevance: Mapping[str, Sequence[float]],
        members: Sequence[Sequence[int]],
        demonstrated: Mapping[str, float],
        preferred: frozenset[tuple[str, str]],
        tried: Tried = NOTHING,
    ) -> None:
        self._library = library
        self._links = links
        self._fitter = fitter
        self._profiles = profiles
        self._relevance = relevance
        self._members = members
        self._demonstrated = demonstrated
        self._preferred = preferred
        self._tried = tried
        self.answerer = Answerer(lambda asked, field: library.similarity(asked, field.text))

    def ranked(self, segment: Segment, given: Sequence[Call] = ()) -> list[Choice]:
        """The choices for one segment, best first."""
        hard = [span for span in segment.spans if span.kind in HARD and span.kind != "thing"]
        asking = [w for w in segment.words if not any(s.start < w.end and w.start < s.end for s in hard)]
        question = read_question(segment.text, asking, segment.start)
        allowed = [p for p in self._profiles if may_call(p, segment.text)]
        by_relevance = sorted(allowed, key=lambda p: -self.relevance(p, segment))
        composer = Composer(
            self._fitter,
            self._links,
            self._profiles,
            segment.text,
            segment.start,
            segment.words,
            given,
            self._preferred,
            self._tried,
        )
        found = [
            max(self.variants(segment, question, profile, composer), key=lambda choice: choice.utility)
            for profile in by_relevance[:MAX_SINKS]
        ]
        found = [choice for choice in found if not self._was_tried(choice)]
        return sorted(found, key=lambda choice: -choice.utility)

    def _was_tried(self, choice: Choice) -> bool:
        calls = choice.calls if self._tried else ()
        return any(self._tried.call(call.profile.api.id, call.written()) is not None for call in calls)

    def relevance(self, profile: Profile, segment: Segment) -> float:
        """How near an API is to the part, for choosing which ones to look at."""
        return self._meaning(profile, segment) + self._retrieved(profile, segment)

    def _meaning(self, profile: Profile, segment: Segment) -> float:
        return max(self._library.similarity(segment.text, profile.text), 0.0)

    def _retrieved(self, profile: Profile, segment: Segment) -> float:
        """The retriever's best score for the part's clauses, and what similar demos add."""
        scores = self._relevance.get(profile.api.id, ())
        clauses = [index for part in self._members[segment.first : segment.last + 1] for index in part]
        own = max((scores[index] for index in clauses if index < len(scores)), default=0.0)
        return own + self._demonstrated.get(profile.api.id, 0.0)

    def variants(self, segment: Segment, question: Question, profile: Profile, composer: Composer) -> Iterator[Choice]:
        """The call, and where values are coordinated also a call for each of them."""
        spans = [span for span in segment.spans if not _names_the_api(profile, span)]
        single = composer.compose(profile, spans)
        yield self._valued(segment, question, (single,), composer.given)
        for rows in spread(spans, single.used):
            calls = tuple(composer.compose(profile, row, _left_out(spans, row)) for row in rows)
            yield self._valued(segment, question, calls, composer.given)

    def _valued(self, segment: Segment, question: Question, calls: tuple[Call, ...], given: Sequence[Call]) -> Choice:
        gained, total = explained(segment, calls)
        signals = self._signals(segment, question, calls, gained, given)
        return Choice(segment, question, calls, signals, _utility(signals), gained / total if total else 0.0)

    def _signals(
        self, segment: Segment, question: Question, calls: tuple[Call, ...], gained: float, given: Sequence[Call]
    ) -> Signals:
        profile = calls[0].profile
        reads = profile.effect in ("read", "compute")
        steps = {id(call): call for top in calls for call in top.calls() if call not in given}
        return Signals(
            meaning=self._meaning(profile, segment),
            retrieved=self._retrieved(profile, segment),
            explained=gained,
            answers=self.answerer.score(calls[0].profile, calls[0].places, question) if reads else CONFIRMS,
            acts=float(asks_for_action(segment.text) != reads),
            steps=len(steps) - 1,
            missing=max(_missing_share(call) for call in calls),
            torn=len(calls) == 1 and _tears(calls[0]),
        )


def _missing_share(call: Call) -> float:
    return len(call.missing) / max(sum(slot.required for slot in call.profile.slots), 1)


def _names_the_api(profile: Profile, span: Span) -> bool:
    """Whether a phrase says what is asked of the API: then it is no value for it, or for those that feed it."""
    return span.kind == "phrase" and profile.vocabulary.issuperset(stems(span.text))


def _utility(signals: Signals) -> float:
    return sum(float(v) * float(w) for v, w in zip(astuple(signals), astuple(WEIGHTS), strict=True))


def explained(segment: Segment, calls: Sequence[Call]) -> tuple[float, float]:
    """The weight of the words that the calls explain, and of all words."""
    used = [span for call in calls for span in call.used]
    held = {
        id(a.span): a.score for top in calls for c in top.calls() for a in c.arguments.values() if isinstance(a, Said)
    }
    profiles = {id(c.profile): c.profile for call in calls for c in call.calls()}.values()
    outputs = {
        word
        for call in calls
        for c in call.calls()
        for a in c.arguments.values()
        if isinstance(a, Output)
        for word in a.field.words
    }
    sink = calls[0].profile
    gained = total = known_part = 0.0
    for part in weights(segment):
        total += part.weight
        touching = [s for s in _disjoint(used) if s.start < part.end and part.start < s.end]
        covered = sum(min(s.end, part.end) - max(s.start, part.start) for s in touching)
        share = min(covered / (part.end - part.start), 1.0)
        if any(s.kind in ("thing", "phrase") for s in touching):  # a noun in a loose slot explains little
            share *= min(max(held.get(id(s), 0.5) for s in touching) / 0.6, 1.0)
        if part.stem and not share:
            known = (
                1.0 if part.stem in sink.title else 0.8 if part.stem in sink.vocabulary or part.stem in outputs else 0.0
            )
            share = max(known, 0.6 * any(part.stem in p.title for p in profiles))
        gained += part.weight * share
        known_part += 0.0 if any(s.kind == "thing" for s in touching) else share
    return (gained if known_part else 0.0), total  # words that no API knows are no request by themselves


def _tears(call: Call) -> bool:
    """Whether values joined by "and" went into arguments that are no pair."""
    places: dict[int, set[str]] = {}
    for part in call.calls():
        for slot in part.profile.slots:
            held = part.arguments.get(slot.name)
            span = held.span if isinstance(held, Said) else None
            if span is not None and span.group and span.kind in ("name", "code", "quoted") and slot.role is None:
                places.setdefault(span.group, set()).add(f"{part.profile.api.id} {slot.name}")
    return any(len(found) > 1 for found in places.values())


def _disjoint(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(spans, key=lambda s: s.start - s.end):
        if not any(span.overlaps(other) for other in kept):
            kept.append(span)
    return kept


def _left_out(spans: Sequence[Span], row: Sequence[Span]) -> list[Span]:
    """What stands in the part but in no value of a row."""
    return [span for span in spans if not any(span.overlaps(other) for other in row)]


def divide(chooser: Chooser, found: Sequence[Segment], parts: int) -> list[list[Choice]]:
    """The division of the request with the highest utility, as ranked choices for each of its segments."""
    best: dict[int, tuple[float, list[list[Choice]]]] = {0: (0.0, [])}
    for segment in sorted(found, key=lambda segment: (segment.first, segment.last)):
        if segment.first not in best:
            continue
        value, before = best[segment.first]
        ranked = _looking_back(chooser, segment, before)
        value += ranked[0].utility if ranked else 0.0
        if ranked and (segment.last + 1 not in best or value > best[segment.last + 1][0]):
            best[segment.last + 1] = (value, [*before, ranked])
    return best.get(parts, (0.0, []))[1]


def _looking_back(chooser: Chooser, segment: Segment, before: Sequence[list[Choice]]) -> list[Choice]:
    """The choices for a segment: one that lacks something, or says "it", may use the outputs of those before."""
    ranked = chooser.ranked(segment)
    given = [call for choices in before for top in choices[0].calls for call in top.calls()]
    if not given or not ranked:
        return ranked
    if not (any(call.missing for call in ranked[0].calls) or _ANAPHORA.search(segment.text)):
        return ranked
    again = chooser.ranked(segment, given)
    return again if again and again[0].utility > ranked[0].utility else ranked
