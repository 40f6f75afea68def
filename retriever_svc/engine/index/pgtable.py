"""The table of vectors behind ``pgvector``, with blocking methods for threads."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from retriever_svc.engine.index.protocol import Ids
from services.encoder import Vectors
from services.storage.engine import create_engine, read, write
from services.storage.refusals import opening

T = TypeVar("T")
Rows = Sequence[Row[Any]]
Found = tuple[int, int, float]
"""A row, its id and its similarity."""

_BATCH = 500
"""Vectors written in one transaction: about a second."""

_CREATE = (
    # If several replicas start at once, one creates the table and the others wait.
    "SELECT pg_advisory_xact_lock(7402918)",
    "CREATE EXTENSION IF NOT EXISTS vector",
    "CREATE TABLE IF NOT EXISTS {table} ("
    " row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " id bigint NOT NULL,"
    " digest text NOT NULL,"
    " vector vector({dimension}) NOT NULL,"
    " UNIQUE (id, digest))",
    "CREATE INDEX IF NOT EXISTS {table}_nearest ON {table} USING hnsw (vector vector_ip_ops)",
    # A separate table: updating a row of vectors would insert it into the graph again.
    "CREATE TABLE IF NOT EXISTS {table}_unwanted (row bigint PRIMARY KEY, since timestamptz NOT NULL DEFAULT now())",
)
_LOCK = "LOCK TABLE {table}_unwanted IN EXCLUSIVE MODE"
_KNOWN = """
WITH known AS (
    SELECT id, row FROM {table}
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:digests AS text[])) AS new (id, digest) USING (id, digest)
),
kept AS (DELETE FROM {table}_unwanted WHERE row IN (SELECT row FROM known))
SELECT id, row FROM known"""
_ADD = """
INSERT INTO {table} (id, digest, vector)
SELECT id, digest, CAST(vector AS vector)
FROM unnest(CAST(:ids AS bigint[]), CAST(:digests AS text[]), CAST(:vectors AS text[])) AS new (id, digest, vector)
RETURNING id, row"""
_MARK_UNWANTED = "INSERT INTO {table}_unwanted (row) SELECT unnest(CAST(:rows AS bigint[])) ON CONFLICT DO NOTHING"
_REMOVE_UNWANTED = """
WITH gone AS (DELETE FROM {table}_unwanted WHERE since < now() - interval '1 hour' RETURNING row)
DELETE FROM {table} WHERE row IN (SELECT row FROM gone)"""
_RECLAIM = """
WITH there AS (
    SELECT row FROM {table}
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:rows AS bigint[])) AS new (id, row) USING (id, row)
),
kept AS (DELETE FROM {table}_unwanted WHERE row IN (SELECT row FROM there))
SELECT count(*) FROM there"""
# Without iterative scans a filter would be applied to the first ef_search rows only.
_SET_SCAN = (
    "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', :breadth, true)"
)
_RANK = """
SELECT query.number, best.row, best.id, best.score
FROM unnest(CAST(CAST(:queries AS text[]) AS vector[])) WITH ORDINALITY AS query (vector, number),
LATERAL (
    SELECT row, id, -(candidate.vector <#> query.vector) AS score FROM {rows}
    ORDER BY candidate.vector <#> query.vector LIMIT :k
) AS best
ORDER BY query.number, best.score DESC"""
_NEAREST = _RANK.replace("{rows}", "{table} AS candidate")
_NEAREST_AMONG = _RANK.replace("{rows}", "{table} AS candidate WHERE row = ANY(:rows)")
_CANDIDATES = "WITH candidates AS MATERIALIZED (SELECT row, id, vector FROM {table} WHERE row = ANY(:rows))"
_COMPARED = _CANDIDATES + _RANK.replace("{rows}", "candidates AS candidate")
_EF_SEARCH = (100, 1_000)
"""Least and most candidates that a search of the graph keeps (``ef_search``); pgvector's own limit is 1,000."""


class Table:
    """The vectors of one encoder. Every method raises ServiceUnavailable if PostgreSQL cannot be reached.

    Args:
        database_url: ``postgresql+asyncpg://...``.
        encoder: name of the encoder; the table's name is derived from it.
        dimension: length of the vectors.
    """

    def __init__(self, database_url: str, encoder: str, dimension: int) -> None:
        self._dimension = dimension
        self._name = f"vectors_{hashlib.sha256(encoder.encode()).hexdigest()[:16]}"
        # The driver is asynchronous, and the callers are threads that block: so the table runs its own event loop.
        self._engine = create_engine(database_url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pgvector", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connections and end the thread."""
        asyncio.run_coroutine_threadsafe(self._engine.dispose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def create(self) -> None:
        """Create the table if it does not exist."""

        async def work(connection: AsyncConnection) -> None:
            async with opening(self._engine):  # the extension may not be installed
                for statement in _CREATE:
                    await connection.execute(self._text(statement))

        self._run(write, work)

    def add(self, ids: Ids, vectors: Vectors) -> Ids:
        """Add these vectors and return the row of each. Vectors that are stored already are not sent."""
        rows = dict[int, int]()
        for start in range(0, len(ids), _BATCH):
            rows |= self._run(write, self._adding(ids[start : start + _BATCH], vectors[start : start + _BATCH]))
        return np.array([rows[number] for number in ids.tolist()], np.int64)

    def mark_unwanted(self, rows: Ids) -> None:
        """Mark these rows as unwanted, and remove those that have been unwanted for an hour."""
        if len(rows):
            self._execute(write, (_LOCK, {}), (_MARK_UNWANTED, {"rows": rows.tolist()}), (_REMOVE_UNWANTED, {}))

    def reclaim(self, ids: Ids, rows: Ids) -> bool:
        """Whether all these rows exist with these ids. Rows that exist are no longer unwanted."""
        given = {"ids": ids.tolist(), "rows": rows.tolist()}
        found = self._execute(write, (_LOCK, {}), (_RECLAIM, given))
        return bool(found[0][0] == len(ids))

    def nearest(self, queries: Vectors, k: int, rows: Ids | None) -> list[list[Found]]:
        """About the ``k`` nearest rows of each query, by the graph; ``rows``: only among these."""
        given = {"queries": _texts(queries), "k": k}
        ranked = (_NEAREST, given) if rows is None else (_NEAREST_AMONG, given | {"rows": rows.tolist()})
        breadth = {"breadth": str(min(max(k, _EF_SEARCH[0]), _EF_SEARCH[1]))}
        return _by_query(self._execute(read, (_SET_SCAN, breadth), ranked), len(queries))

    def compared(self, queries: Vectors, k: int, rows: Ids) -> list[list[Found]]:
        """The ``k`` nearest of these rows for each query, exactly: all rows are compared."""
        given = {"queries": _texts(queries), "k": k, "rows": rows.tolist()}
        return _by_query(self._execute(read, (_COMPARED, given)), len(queries))

    def _adding(self, ids: Ids, vectors: Vectors) -> Callable[[AsyncConnection], Awaitable[dict[int, int]]]:
        digests = [hashlib.sha256(vector.tobytes()).hexdigest()[:32] for vector in vectors.astype("<f4")]

        async def work(connection: AsyncConnection) -> dict[int, int]:
            await connection.execute(self._text(_LOCK))
            known = await connection.execute(self._text(_KNOWN), {"ids": ids.tolist(), "digests": digests})
            rows = {found.id: found.row for found in known}
            new = [place for place, number in enumerate(ids.tolist()) if number not in rows]
            if new:
                given = {
                    "ids": ids[new].tolist(),
                    "digests": [digests[n] for n in new],
                    "vectors": _texts(vectors[new]),
                }
                rows |= {found.id: found.row for found in await connection.execute(self._text(_ADD), given)}
            return rows

        return work

    def _execute(self, transaction: Any, *statements: tuple[str, Mapping[str, Any]]) -> Rows:
        """The rows of the last of these statements, run as one transaction."""

        async def work(connection: AsyncConnection) -> Rows:
            *before, last = [(self._text(statement), given) for statement, given in statements]
            for statement, given in before:
                await connection.execute(statement, given)
            result = await connection.execute(*last)
            return result.all() if result.returns_rows else []

        return self._run(transaction, work)

    def _run(self, transaction: Any, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async def run() -> T:
            async with transaction(self._engine) as connection:
                return await work(connection)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _text(self, statement: str) -> Any:
        return text(statement.format(table=self._name, dimension=self._dimension))


def _texts(vectors: Vectors) -> list[str]:
    """Vectors as pgvector's text format, without loss of precision."""
    return [f"[{','.join(f'{value:.9g}' for value in vector)}]" for vector in vectors.tolist()]


def _by_query(rows: Rows, count: int) -> list[list[Found]]:
    found: list[list[Found]] = [[] for _ in range(count)]
    for hit in rows:
        found[hit.number - 1].append((hit.row, hit.id, hit.score))
    return found
