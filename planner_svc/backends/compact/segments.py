"""Parts of a request that may be one call each, and what of a part still waits to be explained."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner_svc.backends.compact.text import STOP, Word, words_of
from planner_svc.backends.compact.values import HARD, Role, Span
from services.contracts.api import Clause

MAX_CLAUSES = 8
MAX_MERGED = 3
MAX_CHARS = 4_000
THING = 0.6

_REQUEST = re.compile(
    r"(?:(?:and|but|so|then|also|please|kindly|first|finally|now|or)\s*,?\s+)*(?:what|what's|which|when|where|who|whose|how|why|is|are|"
    r"was|were|do|does|did|has|have|can|could|will|would|should|may|i\s+(?:need|want|would)|i'd|we\s+(?:need|want|would)|"
    r"let\s+me|tell|give|show|find|get|list|check|convert|calculate|compute|count|look|search|translate|compare|add|"
    r"book|create|make|order|cancel|delete|remove|remind|put|set|change|update|move|schedule|format|write|send|call|"
    r"reserve|mark|rename|register|buy|place|fetch|estimate|summari[sz]e|analy[sz]e|validate|verify|name|on\s+which|in\s+which|"
    r"at\s+what|from\s+which|to\s+which|for\s+which)\b",
    re.IGNORECASE,
)
_FRAGMENT = re.compile(
    r"(?:and\s+|or\s+)?(?:in|on|at|for|from|to|of|with|by|about|near)\s+(?!(?:which|what|how|whom?|when)\b)",
    re.IGNORECASE,
)
"""What continues the part before it: "and in Spain?"."""
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\"”][.?!])\s+(?=[A-Z\"“])")
_SUBORDINATE = re.compile(
    r"(?:when|if|while|given|since|as|because|after|before)\s+(?!is\b|are\b|was\b|do\b|does\b|did\b|will\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One or more neighbouring clauses, read together. ``first`` and ``last`` are their indices, both included."""

    first: int
    last: int
    start: int
    end: int
    text: str
    words: tuple[Word, ...]
    spans: tuple[Span, ...]


def cut(query: str, clauses: Sequence[Clause]) -> list[list[tuple[int, int]]]:
    """The clauses' places, statements joined to the question they belong to; each entry keeps its clauses' places.

    "I weigh 12 stone" asks for nothing: it belongs to the question after it, or before it where none follows.
    """
    if len(clauses) > 1 and clauses[-1].start <= clauses[0].start:
        clauses = clauses[:-1]  # the whole request, which retrieval counts as one more clause
    places = [(c.start, min(c.end, MAX_CHARS)) for c in clauses if c.start < min(c.end, MAX_CHARS)]
    places = places or [(0, min(len(query), MAX_CHARS))]
    places = [sentence for place in places for sentence in _sentences(query, *place)]
    joined: list[list[tuple[int, int]]] = []
    waiting: list[tuple[int, int]] = []
    for place in places:
        waiting.append(place)
        if _asks_something(query[slice(*place)]):
            joined.append(waiting)
            waiting = []
    if waiting and joined:
        joined[-1] += waiting
    elif waiting:
        joined.append(waiting)
    return joined[: MAX_CLAUSES - 1] + [[p for entry in joined[MAX_CLAUSES - 1 :] for p in entry]] * (
        len(joined) >= MAX_CLAUSES
    )


def _sentences(query: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences of a clause; a statement's comma before a question ends one, too."""
    found = []
    for match in _SENTENCE_END.finditer(query, start, end):
        if match.start() - start > 8:
            found.append((start, match.start()))
            start = match.end()
    return [*found, (start, end)]


def _asks_something(text: str) -> bool:
    stripped = text.strip()
    if stripped.endswith("?") and not _FRAGMENT.match(stripped):
        return True
    return _REQUEST.match(stripped) is not None and _SUBORDINATE.match(stripped) is None


def segments(
    query: str, clauses: Sequence[Clause], spans: Sequence[Span]
) -> tuple[list[Segment], int, list[list[int]]]:
    """Every run of up to ``MAX_MERGED`` neighbouring parts; how many parts there are; and each part's clauses."""
    parts = cut(query, clauses)
    members = [[i for i, c in enumerate(clauses) if any(c.start < e and s < c.end for s, e in part)] for part in parts]
    found = []
    for first in range(len(parts)):
        for last in range(first, min(first + MAX_MERGED, len(parts))):
            start, end = parts[first][0][0], parts[last][-1][1]
            inside = [span for span in spans if start <= span.start and span.end <= end]
            text = query[start:end]
            found.append(
                Segment(first, last, start, end, text, tuple(words_of(text, start)), tuple(with_roles(query, inside)))
            )
    return found, len(parts), members


def with_roles(query: str, spans: Sequence[Span]) -> list[Span]:
    """Two values of one kind are likely two ends of a pair: the second is "to" where nothing says otherwise."""
    result = list(spans)
    for kind in ("code", "name", "quoted"):
        places = [i for i, span in enumerate(result) if span.kind == kind]
        if len(places) == 1 and _leads_to(query, result[places[0]]):
            _hint(result, places[0], "to")
        if len(places) != 2:
            continue
        left, right = (result[i] for i in places)
        known: tuple[Role | None, Role | None] = (left.role or left.weak_role, right.role or right.weak_role)
        if _counted(query, right) and not _counted(query, left):
            known = ("to", "from")
        if known[0] == known[1]:
            known = ("from", "to")
        _hint(result, places[0], known[0] or ("from" if known[1] == "to" else "to"))
        _hint(result, places[1], known[1] or ("from" if known[0] == "to" else "to"))
    return result


def _hint(spans: list[Span], index: int, role: Role) -> None:
    if spans[index].role is None:
        spans[index] = replace(spans[index], weak_role=role)


def _leads_to(query: str, span: Span) -> bool:
    return (
        re.search(r"\b(?:in|as|into|to)\s+(?:the\s+)?$", query[max(span.start - 12, 0) : span.start], re.IGNORECASE)
        is not None
    )


def _counted(query: str, span: Span) -> bool:
    return re.search(r"\d[\d.,]*\s*$", query[max(span.start - 30, 0) : span.start]) is not None


@dataclass(frozen=True, slots=True)
class Weight:
    """A stretch of a part that a plan should explain, and how much it counts."""

    start: int
    end: int
    weight: float
    stem: str = ""


def weights(segment: Segment) -> list[Weight]:
    """Each value that was surely meant counts 1, each other content word 0.3."""
    clusters: list[list[int]] = []
    things = [(s.start, s.end) for s in segment.spans if s.kind == "thing"]
    for span in sorted((s for s in segment.spans if s.kind in HARD and s.kind != "list"), key=lambda s: s.start):
        if clusters and span.start < clusters[-1][1]:
            clusters[-1][1] = max(clusters[-1][1], span.end)
        else:
            clusters.append([span.start, span.end])
    found = [Weight(start, end, THING if (start, end) in things else 1.0) for start, end in clusters]
    for word in segment.words:
        inside = any(word.start < end and start < word.end for start, end in clusters)
        if not inside and word.text.lower() not in STOP:
            found.append(Weight(word.start, word.end, 0.3, word.stem))
    return found
