"""How well a part of the request fits an argument: the schema is a gate, everything else is a score from 0 to 1."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from pydantic import JsonValue

from planner_svc.reading.choices import named_choices
from planner_svc.reading.dates import UNITS, Duration, Moment
from planner_svc.reading.profile import Library, Profile, Slot
from planner_svc.reading.renderings import renderings
from planner_svc.reading.text import Word, overlap, shape, split_name, stem, stem_set, word_set, words_of
from planner_svc.reading.values import Span

_TEXTUAL = frozenset({"quoted", "code", "name", "phrase", "thing", "email", "url", "phone"})
_LONG_TEXT = word_set("text content message note title body subject comment description memo label")
_BASE = {
    "quoted": 0.55,
    "name": 0.45,
    "phrase": 0.2,
    "thing": 0.4,
    "code": 0.3,
    "email": 0.2,
    "url": 0.25,
    "phone": 0.2,
}
RIVAL = 0.7
KIN = 0.45
_NAMING = stem_set("name query q search title keyword term product item thing")
_KIND_WORDS = {
    "email": frozenset({"email", "mail", "e"}),
    "url": frozenset({"url", "uri", "link", "address", "website", "content", "text"}),
    "phone": frozenset({"phone", "telephone", "mobile", "number", "tel"}),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """A value for an argument and how sure it is."""

    span: Span
    value: JsonValue
    score: float


class Fitter:
    """Scores spans of one request against arguments, and remembers the scores.

    Args:
        library: vectors of texts.
        zone: the zone a time without offset is in.
        profiles: the candidates: what else a text could be.
        given: values the application knows, by argument name.
    """

    def __init__(
        self,
        library: Library,
        zone: tzinfo,
        profiles: Sequence[Profile] = (),
        given: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._given = {"".join(split_name(name)): value for name, value in (given or {}).items()}
        self._library = library
        self._entities = {slot.samples for profile in profiles for slot in profile.slots if slot.samples}
        self._kinships: dict[tuple[str, tuple[str, ...]], float] = {}
        self._zone = zone
        self._known: dict[tuple[int, Span], Fit | None] = {}
        self._named: dict[tuple[int, str, int], list[Fit]] = {}

    def fit(self, profile: Profile, slot: Slot, span: Span) -> Fit | None:
        """The best value the span gives for the argument; None where none is allowed."""
        key = (id(slot), span)
        if key not in self._known:
            self._known[key] = self._fit(profile, slot, span)
        return self._known[key]

    def given(self, profile: Profile, slot: Slot) -> JsonValue:
        """The value the application gave for an argument of this name, if the schema allows it; None for none."""
        value = self._given.get("".join(split_name(slot.name)))
        return None if value is None or profile.schemas.problem(slot.node, value) is not None else value

    def choices(self, slot: Slot, text: str, offset: int) -> list[Fit]:
        """Listed values of the argument that the text names, inflected or not; for a list argument, all in one."""
        key = (id(slot), text, offset)
        if key not in self._named:
            self._named[key] = self._choices(slot, text, offset)
        return self._named[key]

    def _choices(self, slot: Slot, text: str, offset: int) -> list[Fit]:
        if slot.kinds == {"boolean"}:
            return list(_truths(slot, words_of(text, offset)))
        if not slot.choices:
            return []
        found = list(choice_fits(slot, words_of(text, offset), text, offset))
        if slot.kinds == {"array"} and found:
            values = list(dict.fromkeys(str(fit.value) for fit in found))
            listed = [choice for choice in slot.choices if str(choice) in values]
            return [Fit(found[0].span, listed, found[0].score)]
        return found

    def _fit(self, profile: Profile, slot: Slot, span: Span) -> Fit | None:
        if slot.choices:
            return None
        best: Fit | None = None
        for value, base in self._readings(slot, span):
            if profile.schemas.problem(slot.node, value) is not None:
                continue
            base -= 0.14 if span.unit == "part" or (span.kind == "moment" and span.unit == _unfit(profile)) else 0.0
            score = min(max(base + self._context(slot, span) - _named_by_api(profile, span), 0.0), 1.0)
            if best is None or score > best.score:
                best = Fit(span, value, score)
        return best

    def _readings(self, slot: Slot, span: Span) -> Iterator[tuple[JsonValue, float]]:
        """What the span may mean for this argument, each with a score of its kind alone."""
        if slot.children:
            return
        if slot.kinds == {"array"}:
            yield from _as_list(slot, span)
        elif isinstance(span.value, Moment):
            yield from self._moment(slot, span.value)
        elif isinstance(span.value, Duration):
            if slot.kinds & {"integer", "number"} and stem(span.value.unit) in slot.words:
                yield span.value.amount, 0.8
        elif span.kind == "number":
            yield from _numeric(slot, span)
        elif span.kind in _TEXTUAL and "string" in slot.kinds:
            yield from self._textual(slot, span)

    def _moment(self, slot: Slot, moment: Moment) -> Iterator[tuple[JsonValue, float]]:
        if slot.kinds & {"integer", "number"} and moment.day is not None:
            exact = moment.grain
            if "year" in slot.words:
                yield moment.day.year, 0.85 if exact == "year" else 0.7
            if "month" in slot.words and exact in ("month", "day"):
                yield moment.day.month, 0.7
            if "day" in slot.words and exact == "day":
                yield moment.day.day, 0.4
        if "string" in slot.kinds and slot.temporal:
            yield from renderings(moment, self._zone, last=slot.role == "to", paired=slot.role is not None)

    def _textual(self, slot: Slot, span: Span) -> Iterator[tuple[JsonValue, float]]:
        text = str(span.value)
        if (
            span.kind in ("phrase", "thing")
            and " " in text
            and words_of(text)[-1].stem in slot.words
            and not slot.specific
        ):
            yield text.rsplit(" ", 1)[0], 0.7  # "the finance department"
        base = _BASE[span.kind]
        own = _KIND_WORDS.get(span.kind)
        if own is not None:
            base += 0.55 if own & {*slot.words, *slot.about} else 0.0
        if slot.temporal:
            return
        if span.kind in ("phrase", "thing") and not _NAMING & set(slot.words):
            base -= 0.15
        if span.unit == "named" and span.kind in ("phrase", "thing"):
            base = _BASE["thing"] + (0.1 if span.kind == "thing" else 0.0)
        if slot.specific:
            yield text, 0.65 if span.kind not in ("phrase", "thing") else 0.3
            return
        if span.kind == "quoted" and _LONG_TEXT & {*split_name(slot.name)}:
            base += 0.25
        if span.kind == "code" and slot.shapes:
            base += 0.25 if shape(text) in slot.shapes else 0.0
        yield text, base

    def _context(self, slot: Slot, span: Span) -> float:
        """Words around the span, its unit, its end of a pair, its form beside the examples', and its meaning."""
        own = frozenset(slot.words) | slot.about
        score = 0.22 * max(overlap(span.near[:2], frozenset(slot.words)), 0.6 * overlap(span.near[:3], own))
        if span.unit and span.kind == "number":
            score += 0.3 if span.unit in slot.words else 0.2 if span.unit in slot.about else -0.02
        score += _role_score(slot, span)
        if span.kind in _TEXTUAL and slot.shapes and not slot.temporal:
            score += self._form(slot, span)
        if span.kind in ("name", "code", "phrase", "thing", "quoted") and not slot.temporal:
            score += self._meaning(slot, span)
        return score

    def _meaning(self, slot: Slot, span: Span) -> float:
        """Whether the text is one of what the argument is about, rather than of what others are about."""
        text = span.text[:100]
        own = self._kinship(text, slot.samples or (slot.text,))
        other = max((self._kinship(text, samples) for samples in self._entities), default=own)
        rival = RIVAL * max(other - own, 0.0) if span.kind in ("name", "thing", "phrase") else 0.0
        common = span.kind in ("phrase", "thing") and slot.samples and own < KIN
        strange = 0.35 if common and all(sample[:1].isupper() for sample in slot.samples[1:]) else 0.0
        return 0.45 * min(max(own - 0.1, 0.0), 0.6) - rival - strange

    def _kinship(self, text: str, samples: tuple[str, ...]) -> float:
        """How near a text is to the nearest of what an argument names."""
        key = (text, samples)
        if key not in self._kinships:
            self._kinships[key] = max(self._library.similarity(text, sample) for sample in samples)
        return self._kinships[key]

    def _form(self, slot: Slot, span: Span) -> float:
        """Whether the text looks like the argument's examples. Free text need not."""
        if shape(str(span.value)) in slot.shapes:
            return 0.15 if span.kind == "code" else 0.0
        if all("9" in example for example in slot.shapes) and not any(c.isdigit() for c in str(span.value)):
            return -0.35
        if span.kind in ("phrase", "thing"):
            return 0.0
        if span.kind in ("name", "code") and not slot.patterned and all(example.islower() for example in slot.shapes):
            return -0.2
        if span.kind == "code" and not slot.patterned and all(set(example) <= set("Aa ") for example in slot.shapes):
            return -0.2
        signs = {c for example in slot.shapes for c in example if not c.isalnum() and c not in " '"}
        return -0.35 if slot.patterned and signs and not signs & set(str(span.value)) else 0.0


