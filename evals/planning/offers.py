"""The candidates for a planner, in the form in which the retriever service returns them.

- ``own``: the APIs that the shipped retriever finds in the whole catalogue, including suppliers, with the budget of
  ``/solve``;
- ``vendor``: the same, among the APIs of the vendors that the solution (or a refused request's list) names;
- ``given``: the request's own list of tools, the field ``tools`` in the data;
- ``gold``: the APIs of the reference solution, each once.

For ``given`` and ``gold``, the retriever ranks and scores only these APIs, with the same code and the statistics of the
whole catalogue. It may not refuse, and an API that it leaves out comes last with score 0. Names that are not in the
catalogue are skipped.

Distractors make ``gold`` harder. They are APIs that are not needed: the nearest ones that the retriever finds without
the needed ones. They are ranked and scored together with the needed ones, and all are then shuffled, always in the same
way. So a planner gains nothing by taking the first candidates. The difficulty lies between ``gold`` and ``own``.
"""

from __future__ import annotations

import dataclasses
import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evals.data import DataError, Instance
from gateway.lookup import look_up
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.index.protocol import Ids
from retriever_svc.engine.ranking import RankingOptions, find, rank
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.models import Hit
from services.contracts.api import Api
from services.contracts.retrieval import Candidate, Clause, RetrieveRequest, RetrieveResponse
from services.contracts.solve import SolveOptions
from services.encoder import Encoder

_SEED = 7
_MOST = 200
"""A planner accepts no more candidates."""


class Source(StrEnum):
    """Where candidates come from."""

    OWN = "own"
    VENDOR = "vendor"
    GIVEN = "given"
    GOLD = "gold"


@dataclass(frozen=True, slots=True)
class Offer:
    """A request's clauses and its candidates, best first."""

    clauses: tuple[Clause, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Offers:
    """Makes the offers of one catalogue.

    Attributes:
        snapshot: the catalogue's index.
        apis: its APIs by id.
        encoder: the encoder that made the snapshot's vectors.
        options: the service's ranking options.
        source: source of the candidates.
        k: budget of the retriever, if it finds the candidates; None: the default of ``/solve``.
        distractors: number of wrong APIs added to the needed ones, if those are given.
    """

    snapshot: Snapshot
    apis: Mapping[str, Api]
    encoder: Encoder
    options: RankingOptions
    source: Source
    k: int | None = None
    distractors: int = 0

    def offer(self, instance: Instance) -> Offer:
        """The candidates of a request. Blocks while it encodes and searches."""
        if self.source in (Source.OWN, Source.VENDOR):
            vendors = self._vendors(instance) if self.source is Source.VENDOR else ()
            clauses, hits = self._find(self._asked(instance.query, vendors))
        else:
            names = instance.tools or () if self.source is Source.GIVEN else [call.api for call in instance.calls]
            clauses, hits = self._ranked(instance.query, self._places(names))
            if self.distractors:
                clauses, hits = self._distracted(instance, [hit.entry.id for hit in hits])
        return self._offer(clauses, hits)

    async def look_up(self, query: str, offer: Offer, needs: Sequence[str]) -> tuple[Offer, tuple[str, ...]]:
        """Add operations that a planner missed, as the gateway does. Returns the offer and the ids that are new.

        Only if the retriever finds the candidates: a given list is never extended.
        """
        if self.source is not Source.OWN:
            return offer, ()
        known = RetrieveResponse(catalogue_version=0, clauses=offer.clauses, candidates=offer.candidates)
        found, told = await look_up(self, needs, self._asked(query), known, left_s=0.0)
        return Offer(found.clauses, found.candidates), told.added

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = 0.0) -> RetrieveResponse:
        """The answer of the retriever service. Blocks while it encodes and searches."""
        found = self._offer(*self._find(request))
        return RetrieveResponse(catalogue_version=0, clauses=found.clauses, candidates=found.candidates)

    def _asked(self, query: str, vendors: tuple[str, ...] = ()) -> RetrieveRequest:
        return RetrieveRequest(query=query, k=self.k or SolveOptions().top_k, providers=vendors)

    def _vendors(self, instance: Instance) -> tuple[str, ...]:
        names = [call.api for call in instance.calls] or instance.tools or ()
        return tuple(sorted({self.apis[name].provider for name in names if name in self.apis}))

    def _find(self, asked: RetrieveRequest) -> tuple[tuple[Clause, ...], list[Hit]]:
        return find(self.snapshot, self.encoder, asked.query, asked.k, asked.suppliers, Filters.of(asked), self.options)

    def _offer(self, clauses: tuple[Clause, ...], hits: Sequence[Hit]) -> Offer:
        return Offer(clauses, tuple(hit.candidate(self.apis[hit.entry.id]) for hit in hits[:_MOST]))

    def _distracted(self, instance: Instance, needed: Sequence[str]) -> tuple[tuple[Clause, ...], list[Hit]]:
        own = self._places(needed)
        others = np.setdiff1d(np.arange(len(self.snapshot.entries)), own)
        _, near = self._rank(instance.query, others, self.distractors)
        clauses, hits = self._ranked(instance.query, self._places([*needed, *(hit.entry.id for hit in near)]))
        random.Random(f"{_SEED} {instance.id}").shuffle(hits)  # noqa: S311 - a repeatable order, not a secret
        return clauses, hits

    def _places(self, names: Iterable[str]) -> Ids:
        """The positions of these APIs in the index, in its order."""
        ids = self.snapshot.entries.ids
        return np.array(sorted({bisect_left(ids, name) for name in names if name in self.apis}), np.int64)

    def _rank(self, query: str, allowed: Ids, k: int) -> tuple[tuple[Clause, ...], list[Hit]]:
        options = dataclasses.replace(self.options, threshold=0.0)
        return rank(self.snapshot, self.encoder, query, max(k, 1), allowed, options)

    def _ranked(self, query: str, allowed: Ids) -> tuple[tuple[Clause, ...], list[Hit]]:
        clauses, hits = self._rank(query, allowed, len(allowed))
        ranked = {hit.entry.id for hit in hits}
        entries = [self.snapshot.entries[int(place)] for place in allowed]
        none = (0.0,) * len(clauses)
        return clauses, hits + [Hit(one, 0.0, 0.0, 0.0, 0, none) for one in entries if one.id not in ranked]


def check_lists(instances: Sequence[Instance]) -> None:
    """Check that every request has its own list of tools.

    Raises:
        DataError: one has none.
    """
    bare = [one for one in instances if not one.tools]
    if bare:
        raise DataError(
            f"{len(bare)} of {len(instances)} requests have no `tools` of their own ({bare[0].id} is the first): "
            "choose the candidates `own` or `gold`"
        )
