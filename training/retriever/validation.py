"""A quick measurement on validation requests while training: whole requests, vectors only, part of the catalogue.

It shows whether training improves the model. The reported figures are measured with the engine in service.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.retriever.examples import Request, Source
from training.retriever.towers import Towers

_K = 10
_DOCUMENTS = 500
"""Most per source: the needed ones, and random others."""
_ASKED = 75
"""Most requests per source."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    requests: tuple[Request, ...]
    ids: tuple[str, ...]
    texts: tuple[str, ...]


class ValidationMeter:
    """Measures all-tools@10 of each source's validation requests.

    Args:
        sources: catalogues.
        requests: validation requests of each, in the same order.
    """

    def __init__(self, sources: Sequence[Source], requests: Sequence[Sequence[Request]]) -> None:
        rng = random.Random(7)  # noqa: S311 - a repeatable sample, not a secret
        self._parts = []
        for source, theirs in zip(sources, requests, strict=True):
            chosen = rng.sample(list(theirs), min(_ASKED, len(theirs)))
            needed = sorted({one for request in chosen for one in request.documents})
            others = sorted(source.documents.keys() - set(needed))
            ids = (*needed, *rng.sample(others, min(len(others), max(0, _DOCUMENTS - len(needed)))))
            texts = tuple(source.documents[one].text for one in ids)
            if chosen:
                self._parts.append(_Part(source.name, tuple(chosen), ids, texts))

    def measure(self, towers: Towers) -> dict[str, float]:
        """Percent of the requests with all documents among the first ten, by source."""
        return {part.name: _all_found(part, towers) for part in self._parts}


def _all_found(part: _Part, towers: Towers) -> float:
    queries = towers.embed([request.query for request in part.requests], query=True)
    near = queries @ towers.embed(part.texts, query=False).T
    best = np.argsort(-near, axis=1)[:, :_K]
    found = [
        request.documents <= {part.ids[column] for column in row}
        for request, row in zip(part.requests, best, strict=True)
    ]
    return round(100 * float(np.mean(found)), 1)
