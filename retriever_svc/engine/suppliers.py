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
from retriever_svc.engine.sight import Sight
from retriever_svc.engine.snapshot import Edge, Snapshot
from retriever_svc.engine.supply_index import supplier_keys
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import Entry, Hit
from services.encoder import Vectors
from services.supply import Input, likely_signs, shipped

_HITS_BY_KEYS = 12
"""Number of the best hits that get suppliers from their own provider."""
_PER_NEED = 2
_REMEMBERED = 100_000
"""Most edges whose certainty a snapshot remembers."""
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


def find_suppliers(snapshot: Snapshot, hits: list[Hit], budget: int, allowed: Ids | None, sight: Sight) -> list[Entry]:
    """At most ``budget`` APIs that are not hits and supply an input of a hit, starting with the best hits."""
    taken = {hit.entry.number for hit in hits}
    chosen: dict[int, Entry] = {}
    for position in chain(
        _by_provider_keys(snapshot, hits[:_HITS_BY_KEYS], allowed, sight),
        _by_output_words(snapshot, hits[:_HITS_BY_WORDS], allowed, sight),
    ):
        if len(chosen) >= budget:
            break
        entry = snapshot.entries[position]
        if entry.number not in taken:
            chosen.setdefault(entry.number, entry)
    return list(chosen.values())


def rest_of_small(snapshot: Snapshot, hits: list[Hit], most: int, allowed: Ids | None, sight: Sight) -> list[Entry]:
    """The other APIs of the first hits' providers that have at most ``most`` operations, in order of the hits.

    A small provider costs little to be shown in full, and the middle calls of a chain share no words with the request.
    """
    taken = {hit.entry.number for hit in hits}
    providers = dict.fromkeys(hit.entry.provider for hit in hits[:_LEADING])
    members = [sight.of_positions(snapshot.providers[name]) for name in providers]
    small = [position for group in members if len(group) <= most for position in group.tolist()]
    rest = small if allowed is None else within(small, allowed)
    return [entry for position in rest if (entry := snapshot.entries[position]).number not in taken]


def _by_provider_keys(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None, sight: Sight) -> list[int]:
    """Positions of suppliers from the hits' own providers, the likeliest to be needed by any hit first."""
    places = {number: snapshot.positions[hit.entry.number] for number, hit in enumerate(hits)}
    edges = {
        (number, which): [(own, which, position) for position in _possible(snapshot, own, need, allowed, sight)]
        for number, own in places.items()
        for which, need in enumerate(snapshot.reading(own).inputs)
    }
    likely = _likely(snapshot, list(chain.from_iterable(edges.values())))
    certainty: dict[tuple[int, int], float] = {}
    for (number, _), found in edges.items():
        possible = [edge for edge in found if likely[edge] > 0]
        order = sorted(possible, key=lambda edge: (-likely[edge], _length(snapshot, edge[2]), edge[2]))
        for edge in order[:_PER_NEED]:
            certainty[number, edge[2]] = max(certainty.get((number, edge[2]), 0.0), likely[edge])
    unneeded: dict[int, float] = {}
    for (number, position), sure in certainty.items():
        hit = hits[number]
        needed = hit.score if hit.relevance is None else hit.relevance
        unneeded[position] = unneeded.get(position, 1.0) * (1 - needed * sure)
    return sorted(unneeded, key=lambda position: (unneeded[position], position))


def _length(snapshot: Snapshot, position: int) -> int:
    """The length of an API's path: of two equal suppliers the shorter one wins."""
    return len(snapshot.reading(position).operation.path)


def _likely(snapshot: Snapshot, edges: list[Edge]) -> dict[Edge, float]:
    """How likely each edge's supplier feeds its parameter. The snapshot remembers it."""
    known = snapshot.edges
    found = {edge: known[edge] for edge in edges if edge in known}
    new = [edge for edge in edges if edge not in found]
    rows: list[tuple[float, ...]] = []
    ends = []
    for own, which, position in new:
        rows += likely_signs(snapshot.reading(own).inputs[which], snapshot.reading(position).operation)
        ends.append(len(rows))
    scores = shipped().scores(rows).tolist()
    starts = [0, *ends[:-1]]
    added = {edge: max(scores[a:b], default=0.0) for edge, a, b in zip(new, starts, ends, strict=False)}
    if len(known) + len(added) > _REMEMBERED:
        known.clear()
    known.update(added)
    return found | added


def _possible(snapshot: Snapshot, own: int, need: Input, allowed: Ids | None, sight: Sight) -> list[int]:
    """Positions of at most ``_READ`` operations of the same provider that have a key of the parameter."""
    owner = int(snapshot.facts.owners[own])
    found = chain.from_iterable(snapshot.supply_index.positions(owner, supplier_keys(need), _READ, sight.mask))
    known = [position for position in dict.fromkeys(found) if position != own]
    return (known if allowed is None else within(known, allowed))[:_READ]


def _by_output_words(snapshot: Snapshot, hits: list[Hit], allowed: Ids | None, sight: Sight) -> Iterator[int]:
    """Positions of APIs of any provider whose outputs share words with inputs that the hits require."""
    needs = {(line, hit.entry.provider): None for hit in hits for line in required_lines(hit.entry.inputs)}
    for line, provider in list(needs)[:_INPUTS]:
        yield from _best(snapshot, line, provider, allowed, sight)


def _best(snapshot: Snapshot, line: str, provider: str, allowed: Ids | None, sight: Sight) -> list[int]:
    """Positions of the APIs whose outputs are nearest to an input's words, best first."""
    scores = sight.outputs.scores(line.split())
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
