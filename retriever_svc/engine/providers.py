"""Which providers a request names, and which it seems to mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.encoder import Vectors

_WORD = re.compile(r"[a-z0-9]+")
_NO_NAME = {
    "com",
    "net",
    "org",
    "io",
    "co",
    "app",
    "dev",
    "api",
    "apis",
    "rest",
    "http",
    "https",
    "www",
    "v1",
    "v2",
    "v3",
}
_NO_NAME |= {"service", "services"}
_REST = 0.5
_TOGETHER = 3
"""How many of a provider's best APIs speak for it."""


class ProviderNames:
    """The names of all providers, by word: of ``adyen.com~Payments`` ``adyen``, and less so ``payments``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._count = len(names)
        self._by_word: dict[str, list[tuple[int, float]]] = {}
        for number, name in enumerate(names):
            first, *rest = [word for word in _WORD.findall(name.lower()) if word not in _NO_NAME] or [""]
            self._by_word.setdefault(first, []).append((number, 1.0))
            for word in rest:
                self._by_word.setdefault(word, []).append((number, _REST / len(rest)))

    def named(self, query: str) -> Vectors:
        """How much of each provider's name stands in the request: (p,), 1 for its first word."""
        found = np.zeros(self._count, np.float32)
        for word in set(_WORD.findall(query.lower())):
            for number, share in self._by_word.get(word, ()):
                found[number] += share
        return found


def meant(scores: Vectors, owners: NDArray[np.int32], count: int) -> Vectors:
    """Per provider, the mean score of its best three APIs, missing ones counting as 0: (p,).

    APIs that are needed together nearly always come from one provider; one that has several fitting ones is meant.

    Args:
        scores: (m,) of the APIs looked at.
        owners: (m,) index of each one's provider.
        count: of providers.
    """
    found = np.zeros(count, np.float32)
    order = np.lexsort((-scores, owners))
    _, starts, sizes = np.unique(owners[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    best = order[place < _TOGETHER]
    np.add.at(found, owners[best], scores[best] / _TOGETHER)
    return found
