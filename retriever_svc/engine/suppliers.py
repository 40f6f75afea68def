"""Finds the APIs that can supply what the best candidates need.

"Public holidays in Denmark" matches an API that wants a country code, and nothing in the request says "code": the API
that turns a country's name into its code matches no clause. So for each parameter of the best hits that may hold an
answer, the operations of its provider are added whose names say that they supply it (see :mod:`feeds`). Then, for each
required parameter, the outputs of all APIs are searched by the parameter's own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain, islice

import numpy as np

from retriever_svc.engine.feeds import Want, wants_of
from retriever_svc.engine.fields import required_lines
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Entry, Hit
from services.encoder import Vectors

_FED = 8
"""How many of the best hits get what their provider's operations supply."""
_PER_WANT = 2
_NEXT = 0.6
_UNKNOWN = 0.8
"""Weights of a parameter's second supplier, and of each thing that a supplier requires and the hit does not."""
_READ = 24
"""Of the operations that have a key, so many are looked at."""
_HITS = 6
"""How many of the best hits are supplied by words."""
_INPUTS = 8
"""How many of their inputs are looked for: each costs a search over all outputs."""
_PER_INPUT = 2
_OTHER_PROVIDER = 0.5
_CLOSED = 0.5
"""Weights of a supplier from another provider, and of one that needs codes itself."""


def find_suppliers(snapshot: Snapshot, hits: list[Hit], budget: int, allowed: Ids | None) -> list[Entry]:
    """At most ``budget`` APIs that are no hits and answer with what a hit requires, the best hits served first."""
    taken = {hit.entry.number for hit in hits}
    chosen: dict[int, Entry] = {}
    for position in chain(_fed(snapshot, hits[:_FED], allowed), _worded(snapshot, hits[:_HITS], allowed)):
        if len(chosen) >= budget:
            break
        entry = snapshot.entries[position]
        if entry.number not in taken:
            chosen.setdefault(entry.number, entry)
    return list(chosen.values())


def _fed(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None) -> list[int]:
    """Positions of what the hits' own providers supply, the likeliest to be needed first."""
    inside = None if allowed is None else set(allowed.tolist())
    found: dict[int, float] = {}
    for hit in hits:
        likely = hit.score if hit.relevance is None else hit.relevance
        for want in wants_of(hit.entry):
            for place, (position, surely) in enumerate(_suppliers(snapshot, hit.entry, want, inside)[:_PER_WANT]):
                weight = likely * want.weight * surely * _NEXT**place
                found[position] = max(found.get(position, 0.0), weight)
    return sorted(found, key=lambda position: (-found[position], position))


def _suppliers(snapshot: Snapshot, entry: Entry, want: Want, inside: Set[int] | None) -> list[tuple[int, float]]:
    """Who supplies the parameter, and how surely, best first."""
    own = snapshot.positions[entry.number]
    owner = int(snapshot.facts.owners[own])
    known = set(_names(entry))
    surely: dict[int, float] = {}
    for key, strength in want.keys.items():
        for position in snapshot.feeds.positions(owner, key)[:_READ]:
            if position != own and (inside is None or position in inside):
                surely[position] = max(surely.get(position, 0.0), strength)
    for position in surely:
        surely[position] *= _UNKNOWN ** len({*_names(snapshot.entries[position])} - known)
    return sorted(surely.items(), key=lambda pair: (-pair[1], len(snapshot.entries[pair[0]].path), pair[0]))


def _worded(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None) -> Iterator[int]:
    """Positions of what answers with the words of what the hits require, whoever's it is."""
    needs = {(line, hit.entry.provider): None for hit in hits for line in required_lines(hit.entry.inputs)}
    for line, provider in list(needs)[:_INPUTS]:
        yield from _best(snapshot, line, provider, allowed)


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
    return name in _names(entry)


def _names(entry: Entry) -> list[str]:
    """Of what the API requires."""
    return [line.partition("\t")[0] for line in required_lines(entry.inputs)]
