"""From an API to a call: arguments from the request, and calls of other APIs for those nobody says (backward chaining).

``Composer`` works on one part of one request. Values go where they fit best; a required argument that no value fits is
fed by another API whose own arguments can be filled from the values left over; an optional one is said, and is fed only
where the call would otherwise be told nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from planner_svc.backends.rules.fit import Fit, Fitter
from planner_svc.backends.rules.links import GENERIC, Link, Links
from planner_svc.backends.rules.objects import build
from planner_svc.backends.rules.segments import with_roles
from planner_svc.evidence import NOTHING, Tried
from planner_svc.reading.dates import Moment
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import Word, stem, stem_set, stems
from planner_svc.reading.values import HARD, Role, Span
from services.compute import checkpoint
from services.contracts.evidence import bounded, written_call, written_literal, written_path

MAX_DEPTH = 4
STRONG = 0.55
FREE_TEXT = 0.4
WEAK = 0.34
OPTIONAL = 0.6
LEFTOVER = 0.45
_SEARCHED = stem_set("name query q search text title keyword term")
DETOUR = 0.1
MAX_PRODUCERS = 8
MAX_DERIVED = 60


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """An argument's value as the request says it."""

    value: JsonValue
    span: Span | None
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """An argument's value as another call's output."""

    call: "Call"
    field: Field
    score: float


@dataclass(slots=True, eq=False)
class Call:
    """A call of an API with its arguments, and what of the request it uses, its producers' share included."""

    profile: Profile
    arguments: dict[str, Said | Output] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    used: list[Span] = field(default_factory=list)

    def calls(self) -> list["Call"]:
        """The call after all those it needs, each once."""
        found: list[Call] = []
        for argument in self.arguments.values():
            if isinstance(argument, Output):
                found += [call for call in argument.call.calls() if call not in found]
        return [*found, self]

    def written(self) -> dict[str, str]:
        """Its arguments as texts (:mod:`services.contracts.evidence`)."""
        return {name: written_argument(argument) for name, argument in self.arguments.items()}

    @property
    def places(self) -> list[tuple[int, int]]:
        """The characters that it uses."""
        return [(span.start, span.end) for span in self.used]

    @property
    def quality(self) -> float:
        """Mean score of the required arguments, 0 for each missing one; 1 where none is required."""
        needed = [slot.name for slot in self.profile.slots if slot.required]
        scores = [self.arguments[name].score if name in self.arguments else 0.0 for name in needed]
        return sum(scores) / len(scores) if scores else 1.0


def written_argument(argument: Said | Output) -> str:
    """An argument as text."""
    if isinstance(argument, Said):
        return written_literal(argument.value)
    call = written_call(argument.call.profile.api.id, argument.call.written())
    return bounded(call + written_path(argument.field.path))


