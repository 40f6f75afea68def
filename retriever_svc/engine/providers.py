"""Which providers a request names, and which it probably means."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.encoder import Vectors

_WORD = re.compile(r"[a-z0-9]+")
_IGNORED = {
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
_IGNORED |= {"service", "services"}
_OTHER_WORD = 0.5
_AVERAGED = 3
"""Number of a provider's best APIs whose scores are averaged."""


class ProviderNames:
    """The names of all providers, by word: ``adyen.com~Payments`` has ``adyen`` and, with less weight, ``payments``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._count = len(names)
        self._by_word: dict[str, list[tuple[int, float]]] = {}
        for number, name in enumerate(names):
            first, *rest = [word for word in _WORD.findall(name.lower()) if word not in _IGNORED] or [""]
            self._by_word.setdefault(first, []).append((number, 1.0))
            for word in rest:
                self._by_word.setdefault(word, []).append((number, _OTHER_WORD / len(rest)))

    def matches(self, query: str) -> Vectors:
        """How much of each provider's name occurs in the request: (p,), 1 for its first word."""
        found = np.zeros(self._count, np.float32)
        for word in set(_WORD.findall(query.lower())):
            for number, share in self._by_word.get(word, ()):
                found[number] += share
        return found


def provider_scores(scores: Vectors, owners: NDArray[np.int32], count: int) -> Vectors:
    """The mean score of each provider's best three APIs, missing ones counting as 0: (p,).

    APIs that are needed together nearly always come from one provider. So a provider with several fitting APIs is
    probably the one that is meant.

    Args:
        scores: (m,) scores of APIs.
        owners: (m,) index of each API's provider.
        count: number of providers.
    """
    found = np.zeros(count, np.float32)
    order = np.lexsort((-scores, owners))
    _, starts, sizes = np.unique(owners[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    best = order[place < _AVERAGED]
    np.add.at(found, owners[best], scores[best] / _AVERAGED)
    return found
