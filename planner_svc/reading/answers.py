"""What a question asks for, and which fields of an answer say it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from planner_svc.reading import weights
from planner_svc.reading.profile import Field, Profile
from planner_svc.reading.text import STOP, Word, overlap, stem, stem_set
from services.contracts.base import JsonPath

Place = tuple[int, int]
"""Characters of a request, start and end."""
Asks = Literal["when", "time", "number", "truth", "where", "who", "thing"]

MAX_FIELDS = 4
MAX_CONFIRMED = 12
_COMPUTED = re.compile(r"\b(?:calculated|computed|converted|moved|new|resulting|shifted)\b", re.IGNORECASE)
_CODES = stem_set("code id identifier number key symbol")
_IDS = stem_set("id ids identifier uuid guid reference token key href url uri")

_TRUTH = re.compile(
    r"\s*(?:and\s+|so\s+)?(?:is|are|was|were|does|do|did|has|have|can|will|should|would)\b", re.IGNORECASE
)
_TRUTH_INSIDE = re.compile(
    r"^\s*(?:please\s+)?(?:check|validate|verify)\b|\b(?:whether|(?:check|tell me|know|see)\s+if|valid)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\bhow\s+(?:many|much|long|far|high|tall|deep|heavy|old|big|large|fast|wide|often)\b|\bnumber of\b", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:what|which)\s+(?:is\s+the\s+)?(?:local\s+)?time\b|\bwhat's the (?:local )?time\b", re.IGNORECASE
)
_WHEN = re.compile(r"\bwhen\b|\b(?:what|which|on which)\s+(?:date|day)\b|\bwhat date\b", re.IGNORECASE)
_FOCUS = re.compile(
    r"\b(?:which|what|whose|how\s+(?:many|much)|what's|what\s+(?:is|are|was|were|will\s+be))\s+(?:the\s+)?"
    r"(?=(?P<words>(?:[a-z][\w'-]*\s*){1,4}))",
    re.IGNORECASE,
)
_HEADED = re.compile(
    r"^\W*(?:and\s+)?(?:please\s+)?(?:(?:find|get|give me|tell me|name|show me|look up)\s+)?(?:the\s+)?"
    r"(?=(?P<words>(?:[a-z][\w'-]*\s+){1,4})(?:of|for)\b)",
    re.IGNORECASE,
)
"""What a fragment is about: "airport codes of Oslo"."""
_MENTIONED = re.compile(
    r"\b(?:the|an?|me|its?|their|his|her|in|and|need|count)\s+(?:the\s+)?(?=(?P<words>(?:[a-z][\w'-]*\s*){1,4}))",
    re.IGNORECASE,
)
MEASURES = {
    how: {stem(word) for word in words.split()}
    for how, words in {
        "long": "duration minutes hours length",
        "far": "distance",
        "high": "height elevation altitude",
        "tall": "height",
        "deep": "depth",
        "heavy": "weight mass",
        "old": "age",
        "big": "size area population",
        "large": "size area population",
        "fast": "speed",
        "wide": "width",
        "often": "frequency",
        "much": "price amount cost result",
    }.items()
}
"""What "how long" and its like ask for, as fields are named."""
_HOW = re.compile(rf"\bhow\s+({'|'.join(MEASURES)})\b", re.IGNORECASE)
_TEMPORAL = stem_set("date day time at weekday")
_PLACES = stem_set("city country address location latitude longitude place")
_PLURAL = re.compile(
    r"\b(?:list|all|which|what(?:\s+are)?|every|show|the|any)\s+(?:[a-z-]+\s+){0,3}[a-z-]+(?<![sui])s\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Question:
    """What one part of a request asks for.

    Attributes:
        asks: The kind of value.
        focus: Stems right after the question word or an article: likely the name of what is wanted.
        stems: All its content stems.
        plural: Whether more than one of a thing is wanted.
        text: Its words, for comparing meanings.
        start: Where the text begins in the request.
    """

    asks: Asks
    focus: frozenset[str]
    stems: frozenset[str]
    plural: bool
    text: str
    start: int


def read_question(text: str, words: Sequence[Word], start: int = 0) -> Question:
    """Read what a part of a request asks for."""
    content = [word for word in words if word.text.lower() not in STOP]
    by_text = {word.text.lower(): word.stem for word in content}
    focus = _after(_FOCUS, text, by_text) or _after(_HEADED, text, by_text) or _after(_MENTIONED, text, by_text)
    focus |= _compounds(content, focus)
    for match in _HOW.finditer(text):
        focus |= MEASURES[match[1].lower()]
    return Question(
        _asks(text), frozenset(focus), frozenset(w.stem for w in content), bool(_PLURAL.search(text)), text, start
    )


def _compounds(content: Sequence[Word], focus: set[str]) -> set[str]:
    """Neighbours written as one word: fields say "timezone" where people say "time zone"."""
    pairs = pairwise(content)
    return {stem(a.text + b.text) for a, b in pairs if {a.stem, b.stem} <= focus and b.start == a.end + 1}


def _after(pattern: re.Pattern[str], text: str, known: dict[str, str]) -> set[str]:
    """Stems of the words after each match, up to the first that is no content word."""
    found: set[str] = set()
    for match in pattern.finditer(text):
        for part in match["words"].split():
            if part.lower() not in known:
                break
            found.add(known[part.lower()])
    return found


def _asks(text: str) -> Asks:
    low = text.lower()
    if _TIME.search(text):
        return "time"
    if _NUMBER.search(text):
        return "number"
    if _WHEN.search(text):
        return "when"
    if _TRUTH.match(text) or _TRUTH_INSIDE.search(text):
        return "truth"
    if re.search(r"\bwhere\b", low):
        return "where"
    return "who" if re.search(r"\bwho\b", low) else "thing"


def outputs_of(fields: Sequence[Field], *, plural: bool) -> list[tuple[str, JsonPath]]:
    """Names and paths. Where more than one thing is wanted, the whole list instead of its first item's fields."""
    found: dict[JsonPath, str] = {}
    for field in fields:
        path = field.path
        if plural and 0 in path:
            path = path[: path.index(0)]
            found.setdefault(path, next((str(part) for part in reversed(path) if part != "items"), ""))
        else:
            found.setdefault(path, field.name)
    return [(name, path) for path, name in found.items()] or [("", ())]


