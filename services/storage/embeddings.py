"""Vectors of texts in SQL, keyed by the text's hash and the encoder's name, so that no text is encoded twice.

The service that owns the database adds the table to its own metadata and decides which texts are still needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Column, LargeBinary, MetaData, Select, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.encoder import Vectors

T = TypeVar("T")
_CHUNK = 1_000
"""Values in one ``IN (...)``: well below the limit of bound parameters of either database."""
_ALL_AT_ONCE = 10 * _CHUNK


class VectorsRemoved(Exception):
    """Texts that had a vector have none any more: what had them was removed. They must be encoded before they are used.

    Otherwise whoever reads them next, for any tenant, would have to wait until they are.
    """


def embeddings_table(metadata: MetaData) -> Table:
    """The table ``embeddings``: text hash, encoder name, vector as little-endian float32."""
    return Table(
        "embeddings",
        metadata,
        Column("text_hash", String(64), primary_key=True),
        Column("encoder", String(400), primary_key=True),
        Column("vector", LargeBinary, nullable=False),
    )


async def read_vectors(
    connection: AsyncConnection, table: Table, encoder: str, hashes: Sequence[str]
) -> dict[str, Vectors]:
    """The stored vectors of these texts, each (d,) float32, by hash."""
    columns = select(table.c.text_hash, table.c.vector).where(table.c.encoder == encoder)
    wanted, found = set(hashes), dict[str, Vectors]()
    # For many hashes, reading the whole table is faster than many IN lists.
    queries: Iterable[Select[Any]] = (
        [columns]
        if len(wanted) > _ALL_AT_ONCE
        else (columns.where(table.c.text_hash.in_(chunk)) for chunk in chunks(list(wanted)))
    )
    for query in queries:
        for row in await connection.execute(query):
            if row.text_hash in wanted:
                found[row.text_hash] = np.frombuffer(row.vector, "<f4")
    return found


async def known_vectors(connection: AsyncConnection, table: Table, encoder: str, hashes: Sequence[str]) -> set[str]:
    """The subset of the hashes that have a vector of this encoder."""
    known = set[str]()
    for chunk in chunks(hashes):
        query = select(table.c.text_hash).where(table.c.encoder == encoder, table.c.text_hash.in_(chunk))
        known.update(await connection.scalars(query))
    return known


async def keep_vectors(connection: AsyncConnection, table: Table, encoder: str, vectors: Mapping[str, Vectors]) -> None:
    """Store vectors by the hash of their text. Existing vectors are not changed."""
    there = await known_vectors(connection, table, encoder, list(vectors))
    rows = [
        {"text_hash": key, "encoder": encoder, "vector": np.asarray(vector, "<f4").tobytes()}
        for key, vector in vectors.items()
        if key not in there
    ]
    if rows:
        await connection.execute(insert(table), rows)


async def refuse_removed(connection: AsyncConnection, table: Table, encoder: str, hashes: Sequence[str]) -> None:
    """Raise VectorsRemoved unless each of these hashes has a vector of this encoder."""
    if len(await known_vectors(connection, table, encoder, hashes)) < len(set(hashes)):
        raise VectorsRemoved


def chunks(values: Sequence[T], size: int = _CHUNK) -> Iterable[Sequence[T]]:
    """Split the values into lists, by default short enough for one ``IN (...)``."""
    return (values[start : start + size] for start in range(0, len(values), size))
