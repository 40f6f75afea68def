"""Vector search in PostgreSQL with pgvector: one store for the catalogue and its vectors, shared by all replicas.

A row of the table is a vector of an id. It is never changed, only added, and removed long after its last use. Only the
index itself knows which rows it consists of: its *members*, two arrays in memory. So a search never sees a partial
change, a copy costs nothing, and replicas that make the same change, at any time, add the same rows once. A row that an
index has dropped stays for an hour, because other replicas may still use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import make_url

from retriever_svc.engine.index import files
from retriever_svc.engine.index.pgtable import Found, Table
from retriever_svc.engine.index.protocol import Ids, Source
from services.encoder import Vectors
from services.errors import UnusableSettings

_KIND = "pgvector"
_EXACT = 5_000
"""If a filter leaves at most this many vectors, all are compared: a search of the graph would take longer."""
_SPARE = 16
"""Additional rows to ask for, since some may be no members."""
_MAX_DIMENSION = 2_000
"""pgvector's limit for an HNSW index."""


class PgVectorIndex:
    """A vector index in PostgreSQL. Raises ServiceUnavailable if PostgreSQL cannot be reached.

    Args:
        table: the table of the rows.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._members = _Members(np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def size(self) -> int:
        """Vectors held."""
        return len(self._members.ids)

    def upsert(self, ids: Ids, vectors: Vectors) -> None:
        """See :class:`VectorIndex`."""
        self._set_members(self._members.without(ids).with_rows(ids, self._table.add(ids, vectors)))

    def delete(self, ids: Ids) -> None:
        """See :class:`VectorIndex`."""
        self._set_members(self._members.without(ids))

    def search(self, queries: Vectors, k: int, allowed: Ids | None = None) -> tuple[Ids, Vectors]:
        """See :class:`VectorIndex`."""
        members = self._members if allowed is None else self._members.only(allowed)
        k = min(k, len(members.ids))
        if not k or not len(queries):
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        if allowed is None or len(members.rows) > _EXACT:
            found = self._table.nearest(queries, k + _SPARE, None if allowed is None else members.rows)
            ranked = [[hit for hit in hits if members.has(*hit[:2])][:k] for hits in found]
            if all(len(hits) == k for hits in ranked):
                return _arrays(ranked)
        return _arrays(self._table.compared(queries, k, members.rows))

    def similarities(self, queries: Vectors, ids: Ids) -> Vectors:
        """See :class:`VectorIndex`."""
        result = np.zeros((len(queries), len(ids)), np.float32)
        place = {number: column for column, number in enumerate(ids.tolist())}
        found = self._table.compared(queries, len(ids), self._members.only(ids).rows) if result.size else []
        for query, hits in enumerate(found):
            for _, number, score in hits:
                result[query, place[number]] = score
        return result

    def copy(self) -> PgVectorIndex:
        """See :class:`VectorIndex`."""
        other = PgVectorIndex(self._table)
        other._members = self._members
        return other

    def save(self, path: Path, source: Source) -> None:
        """See :class:`VectorIndex`. The vectors stay in PostgreSQL; the file holds only the members."""
        files.save(path, _KIND, source, {"ids": self._members.ids, "rows": self._members.rows})

    def restore(self, ids: Ids, rows: Ids) -> bool:
        """Make these rows the members, if the table has them all; returns whether it has."""
        if not self._table.reclaim(ids, rows):
            return False
        self._members = _Members(ids, rows)
        return True

    def _set_members(self, members: _Members) -> None:
        self._table.mark_unwanted(np.setdiff1d(self._members.rows, members.rows))
        self._members = members


class PgVectorIndexes:
    """See :class:`Indexes`.

    Args:
        database_url: ``postgresql+asyncpg://...``.
        encoder: name of the encoder; each has its own table.
        dimension: length of the vectors.

    Raises:
        UnusableSettings: the URL is that of another database, or the vectors are too long.
    """

    def __init__(self, database_url: str, encoder: str, dimension: int) -> None:
        if make_url(database_url).get_backend_name() != "postgresql":
            raise UnusableSettings("the index `pgvector` needs a catalogue in PostgreSQL")
        if dimension > _MAX_DIMENSION:
            raise UnusableSettings(f"the index `pgvector` takes vectors of up to {_MAX_DIMENSION} components")
        self._table = Table(database_url, encoder, dimension)

    def empty(self) -> PgVectorIndex:
        """See :class:`Indexes`."""
        self._table.create()
        return PgVectorIndex(self._table)

    def load(self, path: Path, source: Source, *, memory_mapped: bool = True) -> PgVectorIndex | None:
        """See :class:`Indexes`. Nothing is mapped: the file is small."""
        saved = files.load(path, _KIND, source, memory_mapped=False)
        if saved is None:
            return None
        index = self.empty()
        return index if index.restore(saved.arrays["ids"], saved.arrays["rows"]) else None

    def close(self) -> None:
        """See :class:`Indexes`."""
        self._table.close()


@dataclass(frozen=True, slots=True)
class _Members:
    """The rows of an index: (n,) ids, ascending, and the row of each."""

    ids: Ids
    rows: Ids

    def without(self, ids: Ids) -> _Members:
        kept = ~np.isin(self.ids, ids)
        return _Members(self.ids[kept], self.rows[kept])

    def only(self, ids: Ids) -> _Members:
        kept = np.isin(self.ids, ids)
        return _Members(self.ids[kept], self.rows[kept])

    def with_rows(self, ids: Ids, rows: Ids) -> _Members:
        """These members and others, whose ids must be new."""
        every = np.concatenate([self.ids, ids])
        order = np.argsort(every)
        return _Members(every[order], np.concatenate([self.rows, rows])[order])

    def has(self, row: int, number: int) -> bool:
        place = int(np.searchsorted(self.ids, number))
        return place < len(self.ids) and self.ids[place] == number and self.rows[place] == row


def _arrays(found: list[list[Found]]) -> tuple[Ids, Vectors]:
    ids = np.array([[hit[1] for hit in hits] for hits in found], np.int64)
    return ids, np.array([[hit[2] for hit in hits] for hits in found], np.float32)