class Composer:
    """Composes calls for one part of a request.

    Args:
        fitter: scores values.
        links: scores outputs.
        profiles: the candidates.
        text: that part of the request; ``offset`` is where it begins.
        words: its words.
        given: calls composed for earlier parts, whose outputs may be used.
        preferred: pairs (producer id, consumer id) that similar demos show.
        tried: calls that are not made again, and answers that are not used again where they did not do.
    """

    def __init__(
        self,
        fitter: Fitter,
        links: Links,
        profiles: Sequence[Profile],
        text: str,
        offset: int,
        words: Sequence[Word],
        given: Sequence[Call] = (),
        preferred: frozenset[tuple[str, str]] = frozenset(),
        tried: Tried = NOTHING,
    ) -> None:
        self._fitter = fitter
        self._links = links
        self._producers = [profile for profile in profiles if profile.effect == "read" and profile.fields]
        self._text = text
        self._offset = offset
        self._stems = frozenset(word.stem for word in words)
        self.given = list(given)
        self._preferred = preferred
        self._tried = tried
        self._budget = 0
        self._feeders: dict[tuple[str, str], list[tuple[Profile, Link]]] = {}
        self._without: Sequence[Span] = ()
        self._known: dict[tuple[str, tuple[int, ...], int, Role | None], tuple[list[Span], Call]] = {}

    def compose(self, profile: Profile, spans: Sequence[Span], without: Sequence[Span] = ()) -> Call:
        """The best call of the API from these values; what stands at those it is ``without`` is another call's."""
        self._budget = MAX_DERIVED
        if without != self._without:
            self._known = {}
        self._without = without
        spans = with_roles(" " * self._offset + self._text, spans) if without else spans
        return self._derive(profile, list(spans), 0, frozenset({profile.api.id}), None)

    def _derive(
        self, profile: Profile, free: list[Span], depth: int, banned: frozenset[str], role: Role | None
    ) -> Call:
        checkpoint()
        self._budget -= 1
        call = Call(profile)
        fits = self._fits(profile, free)
        self._build(call, free)
        self._take(call, fits, STRONG, OPTIONAL)
        _complete_ranges(call, self._fitter)
        self._take_given(call)
        made: list[tuple[Role | None, Call]] = []
        if depth < MAX_DEPTH and self._budget > 0:
            self._produce(call, free, fits, depth, banned, made)
        self._take(call, fits, WEAK, 2.0)
        if depth == 0:
            self._use_leftovers(call, fits)
            if not call.arguments:
                self._feed_optional(call, free, banned)
        _infer_units(call)
        call.missing = [slot.name for slot in profile.slots if slot.required and slot.name not in call.arguments]
        return call

    def _fits(self, profile: Profile, free: Sequence[Span]) -> list[tuple[Slot, Fit]]:
        """Every pair of argument and value, best first; ties go by the order of both."""
        found: list[tuple[float, int, int, Slot, Fit]] = []
        for order, slot in enumerate(profile.slots):
            fits = [fit for span in free if (fit := self._fitter.fit(profile, slot, span))]
            named = self._fitter.choices(slot, self._text, self._offset)
            named = [fit for fit in named if slot.required or not self._asks_for(profile, fit)]
            fits += [fit for fit in named if not any(fit.span.overlaps(span) for span in self._without)]
            found += [(-fit.score, fit.span.start, order, slot, fit) for fit in fits]
        return [(slot, fit) for _, _, _, slot, fit in sorted(found, key=lambda entry: entry[:3])]

    def _asks_for(self, profile: Profile, fit: Fit) -> bool:
        """Whether a listed value names what is asked for ("the price") rather than what is chosen ("by price")."""
        before = self._text[: max(fit.span.start - self._offset, 0)].rstrip().lower()
        fields = {field.words for field in profile.fields}
        return tuple(stems(str(fit.value))) in fields and not before.endswith("by")

    def _take(self, call: Call, fits: Iterable[tuple[Slot, Fit]], required: float, optional: float) -> None:
        """Fill open arguments with the best values that are left, each used once."""
        searches = not any(slot.required for slot in call.profile.slots)
        for slot, fit in fits:
            easy = _is_free(slot) or fit.span.kind == "number"
            needed = min(required, FREE_TEXT) if easy else required
            if not slot.required:
                needed = FREE_TEXT if searches and _SEARCHED & set(slot.words) else optional
            enough = fit.score >= needed
            enough = enough and not _is_twin(call, slot, fit)
            if enough and slot.name not in call.arguments and not any(fit.span.overlaps(s) for s in call.used):
                call.arguments[slot.name] = Said(fit.value, fit.span, fit.score)
                call.used.append(fit.span)

    def _build(self, call: Call, free: Sequence[Span]) -> None:
        """Fill arguments that are objects, or lists of them."""
        for slot in call.profile.slots:
            left = [span for span in free if not any(span.overlaps(used) for used in call.used)]
            built = build(self._fitter, call.profile, slot, left) if slot.children else None
            if built is not None:
                call.arguments[slot.name] = Said(built.value, built.used[0], built.score)
                call.used += built.used

    def _take_given(self, call: Call) -> None:
        """What the application knows fills what the request leaves open; where the user is, only what is required."""
        for slot in call.profile.slots:
            value = None if slot.name in call.arguments else self._fitter.given(call.profile, slot)
            if value is not None and (slot.required or slot.name.lower() not in ("timezone", "locale")):
                call.arguments[slot.name] = Said(value, None, 0.9)

    def _produce(
        self,
        call: Call,
        free: list[Span],
        fits: Sequence[tuple[Slot, Fit]],
        depth: int,
        banned: frozenset[str],
        made: list[tuple[Role | None, Call]],
    ) -> None:
        """Feed required arguments that are still open from other calls; both ends of a pair get calls of their own."""
        for slot in call.profile.slots:
            said = any(s is slot and _is_free(s) and fit.score >= WEAK for s, fit in fits)
            if not slot.required or slot.name in call.arguments or said:
                continue
            output = self._from_made(call, slot, made) or self._from_new(call, slot, free, depth, banned)
            if output is not None:
                self._feed(call, slot, output, made)

    def _feed(self, call: Call, slot: Slot, output: Output, made: list[tuple[Role | None, Call]]) -> None:
        call.arguments[slot.name] = output
        if all(output.call is not other for _, other in made):
            made.append((slot.role, output.call))
            call.used += [span for span in output.call.used if span not in call.used]

    def _from_made(self, call: Call, slot: Slot, made: Sequence[tuple[Role | None, Call]]) -> Output | None:
        """An output of a call that is there already: one of this call's producers, or of an earlier part's."""
        best: Output | None = None
        for role, other in made:
            if slot.role is not None and role is not None and role != slot.role:
                continue
            if slot.role == "to" and role is None:
                continue
            for link in self._links.between(other.profile, call.profile, slot):
                score = link.score + self._mentioned(link)
                if best is None or score > best.score:
                    best = Output(other, link.field, min(score, 1.0))
        return best

    def _from_new(self, call: Call, slot: Slot, free: list[Span], depth: int, banned: frozenset[str]) -> Output | None:
        """The best output of a new call whose own arguments can all be filled from values not used yet."""
        left = [span for span in free if not any(span.overlaps(used) for used in call.used)]
        left = _for_role(left, slot.role)
        best: Output | None = None
        for producer, link in self._candidates(call.profile, slot, banned):
            strength = min(link.score + self._mentioned(link), 1.0)
            if _is_free(slot) and strength < STRONG:
                continue
            if best is not None and strength < best.score - 0.15:
                break
            made = self._derived(producer, left, depth + 1, banned, slot.role)
            if made.missing or not made.used or made.quality < WEAK or _echoes(made, link.field):
                continue
            if self._tried and self._in_vain(call.profile, slot, Output(made, link.field, 0.0)):
                continue
            score = (
                strength * (0.2 + 0.8 * _grip(made))
                - DETOUR * (len(made.calls()) - 1)
                + 0.12 * len([s for s in made.used if s.kind in HARD])
            )
            if (producer.api.id, call.profile.api.id) in self._preferred:
                score += 0.1
            if best is None or score > best.score:
                best = Output(made, link.field, score)
        given = self._from_given(call, slot)
        if best is None or (given is not None and any(part in self.given for part in best.call.calls())):
            return given  # what an earlier call answers needs no call that looks it up again
        return best

    def _in_vain(self, consumer: Profile, slot: Slot, output: Output) -> bool:
        """Whether the call that answers with it was made already, or its answer was of no use there."""
        made = output.call
        return self._tried.call(made.profile.api.id, made.written()) is not None or self._tried.fed(
            consumer.api.id, slot.name, written_argument(output)
        )

    def _derived(
        self, producer: Profile, free: list[Span], depth: int, banned: frozenset[str], role: Role | None
    ) -> Call:
        """A producer's call, derived once for all that may need it."""
        key = (producer.api.id, tuple(map(id, free)), depth, role)
        _, known = self._known.get(key, (free, None))
        if known is None or any(call.profile.api.id in banned for call in known.calls()):
            known = self._derive(producer, free, depth, banned | {producer.api.id}, role)
            if self._budget > 0:  # otherwise it may lack what there was no time for
                self._known[key] = (free, known)  # with the spans, so that their ids stay theirs
        return known

    def _candidates(self, consumer: Profile, slot: Slot, banned: frozenset[str]) -> list[tuple[Profile, Link]]:
        """The producers whose best output fits the argument best; ranked once, asked for again and again."""
        key = (consumer.api.id, slot.name)
        if key not in self._feeders:
            found = [
                (producer, link)
                for producer in self._producers
                for link in self._best(self._links.between(producer, consumer, slot))
            ]
            self._feeders[key] = sorted(found, key=lambda pair: -(pair[1].score + self._mentioned(pair[1])))
        return [pair for pair in self._feeders[key] if pair[0].api.id not in banned][:MAX_PRODUCERS]

    def _best(self, links: Sequence[Link]) -> list[Link]:
        return sorted(links, key=lambda link: -(link.score + self._mentioned(link)))[:1]

    def _from_given(self, call: Call, slot: Slot) -> Output | None:
        """An output of an earlier part's call: what "it" and "there" stand for."""
        best: Output | None = None
        for other in reversed(self.given):
            for link in self._links.between(other.profile, call.profile, slot):
                if best is None or link.score > best.score + 0.05:
                    best = Output(other, link.field, link.score * 0.8)
        return best

    def _mentioned(self, link: Link) -> float:
        """More where the request names the field ("how heavy" for a weight)."""
        return 0.35 if (self._stems - GENERIC) & set(link.field.words) else 0.0

    def _use_leftovers(self, call: Call, fits: Sequence[tuple[Slot, Fit]]) -> None:
        """Give optional arguments the values that nothing has used so far."""
        said = [
            (slot, fit)
            for slot, fit in fits
            if fit.span.kind in HARD and (fit.score >= 0.55 or slot.choices or slot.kinds != {"string"})
        ]
        self._take(call, said, WEAK, LEFTOVER)

    def _feed_optional(self, call: Call, free: list[Span], banned: frozenset[str]) -> None:
        """A call that nothing was said to may still get a date or a code that other calls make of what was said."""
        for slot in call.profile.slots:
            fed = slot.temporal or slot.specific
            if slot.paging or not fed or slot.kinds != {"string"} or call.arguments or self._budget <= 0:
                continue
            output = self._from_new(call, slot, free, 1, banned)
            if output is not None and output.call.used:
                self._feed(call, slot, output, [])


