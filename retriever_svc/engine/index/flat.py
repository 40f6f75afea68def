"""Exhaustive search: every vector is compared, at half precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.index import files
from retriever_svc.engine.index.protocol import Ids, Source
from services.encoder import Vectors

_KIND = "flat"
_CHUNK = 4_096


class FlatIndex:
    """Compares every vector: suitable for up to about 100,000 (2 ms a query at 384 dimensions).

    Vectors are stored as 16-bit floats, which changes a cosine by less than 0.0005. A search is bound by reading them
    from memory: half the bytes take half the time and half the memory (docs/adr/0008).

    Args:
        dimension: length of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        half = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        self._index: Any = faiss.IndexIDMap2(half)

    @property
    def size(self) -> int:
        """Vectors held."""
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self._index.d)

    @property
    def ids(self) -> Ids:
        """(n,) the ids held, in the order of ``vectors``."""
        ids: Ids = faiss.vector_to_array(self._index.id_map)
        return ids

    @property
    def vectors(self) -> NDArray[np.float16]:
        """(n, d) the vectors held, at half precision."""
        stored: Any = faiss.downcast_index(self._index.index)
        vectors: NDArray[np.float16] = faiss.vector_to_array(stored.codes).view(np.float16).reshape(-1, self.dimension)
        return vectors

    def upsert(self, ids: Ids, vectors: Vectors | NDArray[np.float16]) -> None:
        """See :class:`VectorIndex`. Also accepts 16-bit floats, as ``vectors`` returns them."""
        self.delete(ids)
        for start in range(0, len(ids), _CHUNK):  # in chunks, to bound the memory of the copy at full precision
            part = slice(start, start + _CHUNK)
            self._index.add_with_ids(np.ascontiguousarray(vectors[part], dtype=np.float32), ids[part])

    def delete(self, ids: Ids) -> None:
        """See :class:`VectorIndex`."""
        if self.size and len(ids):
            self._index.remove_ids(faiss.IDSelectorBatch(ids))

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """See :class:`VectorIndex`."""
        k = min(k, self.size if allowed is None else len(allowed))
        if k == 0 or not self.size or not len(queries):
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
        # OpenMP keeps this setting per thread. A request uses one thread: under load, more would wait for each other.
        faiss.omp_set_num_threads(1)
        scores, ids = self._index.search(queries, k, **options)
        found = ids[0] >= 0  # ids that are not here leave gaps, the same number for every query
        return ids[:, found], scores[:, found]

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

    def save(self, path: Path, source: Source) -> None:
        """See :class:`VectorIndex`."""
        files.save(path, _KIND, source, {"ids": self.ids, "vectors": self.vectors})


class FlatIndexes:
    """See :class:`Indexes`.

    Args:
        dimension: length of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    def empty(self) -> FlatIndex:
        """See :class:`Indexes`."""
        return FlatIndex(self._dimension)

    def load(self, path: Path, source: Source, *, memory_mapped: bool = True) -> FlatIndex | None:
        """See :class:`Indexes`. It is read into memory: it is small, and FAISS adds to such an index in place."""
        saved = files.load(path, _KIND, source, memory_mapped=memory_mapped)
        if saved is None:
            return None
        index = self.empty()
        index.upsert(saved.arrays["ids"], saved.arrays["vectors"])
        return index

    def close(self) -> None:
        """See :class:`Indexes`."""
