"""Filters on the APIs that a request may use. A filter is a mask over the catalogue, made from a snapshot's arrays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from retriever_svc.engine.labels import TAGS, label_keys
from retriever_svc.engine.lexical import Mask
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids
from retriever_svc.models import is_seen
from services.contracts.retrieval import ApiFilters, RetrieveRequest


@dataclass(frozen=True, slots=True)
class Filters:
    """The conditions on an API. All kinds must hold; within a kind one match is enough. Empty: anything.

    Attributes:
        providers: names of providers.
        tags: tags, in any case; only the first ``TAGS`` tags of an API are compared.
        methods: HTTP methods in capitals.
        deprecated: whether deprecated APIs pass.
        tenant: only APIs that this tenant sees; None: all.
        pinned: ids of APIs that come first and pass all filters except the tenant.
    """

    providers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    deprecated: bool = True
    tenant: str | None = None
    pinned: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: ApiFilters) -> Self:
        """The filters of a request."""
        pinned = request.pinned if isinstance(request, RetrieveRequest) else ()
        return cls(request.providers, request.tags, request.methods, request.deprecated, request.tenant, pinned)

    def allowed(self, snapshot: Snapshot) -> Ids | None:
        """Positions of the APIs that pass, in order; None: all pass."""
        masks = list(self._masks(snapshot))
        mask = np.logical_and.reduce(masks) if masks else None
        if mask is None or mask.all():
            return None
        mask[self.pinned_positions(snapshot)] = True
        return np.flatnonzero(mask)

    def seen(self, snapshot: Snapshot) -> Mask | None:
        """Whether the tenant sees the API at each position, whatever the other filters; None: it sees all."""
        audiences = self._audiences(snapshot)
        return None if audiences.all() else audiences[snapshot.facts.audiences]

    def passing(self, snapshot: Snapshot, ids: Iterable[str]) -> set[str]:
        """Those of the ids whose APIs are in the snapshot and pass."""
        places = {place: one for one in ids if (place := _position(snapshot, one)) is not None}
        allowed = self.allowed(snapshot)
        return {places[place] for place in (places if allowed is None else within(list(places), allowed))}

    def pinned_positions(self, snapshot: Snapshot) -> list[int]:
        """Positions of the pinned APIs that this tenant sees, each once, in the order of the request."""
        places = {_position(snapshot, api_id): None for api_id in self.pinned}
        return [place for place in places if place is not None and self._sees(snapshot, place)]

    def _masks(self, snapshot: Snapshot) -> Iterator[Mask]:
        """A mask for each filter that may exclude an API."""
        facts = snapshot.facts
        seen = self.seen(snapshot)
        if seen is not None:
            yield seen
        if self.providers:
            yield _at(snapshot, [snapshot.providers[name] for name in self.providers if name in snapshot.providers])
        if self.methods:
            yield np.isin(facts.methods, label_keys(self.methods))
        if self.tags:  # as one row: numpy is slow on many short rows
            yield _at(snapshot, [np.flatnonzero(np.isin(facts.tags.reshape(-1), label_keys(self.tags))) // TAGS])
        if not self.deprecated:
            yield ~facts.deprecated

    def _audiences(self, snapshot: Snapshot) -> Mask:
        """A mask over the snapshot's audiences: those that the tenant belongs to."""
        return np.array([is_seen(group, self.tenant) for group in snapshot.audiences], bool)

    def _sees(self, snapshot: Snapshot, position: int) -> bool:
        return is_seen(snapshot.audiences[int(snapshot.facts.audiences[position])], self.tenant)


NO_FILTERS = Filters()


def within(positions: list[int], allowed: Ids) -> list[int]:
    """The positions that are allowed. ``allowed`` is sorted and may be much longer than ``positions``."""
    wanted = np.asarray(positions, np.int64)
    places = np.searchsorted(allowed, wanted)
    there = places < len(allowed)
    there[there] = allowed[places[there]] == wanted[there]
    inside: list[int] = wanted[there].tolist()
    return inside


def _position(snapshot: Snapshot, api_id: str) -> int | None:
    ids = snapshot.entries.ids
    place = bisect_left(ids, api_id)
    return place if place < len(ids) and ids[place] == api_id else None


def _at(snapshot: Snapshot, positions: list[Ids]) -> Mask:
    mask = np.zeros(len(snapshot.entries), dtype=bool)
    for some in positions:
        mask[some] = True
    return mask