def _is_free(slot: Slot) -> bool:
    """Whether any text will do: names and texts are said, not looked up."""
    return "string" in slot.kinds and not (slot.specific or slot.patterned or slot.choices or slot.temporal)


def _echoes(call: Call, field: Field) -> bool:
    """Whether an output is but the one value the call was given, or the default of one it was not given."""
    said = [name for name, argument in call.arguments.items() if isinstance(argument, Said)]
    if field.name in said and len(call.arguments) == 1:
        return True
    slot = next((slot for slot in call.profile.slots if slot.name == field.name), None)
    return slot is not None and slot.name not in call.arguments and "default" in slot.parameter.json_schema


def _grip(call: Call) -> float:
    """How firmly a producer and those before it hold values of the request: by the weakest."""
    said = [a.score for c in call.calls() for a in c.arguments.values() if isinstance(a, Said) and a.span is not None]
    return min(said, default=0.0)


def _for_role(spans: list[Span], role: Role | None) -> list[Span]:
    """Without the values that are said to be the pair's other end."""
    if role is None:
        return spans
    return [span for span in spans if (span.role or span.weak_role or role) == role]


def _is_twin(call: Call, slot: Slot, fit: Fit) -> bool:
    """Whether the other end of the pair is the same text already: nobody converts a currency into itself."""
    if slot.role is None or not isinstance(fit.value, str):
        return False
    others = [s for s in call.profile.slots if s.role not in (None, slot.role)]
    return any(isinstance(a, Said) and a.value == fit.value for s in others if (a := call.arguments.get(s.name)))


def _complete_ranges(call: Call, fitter: Fitter) -> None:
    """A month or a year that fills one end of a range fills the other end, too."""
    for slot in call.profile.slots:
        held = call.arguments.get(slot.name)
        span = held.span if isinstance(held, Said) else None
        if slot.role is None or span is None or span.role is not None or not isinstance(span.value, Moment):
            continue
        for other in call.profile.slots:
            fit = fitter.fit(call.profile, other, span) if other.temporal and other.name not in call.arguments else None
            if fit is not None and other.required and {slot.role, other.role} == {"from", "to"} and span.value.last:
                call.arguments[other.name] = Said(fit.value, span, fit.score)


def _infer_units(call: Call) -> None:
    """A unit that nobody says may stand in the name of the field the value comes from (``weight_grams``)."""
    named = {word for a in call.arguments.values() if isinstance(a, Output) for word in a.field.words}
    for slot in call.profile.slots:
        if slot.required and slot.choices and slot.role != "to" and named:
            unit = next((choice for choice in slot.choices if isinstance(choice, str) and stem(choice) in named), None)
            held = call.arguments.get(slot.name)
            if unit is not None and (held is None or isinstance(held, Output)):
                call.arguments[slot.name] = Said(unit, None, 0.7)
