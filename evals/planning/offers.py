"""The candidates that a planner is given, as the retriever service would hand them on.

- ``own``: what the shipped retriever finds in the whole catalogue, suppliers included, for the budget of ``/solve``;
- ``given``: the request's own list of tools, in the data's form ``tools``;
- ``gold``: the APIs of the reference solution, each once.

For the last two the retriever ranks and scores these APIs alone, by the same code and with the statistics of the whole
catalogue; it is not allowed to refuse, and one that it leaves out comes last with score 0. Names that the catalogue
does not know are passed over.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evals.data import DataError, Instance
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.ranking import RankingOptions, find, rank
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.models import Hit
from services.contracts.api import Api, Candidate, Clause, RetrieveRequest
from services.contracts.run import SolveOptions
from services.encoder import Encoder

_MOST = 200
"""A planner takes no more candidates."""


class Source(StrEnum):
    """Where candidates come from."""

    OWN = "own"
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
        encoder: whose vectors the snapshot holds.
        options: how the service ranks.
        source: where the candidates come from.
    """

    snapshot: Snapshot
    apis: Mapping[str, Api]
    encoder: Encoder
    options: RankingOptions
    source: Source

    def offer(self, instance: Instance) -> Offer:
        """The candidates of a request. Blocks while it is encoded and searched."""
        clauses, hits = self._found(instance.query) if self.source is Source.OWN else self._ranked(instance)
        return Offer(clauses, tuple(hit.candidate(self.apis[hit.entry.id]) for hit in hits[:_MOST]))

    def _found(self, query: str) -> tuple[tuple[Clause, ...], list[Hit]]:
        asked = RetrieveRequest(query=query, k=SolveOptions().top_k)
        return find(self.snapshot, self.encoder, asked.query, asked.k, asked.suppliers, Filters.of(asked), self.options)

    def _ranked(self, instance: Instance) -> tuple[tuple[Clause, ...], list[Hit]]:
        names = instance.tools or () if self.source is Source.GIVEN else [call.api for call in instance.calls]
        ids = self.snapshot.entries.ids
        places = {bisect_left(ids, name) for name in names if name in self.apis}
        allowed = np.array(sorted(places), np.int64)
        options = dataclasses.replace(self.options, threshold=0.0)
        clauses, hits = rank(self.snapshot, self.encoder, instance.query, max(len(allowed), 1), allowed, options)
        ranked = {hit.entry.id for hit in hits}
        entries = [self.snapshot.entries[int(place)] for place in allowed]
        none = (0.0,) * len(clauses)
        return clauses, hits + [Hit(one, 0.0, 0.0, 0.0, 0, none) for one in entries if one.id not in ranked]


def check_lists(instances: Sequence[Instance]) -> None:
    """Whether every request has its own list of tools.

    Raises:
        DataError: one has none.
    """
    bare = [one for one in instances if not one.tools]
    if bare:
        raise DataError(
            f"{len(bare)} of {len(instances)} requests have no `tools` of their own ({bare[0].id} is the first): "
            "choose the candidates `own` or `gold`"
        )
