"""Which APIs to call: for each part of the request the call that explains it best, and the best division into parts.

A call is worth what it explains of the words, how likely the retriever holds its API, how well its arguments are
filled and whether its answer has what is asked for; steps and missing arguments cost.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner_svc.backends.compact.answer import Answerer, Question, read_question
from planner_svc.backends.compact.chain import Call, Composer, Output, Said
from planner_svc.backends.compact.fit import Fitter
from planner_svc.backends.compact.links import Links
from planner_svc.backends.compact.profile import Effect, Library, Profile
from planner_svc.backends.compact.segments import Segment, weights
from planner_svc.backends.compact.text import split_name, stem
from planner_svc.backends.compact.values import HARD, Span

MAX_SINKS = 14
MAX_VARIANTS = 6

RELEVANCE = 2.5
ANSWER = 1.2
FILLED = 0.5
OWN = 0.6
STEP = 0.25
MISSING = 0.7
PART = 1.0
ACTION = 0.9
TORN = 0.7

_VERBS: dict[Effect, frozenset[str]] = {
    "create": frozenset(
        stem(w)
        for w in [
            "add",
            "append",
            "book",
            "build",
            "buy",
            "create",
            "draft",
            "enter",
            "file",
            "generate",
            "hire",
            "log",
            "make",
            "note",
            "open",
            "order",
            "organise",
            "organize",
            "place",
            "plan",
            "post",
            "produce",
            "put",
            "record",
            "register",
            "remind",
            "reserve",
            "save",
            "schedule",
            "send",
            "set",
            "start",
            "store",
            "submit",
            "subscribe",
            "upload",
            "write",
        ]
    ),
    "change": frozenset(
        stem(w)
        for w in [
            "adjust",
            "change",
            "correct",
            "edit",
            "extend",
            "finish",
            "fix",
            "mark",
            "modify",
            "move",
            "postpone",
            "reassign",
            "rename",
            "replace",
            "reschedule",
            "set",
            "shift",
            "shorten",
            "switch",
            "tick",
            "update",
        ]
    ),
    "destroy": frozenset(
        stem(w)
        for w in [
            "cancel",
            "clear",
            "close",
            "delete",
            "discard",
            "drop",
            "end",
            "erase",
            "remove",
            "revoke",
            "stop",
            "terminate",
            "void",
            "withdraw",
        ]
    ),
}
_ANAPHORA = re.compile(
    r"\b(?:it|its|that|this|there|their|them|they|these|those|his|her|the same|the result)\b", re.IGNORECASE
)
_ASKING = re.compile(
    r"(?:(?:and|then|also|please|kindly|now|first|finally|i\s+(?:want|need|would\s+like)\s+(?:you\s+)?to|i'd\s+like\s+(?:you\s+)?to|"
    r"(?:can|could|would|will)\s+you|let's|let\s+us|go\s+ahead\s+and)\s*,?\s+)*(?P<verb>[a-z]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The calls chosen for one part, the same API with other values where values are coordinated."""

    segment: Segment
    question: Question
    calls: tuple[Call, ...]
    utility: float
    explained: float
    relevance: float

    @property
    def api(self) -> str:
        """The id of the API that answers this part."""
        return self.calls[0].profile.api.id


class Chooser:
    """Chooses calls for the parts of one request.

    Args:
        relevance: for each API id its score for each clause.
        demonstrated: pairs (producer, consumer) and ids that similar demos use.
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
    ) -> None:
        self._library = library
        self._links = links
        self._fitter = fitter
        self._profiles = profiles
        self._relevance = relevance
        self._members = members
        self._demonstrated = demonstrated
        self._preferred = preferred
        self.answerer = Answerer(library)

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
        )
        found = [self._choice(segment, question, profile, composer) for profile in by_relevance[:MAX_SINKS]]
        return sorted(found, key=lambda choice: -choice.utility)

    def relevance(self, profile: Profile, segment: Segment) -> float:
        """The retriever's score of an API, joined with what the part alone means, and what demos add."""
        scores = self._relevance.get(profile.api.id, ())
        clauses = [index for part in self._members[segment.first : segment.last + 1] for index in part]
        own = max((scores[index] for index in clauses if index < len(scores)), default=0.0)
        meaning = max(self._library.similarity(segment.text, profile.text), 0.0)
        return OWN * meaning + (1 - OWN) * own + self._demonstrated.get(profile.api.id, 0.0)

    def _choice(self, segment: Segment, question: Question, profile: Profile, composer: Composer) -> Choice:
        best: Choice | None = None
        for variant in [[list(segment.spans)], *_distributed(segment.spans)]:
            calls = tuple(composer.compose(profile, spans) for spans in variant)
            choice = self._valued(segment, question, profile, calls)
            if len(calls) == 1 and _tears(calls[0]):
                choice = replace(choice, utility=choice.utility - TORN)
            if best is None or choice.utility > best.utility + 0.05:
                best = choice
        assert best is not None
        return best

    def _valued(self, segment: Segment, question: Question, profile: Profile, calls: tuple[Call, ...]) -> Choice:
        gained, total = explained(segment, calls)
        relevance = self.relevance(profile, segment)
        steps = {id(call) for top in calls for call in top.calls()}
        utility = RELEVANCE * relevance + 2 * gained - total - PART
        utility += ANSWER * self.answerer.score(calls[0], question) if profile.effect in ("read", "compute") else 0.5
        if asks_for_action(segment.text):
            named = profile.title & {word.stem for word in segment.words}
            utility += ACTION * (1 + bool(named)) if profile.effect not in ("read", "compute") else 0.0
        utility += FILLED * sum(call.quality for call in calls) / len(calls)
        utility -= STEP * (len(steps) - 1) + MISSING * sum(len(call.missing) for call in calls)
        return Choice(segment, question, calls, utility, gained / total if total else 0.0, relevance)


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


