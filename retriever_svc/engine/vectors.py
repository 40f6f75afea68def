"""The seam for vector search, and its implementation on FAISS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from services.encoder import Vectors

Ids = NDArray[np.int64]


class VectorIndex(Protocol):
    """Vectors by integer id. A published index is never changed: take a ``copy``, change that, publish it."""

    @property
    def size(self) -> int:
        """Vectors held."""
        ...

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """Add or replace vectors: (n,) ids and (n, d) float32 rows of length 1."""
        ...

    def delete(self, ids: Ids) -> None:
        """Remove vectors; ids that are not there are ignored."""
        ...

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """The k nearest ids of each query, best first, and their cosine similarities: two (q, k') arrays, k' <= k.

        Args:
            queries: (q, d) float32, rows of length 1.
            k: how many.
            allowed: search among these ids only.
        """
        ...

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """Cosine similarity of every query to each of these ids, which must be there: (q, n)."""
        ...

    def copy(self) -> VectorIndex:
        """An index of its own with the same content."""
        ...


class FlatIndex:
    """Exact search: ``IndexIDMap2(IndexFlatIP)``. Right up to about 100,000 vectors (6 ms a query at 384 dimensions).

    Args:
        dimension: length of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))

    @property
    def size(self) -> int:
        """Vectors held."""
        return int(self._index.ntotal)

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """See :class:`VectorIndex`."""
        self.delete(ids)
        self._index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def delete(self, ids: Ids) -> None:
        """See :class:`VectorIndex`."""
        if self.size and len(ids):
            self._index.remove_ids(faiss.IDSelectorBatch(ids))

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """See :class:`VectorIndex`."""
        k = min(k, self.size if allowed is None else len(allowed))
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        options = (
            {}
            if allowed is None
            else {
                "params": faiss.SearchParameters(  # type: ignore[call-arg]
                    sel=faiss.IDSelectorBatch(allowed)
                )
            }
        )
        # OpenMP keeps this per thread. A request is one thread's work: more of them wait for each other under load.
        faiss.omp_set_num_threads(1)
        scores, ids = self._index.search(queries, k, **options)
        return ids, scores

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """See :class:`VectorIndex`."""
        rows: Vectors = self._index.reconstruct_batch(ids)
        result: Vectors = queries @ rows.T
        return result

    def copy(self) -> FlatIndex:
        """See :class:`VectorIndex`."""
        other = FlatIndex.__new__(FlatIndex)
        other._index = faiss.clone_index(self._index)
        return other


def as_ids(numbers: Sequence[int]) -> Ids:
    """Integer ids as the array that an index takes."""
    return np.asarray(numbers, dtype=np.int64)
