"""Finds the APIs that can supply what the best candidates need.

"Public holidays in Denmark" matches an API that wants a country code, and nothing in the request says "code": the API
that turns a country's name into its code matches no clause. So for each required parameter of the best hits the
outputs of all other APIs are searched, by the parameter's own words.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Entry, Hit
from services.encoder import Vectors

_HITS = 6
"""How many of the best hits are supplied."""
_INPUTS = 8
"""How many of their inputs are looked for: each costs a search over all outputs."""
_PER_INPUT = 2
_OTHER_PROVIDER = 0.5
_CLOSED = 0.5
"""Weights of a supplier from another provider, and of one that needs codes itself."""


def find_suppliers(snapshot: Snapshot, hits: list[Hit], budget: int, allowed: Ids | None) -> list[Entry]:
    """At most ``budget`` APIs that are no hits and answer with what a hit requires, the best hits served first."""
    taken = {hit.entry.number for hit in hits}
    needs = {(line, hit.entry.provider): None for hit in hits[:_HITS] for line in hit.entry.inputs.splitlines()}
    chosen: dict[int, Entry] = {}
    for line, provider in list(needs)[:_INPUTS]:
        for position in _best(snapshot, line, provider, allowed):
            entry = snapshot.entries[position]
            if entry.number not in taken:
                chosen[entry.number] = entry
    return list(chosen.values())[:budget]


def _best(snapshot: Snapshot, line: str, provider: str, allowed: Ids | None) -> list[int]:
    """Positions of the APIs whose outputs are nearest to an input's words, best first."""
    scores = snapshot.outputs.scores(line.split())
    if allowed is not None:
        inside = np.zeros(len(scores), dtype=bool)
        inside[allowed] = True
        scores[~inside] = 0
    matching = np.flatnonzero(scores > 0)
    own = np.zeros(len(scores), dtype=bool)
    own[snapshot.providers[provider]] = True
    weights = np.where(snapshot.open[matching], 1.0, _CLOSED) * np.where(own[matching], 1.0, _OTHER_PROVIDER)
    name = line.partition("\t")[0]
    first = matching[_first(scores[matching] * weights, 8 * _PER_INPUT)]
    return list(islice((p for p in first.tolist() if not _requires(snapshot.entries[p], name)), _PER_INPUT))


def _first(scores: Vectors, count: int) -> Ids:
    """Where the highest scores are, best first; of equal ones, the first."""
    if len(scores) > count:  # sorting all of them would take longer than all the rest
        enough = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
        return enough[np.argsort(-scores[enough], kind="stable")][:count]
    return np.argsort(-scores, kind="stable")


def _requires(entry: Entry, name: str) -> bool:
    """Whether the API needs an input of that name itself: then it is not the first to know it."""
    return any(line.partition("\t")[0] == name for line in entry.inputs.splitlines())
