"""The part of the catalogue that a request's tenant sees.

All statistics that enter a score are taken over this part: how rare a word is, how long a text is on average, how many
APIs a provider has, which providers a request may name. So no score depends on what other tenants import, and none
tells which words they use. Nothing is kept for a tenant: a sight lasts for one search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.lexical import LexicalIndex, Mask
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.vectors import Ids


@dataclass(frozen=True, slots=True)
class Sight:
    """What a tenant sees of a snapshot.

    Attributes:
        mask: (n,) whether it sees the API at each position; None: it sees all.
        lexical: the snapshot's word index, over the APIs it sees.
        outputs: the snapshot's word index of outputs, over the APIs it sees.
        sizes: (p,) number of each provider's APIs that it sees.
    """

    mask: Mask | None
    lexical: LexicalIndex
    outputs: LexicalIndex
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, snapshot: Snapshot, mask: Mask | None = None) -> Self:
        """The sight of a tenant that sees the APIs at these positions; None: all."""
        if mask is None:
            return cls(None, snapshot.lexical, snapshot.outputs, snapshot.sizes)
        sizes = np.bincount(snapshot.facts.owners[mask], minlength=len(snapshot.names))
        return cls(mask, snapshot.lexical.within(mask), snapshot.outputs.within(mask), sizes)

    def of_positions(self, positions: Ids) -> Ids:
        """Those of the positions that it sees, in their order."""
        return positions if self.mask is None else positions[self.mask[positions]]
