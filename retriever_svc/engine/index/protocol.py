"""The seam for vector search: what every index does, and where indexes come from."""

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
    """What an index was made from. A saved one is only loaded where all of it is as expected.

    Attributes:
        encoder: name of the encoder that made the vectors.
        dimension: their length.
        checksum: of the rest, as the caller likes: a digest of all ids and text hashes, say.
    """

    encoder: str
    dimension: int
    checksum: str


class VectorIndex(Protocol):
    """Vectors by integer id, 0 or more. A published index is never changed: take a ``copy``, change that, publish it.

    ``search`` and ``similarities`` may be called from several threads at once, also while a copy is being changed.
    Everything blocks: run it on a pool.
    """

    @property
    def size(self) -> int:
        """Vectors held."""
        ...

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """Add or replace vectors: (n,) ids, each once, and (n, d) float32 rows of length 1.

        Takes milliseconds for a few; an index that has grown far is trained anew, which takes a minute at a million.
        """
        ...

    def delete(self, ids: Ids) -> None:
        """Remove vectors; ids that are not there are ignored."""
        ...

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """The k nearest ids of each query, best first, and their cosine similarities: two (q, k') arrays.

        k' is k, or the number of vectors to be searched where that is less: there are no gaps.

        Args:
            queries: (q, d) float32, rows of length 1.
            k: how many.
            allowed: search among these ids only; those that are not there are ignored.
        """
        ...

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """Cosine similarity of every query to each of these ids, which must be there: (q, n)."""
        ...

    def copy(self) -> VectorIndex:
        """An index of its own with the same content. Cheap where the index is large: what is not changed is shared."""
        ...

    def save(self, path: Path, source: Source) -> None:
        """Write the index to a file, whole or not at all: a crash leaves what was there before.

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
        """The index that was saved there, ready to be searched and changed; changes never reach the file.

        None where there is no file, or one that is damaged, of another kind or format, or made from something else:
        the caller then fills an empty index. Nothing in such a file is trusted, and none makes this fail.

        Args:
            path: the file.
            source: what the index must have been made from.
            memory_mapped: leave the large part in the file, shared by all processes that map it, where the kind can.
                The file may be replaced by another one meanwhile (as ``save`` does), but not be written into.
        """
        ...

    def close(self) -> None:
        """Let go of connections; indexes that need them cannot be used any more."""
        ...


def as_ids(numbers: Sequence[int]) -> Ids:
    """Integer ids as the array that an index takes."""
    return np.asarray(numbers, dtype=np.int64)