def unused(name: str, taken: set[str]) -> str:
    """The name for an output, numbered where another has it; it is taken from then on."""
    label = next(text for n in range(1, len(taken) + 2) if (text := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(label)
    return label[:200]


def changes(profile: Profile) -> bool:
    """Whether a call does something that its answer confirms."""
    return profile.effect not in ("read", "compute")


def confirmed(profile: Profile) -> list[Field]:
    """What the answer says of that which was done: its own members, but for lists."""
    return [f for f in profile.fields if len(f.path) == 1 and not f.kinds & {"array"}][:MAX_CONFIRMED]


def completed(profile: Profile, asked: Sequence[Field]) -> list[Field]:
    """What was asked for, and of a call that changes something what identifies it.

    Where that is all there is, what else the call says follows: of a payment its state.
    """
    if not asked or not changes(profile):
        return list(asked)
    known = [field for field in asked if _IDS & set(field.words)]
    further = [one for one in confirmed(profile) if all(one is not field for field in asked)]
    if not known:
        further = [one for one in further if _IDS & set(one.words)][:1]
    return [*asked, *further][:MAX_CONFIRMED] if len(known) in (0, len(asked)) else list(asked)


class Answerer:
    """Chooses the fields of a call's answer that say what was asked.

    Args:
        likeness: of a text and a field, -1 to 1.
    """

    def __init__(self, likeness: Callable[[str, Field], float]) -> None:
        self._likeness = likeness

    def score(self, profile: Profile, used: Sequence[Place], question: Question) -> float:
        """How well the best field of the call's answer fits the question, about -0.3 to 1."""
        ranked = self._ranked(_answering(profile), used, question)
        return ranked[0][0] if ranked else 0.0

    def choose(self, profile: Profile, used: Sequence[Place], question: Question) -> list[Field]:
        """The fields that answer, best first; a confirmation of what was done after a call that changes something.

        None stands for the whole answer: nothing in it stands out.

        Args:
            profile: of the API that is called.
            used: characters of the request that the call's arguments say: they are not what is asked for.
            question: what is.
        """
        if changes(profile):
            return confirmed(profile)
        fields = _answering(profile)
        if len(fields) < 2:
            return fields  # nothing to choose between, and reading the question takes an encoder pass
        ranked = self._ranked(fields, used, question)
        if ranked[0][0] < weights.STANDS_OUT:
            return [field for _, field in ranked[:MAX_FIELDS]]
        best = ranked[0][0]
        chosen = [f for score, f in ranked if score >= best - _margin(f, question)][:MAX_FIELDS]
        return [f for f in chosen if not any(f is not o and f.path[: len(o.path)] == o.path for o in chosen)]

    def _ranked(self, fields: Sequence[Field], used: Sequence[Place], question: Question) -> list[tuple[float, Field]]:
        asked = _residue(used, question)
        found = [(self._field_score(field, question, asked), field) for field in fields]
        return sorted(found, key=lambda pair: (-pair[0], len(pair[1].path)))

    def _field_score(self, field: Field, question: Question, asked: str) -> float:
        words = frozenset(field.words)
        score = weights.MEANING * max(self._likeness(asked, field), 0.0)
        score += weights.FOCUS * overlap(words, question.focus) + weights.SAID * overlap(words, question.stems)
        score += weights.ABOUT * overlap(question.focus, field.about | words)
        score += _type_score(field, question)
        if field.listed or question.asks == "thing":
            score += _identity(field, question)
        if field.paging and question.asks != "number":
            score += weights.PAGING
        if "object" in field.kinds:
            score += weights.WHOLE_OBJECT
        if field.listed and "array" not in field.kinds and question.plural:
            score += weights.ONE_OF_MANY
        if "array" in field.kinds and not question.plural:
            score += weights.MANY_FOR_ONE
        return score + weights.DEPTH * len(field.path)


def _answering(profile: Profile) -> list[Field]:
    """The fields of an answer that do not only say again what was asked with."""
    echoed = {slot.name for slot in profile.slots}
    echoed -= {field.name for field in profile.fields if _COMPUTED.search(field.text)}
    return [f for f in profile.fields if f.name not in echoed or f.listed] or list(profile.fields)


def _margin(field: Field, question: Question) -> float:
    """How far below the best field this one may be to answer as well."""
    named = bool(field.words) and set(field.words) <= question.focus
    return weights.NAMED_MARGIN if named else weights.MARGIN


def _residue(used: Sequence[Place], question: Question) -> str:
    """The question without the values that the call was given: what is left is what is asked for."""
    text = question.text
    for first, last in used:
        start, end = first - question.start, last - question.start
        if 0 <= start < end <= len(text):
            text = text[:start] + " " * (end - start) + text[end:]
    return " ".join(text.split())


def _identity(field: Field, question: Question) -> float:
    """Whether the thing itself is asked for ("which airport", "the airport code"): its name, or what it is known by."""
    if not question.focus & frozenset(stem(word) for word in field.holder.split()):
        return 0.0
    code = bool(question.focus & _CODES)
    if field.first:
        return weights.CODE_KNOWN_BY if code else weights.KNOWN_BY
    return weights.KNOWN_BY if field.words == ("name",) and not code else 0.0


def _type_score(field: Field, question: Question) -> float:
    """Whether the field has the type the question word asks for."""
    words, kinds = set(field.words), field.kinds
    fits = {
        "when": bool(words & _TEMPORAL) and "string" in kinds,
        "time": "string" in kinds and "time" in words,
        "number": bool(kinds & {"integer", "number", "object"}),
        "truth": "boolean" in kinds,
        "where": bool(words & _PLACES),
        "who": "name" in words,
        "thing": "boolean" not in kinds,
    }[question.asks]
    return weights.TYPES[question.asks] if fits else weights.OTHER_TYPES.get(question.asks, 0.0)
