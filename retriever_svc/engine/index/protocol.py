"""The interface for vector search: what every index does, and how indexes are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.encoder import Vectors

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """What an index was made from. A saved index is loaded only if its source is the expected one.

    Attributes:
        encoder: name of the encoder that made the vectors.
        dimension: length of the vectors.
        checksum: the caller's checksum of everything else, such as a digest of all ids and text hashes.
    """

    encoder: str
    dimension: int
    checksum: str


class VectorIndex(Protocol):
    """Vectors by integer id, 0 or more. A published index is never changed: take a ``copy``, change that, publish it.

    ``search`` and ``similarities`` may be called from several threads at once, also while a copy is being changed.
    All methods block: run them on a pool.
    """

    @property
    def size(self) -> int:
        """Vectors held."""
        ...

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """Add or replace vectors: (n,) ids, each once, and (n, d) float32 rows of length 1.

        This takes milliseconds for a few vectors. An index that has grown a lot is trained again, which takes a minute
        for a million vectors.
        """
        ...

    def delete(self, ids: Ids) -> None:
        """Remove vectors; unknown ids are ignored."""
        ...

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """The k nearest ids of each query, best first, and their cosine similarities: two (q, k') arrays.

        k' is k, or the number of searched vectors if that is smaller: there are no gaps.

        Args:
            queries: (q, d) float32, rows of length 1.
            k: number of results per query.
            allowed: search only among these ids; unknown ones are ignored.
        """
        ...

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """Cosine similarity of every query to each of these ids, which must exist: (q, n)."""
        ...

    def copy(self) -> VectorIndex:
        """An independent copy. It is cheap for large indexes: unchanged parts are shared."""
        ...

    def save(self, path: Path, source: Source) -> None:
        """Write the index to a file atomically: a crash leaves the old file.

        Raises:
            OSError: it cannot be written.
        """
        ...


class Indexes(Protocol):
    """Indexes of one kind, for one encoder."""

    def empty(self) -> VectorIndex:
        """An index without vectors."""
        ...

    def load(self, path: Path, source: Source, *, memory_mapped: bool = True) -> VectorIndex | None:
        """The index that was saved there, ready to be searched and changed; changes are not written to the file.

        Returns None if the file does not exist, is damaged, is of another kind or format, or has another source: the
        caller then fills an empty index. A damaged file never raises an error.

        Args:
            path: the file.
            source: what the index must have been made from.
            memory_mapped: leave the large part in the file, shared by all processes that map it, if the kind supports
                it. The file may be replaced while it is mapped (as ``save`` does), but must not be changed in place.
        """
        ...

    def close(self) -> None:
        """Close connections. Indexes that need them can no longer be used."""
        ...


def as_ids(numbers: Sequence[int]) -> Ids:
    """Integer ids as the array that an index takes."""
    return np.asarray(numbers, dtype=np.int64)