def _distributed(spans: Sequence[Span]) -> list[list[list[Span]]]:
    """For each group of coordinated values: the values with only its first member, with only its second, ..."""
    groups: dict[tuple[str, int], list[Span]] = {}
    for span in spans:
        if span.group and span.kind in HARD and span.kind not in ("number", "duration", "list"):
            groups.setdefault((span.kind, span.group), []).append(span)
    found = []
    for members in groups.values():
        if 2 <= len(members) <= MAX_VARIANTS:
            rest = [s for s in spans if not any(s.overlaps(m) for m in members)]
            found.append([[*rest, replace(member, role=None, weak_role=None)] for member in members])
    return found


def may_call(profile: Profile, text: str) -> bool:
    """Whether the words ask for what the API does. What only reads may always be called.

    A call that changes something needs an imperative for just that ("book", "cancel"), outside quoted text.
    """
    if profile.effect in ("read", "compute"):
        return True
    own = stem((split_name(profile.api.name) or [""])[0])
    return any(verb in _VERBS[profile.effect] or verb == own for verb in _imperatives(text))


def asks_for_action(text: str) -> bool:
    """Whether a part of a request tells to change something."""
    return any(verb in verbs for verb in _imperatives(text) for verbs in _VERBS.values())


def _imperatives(text: str) -> Iterator[str]:
    """Stems of the words that stand where an imperative would."""
    bare = _unquoted(text)
    for match in re.finditer(r"(?:^|[.!?;,]\s+|\band\s+|\bthen\s+)", bare):
        asking = _ASKING.match(bare, match.end())
        if asking is not None:
            yield stem(asking["verb"])


def _unquoted(text: str) -> str:
    return re.sub(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|«[^»]*»|(?<!\w)'[^']*'(?!\w)", lambda m: "Q" * len(m[0]), text)


def look_back(chooser: Chooser, ranked: list[list[Choice]]) -> list[list[Choice]]:
    """The same choices, save that a part which lacks something, or says "it", may use the outputs of those before."""
    done: list[list[Choice]] = []
    given: list[Call] = []
    for choices in ranked:
        first = choices[0]
        if given and (any(call.missing for call in first.calls) or _ANAPHORA.search(first.segment.text)):
            again = chooser.ranked(first.segment, given)
            choices = again if again[0].utility > first.utility else choices
        done.append(choices)
        given += [call for top in choices[0].calls for call in top.calls()]
    return done


def divide(chooser: Chooser, found: Sequence[Segment], parts: int) -> list[list[Choice]]:
    """The division of the request with the highest utility, as ranked choices for each of its segments."""
    by_first: dict[int, list[Segment]] = {}
    for segment in found:
        by_first.setdefault(segment.first, []).append(segment)
    best: dict[int, tuple[float, list[list[Choice]]]] = {parts: (0.0, [])}
    for first in range(parts - 1, -1, -1):
        for segment in by_first.get(first, []):
            ranked = chooser.ranked(segment)
            if not ranked or segment.last + 1 not in best:
                continue
            rest = best[segment.last + 1]
            value = ranked[0].utility + rest[0]
            if first not in best or value > best[first][0]:
                best[first] = (value, [ranked, *rest[1]])
    return best.get(0, (0.0, []))[1]
