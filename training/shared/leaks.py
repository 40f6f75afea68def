"""Keeps measured requests out of training data: equal and nearly equal requests."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

NEAR: Final = 0.8
"""Two requests are near duplicates if at least this share of their word trigrams is the same (Jaccard index)."""
_RUN: Final = 3

Trigrams = frozenset[tuple[str, ...]]


def trigrams(query: str) -> Trigrams:
    """The word trigrams of a request, in lower case without punctuation; a shorter request is one item."""
    words = re.findall(r"\w+", query.lower())
    return frozenset(tuple(words[at : at + _RUN]) for at in range(max(len(words) - _RUN + 1, 1)))


class NearDuplicates:
    """Finds near duplicates among many requests."""

    def __init__(self, queries: Iterable[str] = ()) -> None:
        self._queries: list[tuple[str, Trigrams]] = []
        self._places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        self.add(queries)

    def add(self, queries: Iterable[str]) -> None:
        """Add requests."""
        for query in queries:
            found = trigrams(query)
            for gram in found:
                self._places[gram].append(len(self._queries))
            self._queries.append((query, found))

    def of(self, query: str) -> str | None:
        """The known request that is nearly equal, the closest if there are several."""
        asked = trigrams(query)
        shared: Counter[int] = Counter()
        for gram in asked:
            shared.update(self._places.get(gram, ()))
        best: tuple[float, str] | None = None
        for place, count in shared.items():
            text, others = self._queries[place]
            share = count / len(asked | others)
            if share >= NEAR and (best is None or share > best[0]):
                best = share, text
        return best[1] if best else None
