"""Finds the APIs that can supply what the best candidates need.

"Public holidays in Denmark" matches an API that wants a country code, and nothing in the request says "code": the API
that turns a country's name into its code matches no clause. So for each parameter of the best hits that may hold an
answer, the operations of its provider are added whose names say that they supply it (see :mod:`feeds`). Then, for each
required parameter, the outputs of all APIs are searched by the parameter's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np

from retriever_svc.engine.feeds import Want, wants_of
from retriever_svc.engine.fields import required_lines
from retriever_svc.engine.filters import within
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Entry, Hit
from services.encoder import Vectors

_FED = 12
"""How many of the best hits get what their provider's operations supply."""
_PER_WANT = 2
_NEXT = 0.6
_UNKNOWN = 0.8
"""Weights of a parameter's second supplier, and of each thing that a supplier requires and the hit does not."""
_READ = 24
"""Of the operations that may supply a parameter, so many are read: a document may have thousands that look alike."""
_LEADING = 12
"""The providers of so many of the best hits are looked at."""
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


def rest_of_small(snapshot: Snapshot, hits: list[Hit], most: int, allowed: Ids | None) -> list[Entry]:
    """What else the first hits' providers have, of each that has at most ``most`` operations, in order of the hits.

    A small catalogue costs little to be shown whole, and a chain's middle has nothing in common with the request.
    """
    taken = {hit.entry.number for hit in hits}
    providers = dict.fromkeys(hit.entry.provider for hit in hits[:_LEADING])
    members = [snapshot.providers[name] for name in providers]
    small = [position for group in members if len(group) <= most for position in group.tolist()]
    rest = small if allowed is None else within(small, allowed)
    return [entry for position in rest if (entry := snapshot.entries[position]).number not in taken]


def _fed(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None) -> list[int]:
    """Positions of what the hits' own providers supply, the likeliest to be needed by any of the hits first."""
    supply = _Supply(snapshot, allowed)
    unneeded: dict[int, float] = {}
    for hit in hits:
        likely = hit.score if hit.relevance is None else hit.relevance
        for position, surely in supply.of(hit.entry).items():
            unneeded[position] = unneeded.get(position, 1.0) * (1 - likely * surely)
    return sorted(unneeded, key=lambda position: (unneeded[position], position))


class _Supply:
    """Who supplies what. It reads each API once."""

    def __init__(self, snapshot: Snapshot, allowed: Ids | None) -> None:
        self._snapshot, self._allowed = snapshot, allowed
        self._read: dict[int, tuple[frozenset[str], int]] = {}

    def of(self, entry: Entry) -> dict[int, float]:
        """Positions of what supplies the API's parameters, and how surely each is needed where the API is."""
        own, known = self._snapshot.positions[entry.number], frozenset(_names(entry))
        found: dict[int, float] = {}
        for want in wants_of(entry):
            for place, (position, surely) in enumerate(self._best(own, known, want)):
                found[position] = max(found.get(position, 0.0), want.weight * surely * _NEXT**place)
        return found

    def _best(self, own: int, known: frozenset[str], want: Want) -> list[tuple[int, float]]:
        """Positions of those that supply a parameter, and how surely each does, best first.

        Args:
            own: position of the API that has the parameter.
            known: names of what that API requires.
            want: the parameter.
        """
        ranked = []
        for position, strength in self._surest(own, want):
            required, length = self._of(position)
            if want.name in required and not self._reads(position, want):
                continue  # it is not the first to know it
            ranked.append((-strength * _UNKNOWN ** len(required - known), length, position))
        return [(position, -strength) for strength, _, position in sorted(ranked)[:_PER_WANT]]

    def _surest(self, own: int, want: Want) -> list[tuple[int, float]]:
        """Positions of a bounded number of those that have a key, and how surely they supply it."""
        owner = int(self._snapshot.facts.owners[own])
        surely: dict[int, float] = {}
        found = self._snapshot.feeds.positions(owner, list(want.keys), _READ)
        for positions, strength in zip(found, want.keys.values(), strict=True):
            for position in positions if self._allowed is None else within(positions, self._allowed):
                if position != own:
                    surely[position] = max(surely.get(position, 0.0), strength)
        return sorted(surely.items(), key=lambda item: -item[1])[:_READ]

    def _reads(self, position: int, want: Want) -> bool:
        """Whether the API reads one of the things meant, by this parameter or another way."""
        return bool(want.reads and want.reads in self._snapshot.facts.supplies[position])

    def _of(self, position: int) -> tuple[frozenset[str], int]:
        """What the API requires, and how long its path is: of two that are alike the plainer one is meant."""
        if position not in self._read:
            entry = self._snapshot.entries[position]
            self._read[position] = frozenset(_names(entry)), len(entry.path)
        return self._read[position]


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
