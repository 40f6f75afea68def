"""Parts of a request that may be one call each, and what of a part still waits to be explained."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner_svc.reading.text import MAX_CHARS, STOP, Word, words_of
from planner_svc.reading.values import HARD, Role, Span
from services.contracts.api import Clause

MAX_PARTS = 8
MAX_MERGED = 3
THING = 0.6

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\"”][.?!])\s+(?=[A-Z\"“])")


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


def cut(query: str, clauses: Sequence[Clause]) -> list[tuple[int, int]]:
    """The places of the parts: clauses and the sentences in them. Which of them belong together is decided later."""
    clauses = _without_whole(clauses)
    places = [(c.start, min(c.end, MAX_CHARS)) for c in clauses if c.start < min(c.end, MAX_CHARS)]
    places = places or [(0, min(len(query), MAX_CHARS))]
    found = [sentence for place in places for sentence in _sentences(query, *place)]
    return found if len(found) <= MAX_PARTS else [*found[: MAX_PARTS - 1], (found[MAX_PARTS - 1][0], found[-1][1])]


def _without_whole(clauses: Sequence[Clause]) -> Sequence[Clause]:
    """Retrieval counts the whole request as one more clause."""
    return clauses[:-1] if len(clauses) > 1 and clauses[-1].start <= clauses[0].start else clauses


def _sentences(query: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences of a clause."""
    found = []
    for match in _SENTENCE_END.finditer(query, start, end):
        if match.start() - start > 8:
            found.append((start, match.start()))
            start = match.end()
    return [*found, (start, end)]


def segments(
    query: str, clauses: Sequence[Clause], spans: Sequence[Span]
) -> tuple[list[Segment], int, list[list[int]]]:
    """Every run of up to ``MAX_MERGED`` neighbouring parts; how many parts there are; and each part's clauses."""
    parts = cut(query, clauses)
    clauses = _without_whole(clauses)
    members = [[i for i, c in enumerate(clauses) if c.start < end and start < c.end] for start, end in parts]
    found = []
    for first in range(len(parts)):
        for last in range(first, min(first + MAX_MERGED, len(parts))):
            start, end = parts[first][0], parts[last][1]
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
        places = [i for i, span in enumerate(result) if span.kind == kind and span.unit != "noun"]
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
    for place, span in enumerate(result):
        same = next((o for o in result if span.unit == "noun" and o is not span and o.start == span.start), span)
        result[place] = replace(span, role=same.role, weak_role=same.weak_role)
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
