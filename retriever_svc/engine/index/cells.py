"""Compact storage of many vectors: FAISS's IVF with an 8-bit scalar quantiser, written once and then only read.

An IVF sorts vectors into *cells* around centroids learned from a sample; a search probes only the cells nearest to the
query. The quantiser stores one byte per component. Within FAISS a vector is identified by its *row*, in order of id.

The rules, for n vectors (measured by ``python -m bench --only index``):

* number of cells: the power of two nearest to 2 sqrt(n), so that finding the nearest cells and probing them cost alike;
* training: on 64 vectors per cell; k-means gains nothing visible from more, and its time grows with them;
* probing: as many cells as hold one vector in 8, and at least 50,000, of those that pass the filter. A request lies
  between cells: to find its neighbours it needs several times as many cells as a text of the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from retriever_svc.engine.index.files import Saved
from retriever_svc.engine.index.protocol import Ids
from services.encoder import Vectors

SAMPLED_PER_CELL = 64
_LOOKED_AT = 8
_FEWEST_LOOKED_AT = 50_000
_ITERATIONS = 10
_MARGIN = 0.1
"""How far the quantiser's range exceeds the sample's, as a share of it. Values outside are clipped."""
_CHUNK = 20_000
"""Vectors decoded to float32 at a time: 30 MB."""

Rows = NDArray[np.bool_]
Part = tuple[Ids, Vectors]


def cells_for(size: int) -> int:
    """The number of cells for this many vectors."""
    return int(2 ** round(math.log2(max(2 * math.sqrt(size), 1))))


@dataclass(frozen=True)
class Cells:
    """Vectors in cells. Immutable, so that several indexes can share it.

    Attributes:
        faiss: the ``IndexIVFScalarQuantizer``; it may be in a mapped file, where writing would fail.
        ids: (n,) the id of each row, ascending.
        trained_for: number of vectors when the centroids were learned.
        content: what to write to a file: the same as ``faiss``, or the mapped bytes that it was read from.
    """

    faiss: Any
    ids: Ids
    trained_for: int
    content: Any

    @classmethod
    def trained(cls, sample: Vectors, ids: Ids, parts: Iterable[Part]) -> Cells:
        """New cells, learned from a sample, with these vectors in them.

        Args:
            sample: (m, d) vectors to learn from.
            ids: (n,) ids of all parts, ascending.
            parts: ids and vectors, each vector once.
        """
        index = _new(faiss.IndexFlatIP(sample.shape[1]), cells_for(len(ids)))
        index.cp.niter = _ITERATIONS
        index.cp.min_points_per_centroid = 1  # otherwise it warns on standard error if the sample is small
        index.sq.rangestat_arg = _MARGIN
        index.train(sample)
        return _filled(index, ids, parts, len(ids))

    @classmethod
    def opened(cls, saved: Saved) -> Cells:
        """The cells that were read from a file, memory-mapped or not."""
        lists = faiss.downcast_InvertedLists(saved.faiss.invlists)
        if isinstance(lists, faiss.OnDiskInvertedLists):
            lists.prefetch_nthread = 0  # by default every search starts 32 threads, which takes longer than the search
        content = saved.faiss if saved.faiss_bytes is None else saved.faiss_bytes
        return cls(saved.faiss, saved.arrays["ids"], saved.notes["trained_for"], content)

    def replaced(self, kept: Rows, ids: Ids, parts: Iterable[Part]) -> Cells:
        """A copy with the same centroids and other content: the rows kept, and these vectors.

        Args:
            kept: (n,) whether each row stays.
            ids: ids of the kept rows and of all parts, ascending.
            parts: ids and vectors, each vector once.
        """
        index = _new(faiss.clone_index(self.faiss.quantizer), self.faiss.nlist)
        faiss.copy_array_to_vector(faiss.vector_to_array(self.faiss.sq.trained), index.sq.trained)
        index.is_trained = True
        moved = np.searchsorted(ids, self.ids)
        for cell in range(index.nlist):
            rows, codes = _content(self.faiss, cell)
            staying = kept[rows]
            if staying.any():
                _append(index, cell, moved[rows[staying]], codes[staying])
        index.ntotal = int(kept.sum())
        return _filled(index, ids, parts, self.trained_for)

    def rows(self, ids: Ids) -> Ids:
        """The rows of these ids; ids that are not here are left out."""
        places = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        found: Ids = places[self.ids[places] == ids] if len(self.ids) else np.empty(0, np.int64)
        return found

    def vectors(self, rows: Ids) -> Vectors:
        """(m, d) the decoded vectors of these rows."""
        vectors: Vectors = self.faiss.reconstruct_batch(rows)
        return vectors

    def parts(self, kept: Rows) -> Iterator[Part]:
        """The ids and vectors of the kept rows, in chunks."""
        rows = np.flatnonzero(kept)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            yield self.ids[chunk], self.vectors(chunk)

    def search(self, queries: Vectors, k: int, searched: Rows | None) -> tuple[Ids, Vectors]:
        """See ``VectorIndex.search``.

        Args:
            queries: (q, d).
            k: number of results; at most the number of searched rows.
            searched: (n,) whether each row is searched; None: all.
        """
        cells, there, bits, selector = self.faiss.nlist, len(self.ids), None, None
        if searched is not None:
            there = int(np.count_nonzero(searched))
            bits = np.packbits(
                searched, bitorder="little"
            )  # FAISS keeps only a pointer: it must live until the search ends
            selector = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
        looked_at = max(_FEWEST_LOOKED_AT, len(self.ids) / _LOOKED_AT)
        probed = min(math.ceil(cells * looked_at / max(there, 1)), cells)
        rows, scores = self._probe(queries, k, probed, selector)
        gaps = np.flatnonzero((rows < 0).any(axis=1))
        if len(gaps):  # the cells nearest to these queries held fewer than k
            rows[gaps], scores[gaps] = self._probe(queries[gaps], k, cells, selector)
        return self.ids[rows], scores

    def _probe(self, queries: Vectors, k: int, probed: int, selector: Any) -> tuple[Ids, Vectors]:
        options = faiss.SearchParametersIVF(nprobe=probed, sel=selector)  # type: ignore[call-arg]
        # OpenMP keeps this setting per thread. A request uses one thread: under load, more would wait for each other.
        faiss.omp_set_num_threads(1)
        scores, rows = self.faiss.search(queries, k, params=options)
        return rows, scores


def _new(centroids: Any, cells: int) -> Any:
    """An empty index. It stores the vectors, not their residuals to the centroids.

    Residuals would make the codes slightly more precise, but the query would have to be prepared for every cell.
    """
    kind, metric = faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    return faiss.IndexIVFScalarQuantizer(centroids, centroids.d, cells, kind, metric, False)


def _filled(index: Any, ids: Ids, parts: Iterable[Part], trained_for: int) -> Cells:
    for part, vectors in parts:
        index.add_with_ids(np.ascontiguousarray(vectors, np.float32), np.searchsorted(ids, part))
    index.make_direct_map(True)  # from a row to its place, for ``vectors``
    return Cells(index, ids, trained_for, index)


def _content(index: Any, cell: int) -> tuple[Ids, NDArray[np.uint8]]:
    """Rows and codes of a cell, copied."""
    lists = index.invlists
    size, width = lists.list_size(cell), lists.code_size
    if not size:
        return np.empty(0, np.int64), np.empty((0, width), np.uint8)
    rows = faiss.rev_swig_ptr(lists.get_ids(cell), size).copy()
    codes = faiss.rev_swig_ptr(lists.get_codes(cell), size * width).reshape(size, width).copy()
    return rows, codes


def _append(index: Any, cell: int, rows: Ids, codes: NDArray[np.uint8]) -> None:
    index.invlists.add_entries(cell, len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(codes))
