"""Approximate search for large catalogues: exact for few vectors, cells for many.

There are two layers. The *cells* hold nearly everything and never change; copies of an index share them, and so do
processes that map the same file. Vectors that were added or replaced later are in a small exact index, *recent*; those
that were replaced or deleted are marked *dead* in the cells. A search asks both layers. So to change one vector of a
million, only the recent ones are copied. When there are too many of them, new cells are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from retriever_svc.engine.index import files
from retriever_svc.engine.index.cells import SAMPLED_PER_CELL, Cells, Part, Rows, cells_for
from retriever_svc.engine.index.flat import FlatIndex
from retriever_svc.engine.index.protocol import Ids, Source
from services.encoder import Vectors

_KIND = "ivf"
_GROWTH = 4
"""Cells are trained again once there are this many times more, or fewer, vectors than they were trained for."""
_DEAD = 4
"""Cells are written again once one in this many of their vectors is dead."""


class IvfIndex:
    """A vector index with the two layers that the module describes.

    Args:
        dimension: length of the vectors.
        train_at: up to this many vectors, search is exact.
        recent: most vectors outside of the cells; a search compares all of them.
    """

    def __init__(self, dimension: int, *, train_at: int = 100_000, recent: int = 10_000) -> None:
        self._train_at, self._most_recent = train_at, recent
        self._recent = FlatIndex(dimension)
        self.cells: Cells | None = None
        """None while search is exact."""
        self._alive: Rows = np.empty(0, bool)
        """Which of the cells' rows are not dead. Replaced, never changed in place: copies share it."""

    @property
    def size(self) -> int:
        """Vectors held."""
        return int(np.count_nonzero(self._alive)) + self._recent.size

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """See :class:`VectorIndex`."""
        self._mark_dead(ids)
        self._recent.upsert(ids, vectors)
        self._maintain()

    def delete(self, ids: Ids) -> None:
        """See :class:`VectorIndex`."""
        self._mark_dead(ids)
        self._recent.delete(ids)
        self._maintain()

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """See :class:`VectorIndex`."""
        if self.cells is None:
            return self._recent.search(queries, k, allowed)
        searched = self._searched(self.cells, allowed)
        within = min(k, len(self._alive) if searched is None else int(np.count_nonzero(searched)))
        if allowed is not None:  # only the recent ones: FAISS would put all ids into a set
            allowed = self._recent.ids[np.isin(self._recent.ids, allowed)]
        ids, scores = self._recent.search(queries, k, allowed)
        if within and len(queries):
            more_ids, more_scores = self.cells.search(queries, within, searched)
            ids, scores = np.hstack([ids, more_ids]), np.hstack([scores, more_scores])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(ids, best, axis=1), np.take_along_axis(scores, best, axis=1)

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """See :class:`VectorIndex`."""
        if self.cells is None:
            return self._recent.similarities(queries, ids)
        recent = np.isin(ids, self._recent.ids)
        result = np.empty((len(queries), len(ids)), np.float32)
        result[:, recent] = self._recent.similarities(queries, ids[recent])
        result[:, ~recent] = queries @ self.cells.vectors(self.cells.rows(ids[~recent])).T
        return result

    def copy(self) -> IvfIndex:
        """See :class:`VectorIndex`."""
        other = IvfIndex.__new__(IvfIndex)
        other.__dict__.update(self.__dict__)
        other._recent = self._recent.copy()
        return other

    def save(self, path: Path, source: Source) -> None:
        """See :class:`VectorIndex`."""
        arrays: dict[str, files.Array] = {"recent_ids": self._recent.ids, "recent_vectors": self._recent.vectors}
        if self.cells is None:
            files.save(path, _KIND, source, arrays)
            return
        arrays |= {"ids": self.cells.ids, "alive": self._alive}
        files.save(path, _KIND, source, arrays, {"trained_for": self.cells.trained_for}, self.cells.content)

    def fill(self, saved: files.Saved) -> None:
        """Load the content of a file into this empty index."""
        self._recent.upsert(np.array(saved.arrays["recent_ids"]), saved.arrays["recent_vectors"])
        if saved.faiss is not None:
            self.cells = Cells.opened(saved)
            self._alive = np.array(saved.arrays["alive"])

    def _searched(self, cells: Cells, allowed: Ids | None) -> Rows | None:
        """Which of the cells' rows are searched; None: all."""
        if allowed is None:
            return None if self._alive.all() else self._alive
        chosen = np.zeros(len(self._alive), bool)
        chosen[cells.rows(allowed)] = True
        return chosen & self._alive

    def _mark_dead(self, ids: Ids) -> None:
        """Mark these as dead in the cells."""
        if self.cells is not None:
            self._alive = self._alive.copy()
            self._alive[self.cells.rows(ids)] = False

    def _maintain(self) -> None:
        """Train or write cells if they are due."""
        size = self.size
        if self.cells is None:
            if size > self._train_at:
                self._train()
        elif size > self._train_at and not 1 / _GROWTH <= size / self.cells.trained_for <= _GROWTH:
            self._train()
        elif self._recent.size > self._most_recent or size - self._recent.size < len(self._alive) * (1 - 1 / _DEAD):
            ids = self._ids()
            self._replace_cells(self.cells.replaced(self._alive, ids, self._recent_part()))

    def _train(self) -> None:
        ids = self._ids()
        chance = np.random.default_rng(0)  # the same catalogue gives the same cells on every replica
        wanted = min(SAMPLED_PER_CELL * cells_for(len(ids)), len(ids))
        chosen = np.sort(chance.choice(ids, wanted, replace=False))
        sample = np.concatenate([vectors[np.isin(part, chosen)] for part, vectors in self._parts()])
        self._replace_cells(Cells.trained(sample, ids, self._parts()))

    def _replace_cells(self, cells: Cells) -> None:
        """Make these the cells. They hold all vectors, so nothing is recent or dead."""
        self.cells, self._alive = cells, np.ones(len(cells.ids), bool)
        self._recent = FlatIndex(self._recent.dimension)

    def _ids(self) -> Ids:
        """The ids of all vectors, ascending."""
        older = np.empty(0, np.int64) if self.cells is None else self.cells.ids[self._alive]
        return np.sort(np.concatenate([older, self._recent.ids]))

    def _parts(self) -> Iterator[Part]:
        """All ids and vectors, in parts."""
        if self.cells is not None:
            yield from self.cells.parts(self._alive)
        yield from self._recent_part()

    def _recent_part(self) -> Iterator[Part]:
        if self._recent.size:
            yield self._recent.ids, self._recent.vectors.astype(np.float32)


class IvfIndexes:
    """See :class:`Indexes`.

    Args:
        dimension: length of the vectors.
        train_at: up to this many vectors, search is exact.
        recent: most vectors outside of the cells.
    """

    def __init__(self, dimension: int, *, train_at: int = 100_000, recent: int = 10_000) -> None:
        self._dimension, self._train_at, self._recent = dimension, train_at, recent

    def empty(self) -> IvfIndex:
        """See :class:`Indexes`."""
        return IvfIndex(self._dimension, train_at=self._train_at, recent=self._recent)

    def load(self, path: Path, source: Source, *, memory_mapped: bool = True) -> IvfIndex | None:
        """See :class:`Indexes`. The cells stay in the file."""
        saved = files.load(path, _KIND, source, memory_mapped=memory_mapped)
        if saved is None:
            return None
        index = self.empty()
        index.fill(saved)
        return index

    def close(self) -> None:
        """See :class:`Indexes`."""