def _unfit(profile: Profile) -> str:
    """What an API does not want of "3 weeks after 1 May": the sum where it adds itself, else the term."""
    units = {stem(unit) for unit in UNITS}
    adds = any(slot.kinds & {"integer", "number"} and units & set(slot.words[:1]) for slot in profile.slots)
    return "sum" if adds else "term"


def _named_by_api(profile: Profile, span: Span) -> float:
    """Words that the API itself is described by name what is asked for, not a value."""
    if span.kind != "phrase":
        return 0.0
    return 0.5 * overlap((word.stem for word in words_of(span.text)), profile.vocabulary)


def _role_score(slot: Slot, span: Span) -> float:
    if slot.role is None:
        return 0.0
    if span.role is not None:
        return 0.15 if span.role == slot.role else -0.4
    if span.weak_role is not None:
        return 0.1 if span.weak_role == slot.role else -0.15
    return 0.0


def _as_list(slot: Slot, span: Span) -> Iterator[tuple[JsonValue, float]]:
    if span.kind == "list":
        yield list(span.value), 0.9 if slot.specific else 0.6  # type: ignore[arg-type]
    elif span.kind in ("quoted", "code"):
        yield [span.value], 0.65 if slot.specific else 0.4  # type: ignore[list-item]
    elif span.kind == "number":
        yield [span.value], 0.2  # type: ignore[list-item]


