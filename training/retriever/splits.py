"""Keeps measured requests apart from training requests: held-out requests and their near duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.words import words
from training.retriever.examples import Request

_SAME_WORDS = 0.8
_SAME_APIS = 0.8


def without_near_duplicates(requests: Iterable[Request], held_out: Sequence[Request]) -> list[Request]:
    """The requests that are not near duplicates of a held-out request.

    Two requests are near duplicates if four in five of their words are the same (Jaccard index), or four in five of the
    documents if both need at least two. One common document is not a leak: another request may need it too.
    """
    bags = [(frozenset(words(one.query)), one.documents) for one in held_out]
    return [one for one in requests if not _near(frozenset(words(one.query)), one.documents, bags)]


def _near(said: frozenset[str], needed: frozenset[str], bags: Sequence[tuple[frozenset[str], frozenset[str]]]) -> bool:
    return any(
        _overlap(said, other) >= _SAME_WORDS
        or (min(len(needed), len(documents)) > 1 and _overlap(needed, documents) >= _SAME_APIS)
        for other, documents in bags
    )


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard index; 1 for two empty sets."""
    return len(one & other) / len(one | other) if one or other else 1.0
