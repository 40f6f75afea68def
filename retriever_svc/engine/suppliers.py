"""Finds the APIs that can supply inputs of the best candidates.

"Public holidays in Denmark" matches an API that needs a country code, and nothing in the request says "code": the API
that turns a country's name into its code matches no clause. So for each parameter of the best hits whose value may come
from a response, the operations of the same provider whose names say that they supply it are added (see
:mod:`supply_index`). Then, for each required parameter, the outputs of all APIs are searched by the parameter's own
words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np

from retriever_svc.engine.fields import required_lines
from retriever_svc.engine.filters import within
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.supply_index import InputNeed, input_needs
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Entry, Hit
from services.encoder import Vectors

_HITS_BY_KEYS = 12
"""Number of the best hits that get suppliers from their own provider."""
_PER_NEED = 2
_NEXT = 0.6
_UNKNOWN = 0.8
"""Weights of a parameter's second supplier, and of each input that a supplier requires and the hit does not."""
_READ = 24
"""Most possible suppliers of a parameter that are read: a document may have thousands of similar ones."""
_LEADING = 12
"""Number of the best hits whose providers are considered."""
_HITS_BY_WORDS = 6
"""Number of the best hits that get suppliers by words."""
_INPUTS = 8
"""Most inputs of these hits that are searched for: each costs a search over all outputs."""
_PER_INPUT = 2
_OTHER_PROVIDER = 0.5
_CLOSED = 0.5
"""Weights of a supplier from another provider, and of one that needs codes itself."""


def find_suppliers(snapshot: Snapshot, hits: list[Hit], budget: int, allowed: Ids | None) -> list[Entry]:
    """At most ``budget`` APIs that are not hits and supply an input of a hit, starting with the best hits."""
    taken = {hit.entry.number for hit in hits}
    chosen: dict[int, Entry] = {}
    for position in chain(
        _by_provider_keys(snapshot, hits[:_HITS_BY_KEYS], allowed),
        _by_output_words(snapshot, hits[:_HITS_BY_WORDS], allowed),
    ):
        if len(chosen) >= budget:
            break
        entry = snapshot.entries[position]
        if entry.number not in taken:
            chosen.setdefault(entry.number, entry)
    return list(chosen.values())


def rest_of_small(snapshot: Snapshot, hits: list[Hit], most: int, allowed: Ids | None) -> list[Entry]:
    """The other APIs of the first hits' providers that have at most ``most`` operations, in order of the hits.

    A small provider costs little to be shown in full, and the middle calls of a chain share no words with the request.
    """
    taken = {hit.entry.number for hit in hits}
    providers = dict.fromkeys(hit.entry.provider for hit in hits[:_LEADING])
    members = [snapshot.providers[name] for name in providers]
    small = [position for group in members if len(group) <= most for position in group.tolist()]
    rest = small if allowed is None else within(small, allowed)
    return [entry for position in rest if (entry := snapshot.entries[position]).number not in taken]


def _by_provider_keys(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None) -> list[int]:
    """Positions of suppliers from the hits' own providers, the likeliest to be needed by any hit first."""
    supply = _ProviderSuppliers(snapshot, allowed)
    unneeded: dict[int, float] = {}
    for hit in hits:
        likely = hit.score if hit.relevance is None else hit.relevance
        for position, certainty in supply.of(hit.entry).items():
            unneeded[position] = unneeded.get(position, 1.0) * (1 - likely * certainty)
    return sorted(unneeded, key=lambda position: (unneeded[position], position))


class _ProviderSuppliers:
    """Finds suppliers within a provider. It reads each API once."""

    def __init__(self, snapshot: Snapshot, allowed: Ids | None) -> None:
        self._snapshot, self._allowed = snapshot, allowed
        self._read: dict[int, tuple[frozenset[str], int]] = {}

    def of(self, entry: Entry) -> dict[int, float]:
        """Positions of suppliers of the API's parameters, and how likely each is needed if the API is."""
        own, known = self._snapshot.positions[entry.number], frozenset(_names(entry))
        found: dict[int, float] = {}
        for need in input_needs(entry):
            for place, (position, certainty) in enumerate(self._best(own, known, need)):
                found[position] = max(found.get(position, 0.0), need.weight * certainty * _NEXT**place)
        return found

    def _best(self, own: int, known: frozenset[str], need: InputNeed) -> list[tuple[int, float]]:
        """Positions of suppliers of a parameter, with how likely each supplies it, best first.

        Args:
            own: position of the API that has the parameter.
            known: names of the inputs that this API requires.
            need: the parameter.
        """
        ranked = []
        for position, strength in self._most_certain(own, need):
            required, length = self._of(position)
            if need.name in required and not self._reads(position, need):
                continue  # it needs the value itself
            ranked.append((-strength * _UNKNOWN ** len(required - known), length, position))
        return [(position, -strength) for strength, _, position in sorted(ranked)[:_PER_NEED]]

    def _most_certain(self, own: int, need: InputNeed) -> list[tuple[int, float]]:
        """Positions of the surest suppliers, at most ``_READ``, and how likely each supplies the parameter."""
        owner = int(self._snapshot.facts.owners[own])
        certainty: dict[int, float] = {}
        found = self._snapshot.supply_index.positions(owner, list(need.keys), _READ)
        for positions, strength in zip(found, need.keys.values(), strict=True):
            for position in positions if self._allowed is None else within(positions, self._allowed):
                if position != own:
                    certainty[position] = max(certainty.get(position, 0.0), strength)
        return sorted(certainty.items(), key=lambda item: -item[1])[:_READ]

    def _reads(self, position: int, need: InputNeed) -> bool:
        """Whether the API reads one of the things that the parameter identifies."""
        return bool(need.read_key and need.read_key in self._snapshot.facts.supplies[position])

    def _of(self, position: int) -> tuple[frozenset[str], int]:
        """The inputs that the API requires, and the length of its path: of two equal suppliers the shorter one wins."""
        if position not in self._read:
            entry = self._snapshot.entries[position]
            self._read[position] = frozenset(_names(entry)), len(entry.path)
        return self._read[position]


def _by_output_words(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None) -> Iterator[int]:
    """Positions of APIs of any provider whose outputs share words with inputs that the hits require."""
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
    """The indices of the highest scores, best first; of equal scores, the first."""
    if len(scores) > count:  # sorting all of them would take longer than everything else
        enough = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
        return enough[np.argsort(-scores[enough], kind="stable")][:count]
    return np.argsort(-scores, kind="stable")


def _requires(entry: Entry, name: str) -> bool:
    """Whether the API requires an input with that name itself: then it cannot be the value's source."""
    return name in _names(entry)


def _names(entry: Entry) -> list[str]:
    """The names of the inputs that the API requires."""
    return [line.partition("\t")[0] for line in required_lines(entry.inputs)]