def _numeric(slot: Slot, span: Span) -> Iterator[tuple[JsonValue, float]]:
    if slot.kinds & {"integer", "number"}:
        value = span.value
        if isinstance(value, float) and value.is_integer() and "number" not in slot.kinds:
            value = int(value)
        yield value, 0.1 if slot.paging else 0.5  # type: ignore[misc]
    elif "string" in slot.kinds and slot.specific:
        yield span.text.lstrip("+"), 0.55


def _truths(slot: Slot, words: list[Word]) -> Iterator[Fit]:
    """A boolean argument is true where its name is said, and false where it is denied."""
    name = [word for word in slot.words if word not in _IS]
    for index, word in enumerate(words):
        if name != [w.stem for w in words[index : index + len(name)]] or not name:
            continue
        before = {w.text.lower() for w in words[max(index - 3, 0) : index]}
        value = not any(w in _DENIALS or w.endswith("n't") for w in before)
        span = Span("code", word.start, words[index + len(name) - 1].end, word.text, value)
        yield Fit(span, value, 0.65)


_IS = stem_set("is has only include with")
_DENIALS = word_set("not no un without never nothing")


def choice_fits(slot: Slot, words: Sequence[Word], text: str, offset: int) -> Iterator[Fit]:
    """Fits of the choices that the words name; the surer the more speaks for this very argument."""
    for named in named_choices(slot, words):
        near = tuple(w.stem for w in named.near)
        span = Span(
            "code",
            named.start,
            named.end,
            text[named.start - offset : named.end - offset],
            named.value,
            near=near,
            weak_role=named.role,
        )
        score = 0.6 if slot.required else 0.5
        score += 0.1 if named.role is not None else 0.0
        score += 0.3 * overlap(near, frozenset(slot.words)) + _role_score(slot, span)
        yield Fit(span, named.value, min(score, 1.0))
