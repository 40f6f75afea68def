"""Finds the part of a request that asks for each call, from the calls' words and values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner_svc.reading.profile import Profile
from planner_svc.reading.text import STOP, words_of

Clause = tuple[int, int]

_BREAK = re.compile(
    r"(?<=[.!?;])[\"'\u201d]?\s+(?=\S)|\n+|,?\s+(?:and\s+)?(?:then|also|after that|afterwards|finally)\b,?\s*"
    r"|,\s+(?:and|plus|but)\s+",
    re.IGNORECASE,
)
_JOINT = re.compile(
    r"^(?:(?:and|then|also|next|after that|afterwards|finally|lastly|additionally|please)\b,?\s*)+", re.IGNORECASE
)
_LEAST = 3
MIN_SCORE = 0.5
_VALUE = 1.0
_ORDER = 0.05
_TAKEN = 0.6  # two calls may share a clause ("in Paris and in Rome"), but then their values show it


def split(text: str) -> list[Clause]:
    """The request's clauses in order, without conjunctions."""
    edges = [0]
    for match in _BREAK.finditer(text):
        edges += [match.start(), match.end()]
    edges.append(len(text))
    found = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        start += len(text[start:end]) - len(_JOINT.sub("", text[start:end].lstrip()))
        end = start + len(text[start:end].rstrip(" .,;!?\n"))
        if end - start >= _LEAST:
            found.append((start, end))
    return found or [(0, len(text))] if text.strip() else []


def clause_of_each(
    text: str, clauses: Sequence[Clause], profiles: Sequence[Profile], places: Sequence[Sequence[Clause]]
) -> list[Clause | None]:
    """The clause of each call, or None if it cannot be determined.

    Args:
        text: the request.
        clauses: its clauses.
        profiles: of each call's API.
        places: for each call, the places of the values that occur only once.
    """
    stems = [frozenset(w.stem for w in words_of(text[a:b]) if w.text.lower() not in STOP) for a, b in clauses]
    chosen: list[Clause | None] = []
    for index, (profile, said) in enumerate(zip(profiles, places, strict=True)):
        scores = []
        for number, (start, end) in enumerate(clauses):
            score = sum(_VALUE for a, b in said if start <= a and b <= end)
            score += 2.0 * len(stems[number] & profile.title) / max(len(profile.title), 1)
            score += 0.3 * min(len(stems[number] & profile.vocabulary), 4) / 4
            shift = abs(index / max(len(profiles), 1) - number / max(len(clauses), 1))
            taken = _TAKEN if clauses[number] in chosen else 0.0
            scores.append((score - _ORDER * shift - taken, number))
        best = max(scores, default=(0.0, 0), key=lambda one: (one[0], -one[1]))
        chosen.append(clauses[best[1]] if clauses and best[0] >= MIN_SCORE else None)
    return chosen
