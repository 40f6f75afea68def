"""What a question asks for, and which fields of an answer say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from planner_svc.backends.compact.chain import Call, Said
from planner_svc.backends.compact.profile import Field, Library
from planner_svc.backends.compact.text import STOP, Word, overlap

Asks = Literal["when", "time", "number", "truth", "where", "who", "thing"]

MARGIN = 0.08
MAX_FIELDS = 4
MAX_CONFIRMED = 12
STANDS_OUT = 0.25

_TRUTH = re.compile(
    r"\s*(?:and\s+|so\s+)?(?:is|are|was|were|does|do|did|has|have|can|will|should|would)\b", re.IGNORECASE
)
_TRUTH_INSIDE = re.compile(r"\b(?:whether|(?:check|tell me|know|see)\s+if|valid)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\bhow\s+(?:many|much|long|far|high|tall|deep|heavy|old|big|large|fast|wide|often)\b|\bnumber of\b", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:what|which)\s+(?:is\s+the\s+)?(?:local\s+)?time\b|\bwhat's the (?:local )?time\b", re.IGNORECASE
)
_WHEN = re.compile(r"\bwhen\b|\b(?:what|which|on which)\s+(?:date|day)\b|\bwhat date\b", re.IGNORECASE)
_FOCUS = re.compile(
    r"\b(?:which|what|how many|how much|what's|what is|what are|what was|whose|the|a|an|me|its?|their|his|her|in|and)\s+"
    r"(?:the\s+|kind of\s+)?(?P<words>(?:[a-z][\w'-]*\s*){1,4})"
)
_PLURAL = re.compile(
    r"\b(?:list|all|which|what(?:\s+are)?|every|show|the|any)\s+(?:[a-z-]+\s+){0,3}[a-z-]{2,}s\b", re.IGNORECASE
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
    """

    asks: Asks
    focus: frozenset[str]
    stems: frozenset[str]
    plural: bool
    text: str


def read_question(text: str, words: Sequence[Word]) -> Question:
    """Read what a part of a request asks for."""
    content = [word for word in words if word.text.lower() not in STOP]
    by_text = {word.text.lower(): word.stem for word in content}
    focus = {
        by_text[part.lower()] for m in _FOCUS.finditer(text) for part in m["words"].split() if part.lower() in by_text
    }
    return Question(_asks(text), frozenset(focus), frozenset(w.stem for w in content), bool(_PLURAL.search(text)), text)


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


class Answerer:
    """Chooses the fields of a call's answer that say what was asked."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def score(self, call: Call, question: Question) -> float:
        """How well the best field of the call's answer fits the question, about -0.3 to 1."""
        ranked = self._ranked(call, question)
        return ranked[0][0] if ranked else 0.0

    def choose(self, call: Call, question: Question) -> list[Field]:
        """The fields that answer, best first; a confirmation of what was done after a call that changes something.

        None stands for the whole answer: nothing in it stands out.
        """
        if call.profile.effect not in ("read", "compute"):
            return [f for f in call.profile.fields if len(f.path) == 1 and not f.kinds & {"array"}][:MAX_CONFIRMED]
        ranked = self._ranked(call, question)
        if not ranked or ranked[0][0] < STANDS_OUT:
            return [field for _, field in ranked[:MAX_FIELDS]]
        best = ranked[0][0]
        chosen = [field for score, field in ranked if score >= best - MARGIN][:MAX_FIELDS]
        return [f for f in chosen if not any(f is not o and f.path[: len(o.path)] == o.path for o in chosen)]

    def _ranked(self, call: Call, question: Question) -> list[tuple[float, Field]]:
        echoed = {name for name, argument in call.arguments.items() if isinstance(argument, Said)}
        found = [(self._field_score(call, field, question, echoed), field) for field in call.profile.fields]
        return sorted(found, key=lambda pair: (-pair[0], len(pair[1].path)))

    def _field_score(self, call: Call, field: Field, question: Question, echoed: set[str]) -> float:
        words = frozenset(field.words)
        score = 0.5 * max(self._library.similarity(question.text, field.text), 0.0)
        score += 0.3 * overlap(words, question.focus) + 0.15 * overlap(words, question.stems)
        score += 0.1 * bool(field.about & question.focus)
        score += _type_score(field, question)
        if field.name in echoed:
            score -= 0.4
        if field.paging and question.asks != "number":
            score -= 0.3
        if "object" in field.kinds:
            score -= 0.1
        if field.listed and "array" not in field.kinds:
            score -= 0.1 if question.plural else 0.0
        return score - 0.01 * len(field.path)


def _type_score(field: Field, question: Question) -> float:
    """Whether the field has the type the question word asks for."""
    words = set(field.words)
    temporal = bool(words & {"date", "day", "time", "at", "weekday"})
    numeric = bool(field.kinds & {"integer", "number"}) or "object" in field.kinds
    return {
        "when": 0.25 if temporal and "string" in field.kinds else 0.0,
        "time": 0.3 if "string" in field.kinds and "time" in words else 0.0,
        "number": 0.25 if numeric else -0.1,
        "truth": 0.3 if "boolean" in field.kinds else 0.0,
        "where": 0.2 if words & {"city", "country", "address", "location", "latitude", "longitude", "place"} else 0.0,
        "who": 0.2 if "name" in words else 0.0,
        "thing": -0.1 if "boolean" in field.kinds else 0.0,
    }[question.asks]
