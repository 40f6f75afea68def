"""Vector search: the interface and its implementations. They are in the package ``index``."""

from __future__ import annotations

from retriever_svc.engine.index.flat import FlatIndex, FlatIndexes
from retriever_svc.engine.index.ivf import IvfIndexes
from retriever_svc.engine.index.protocol import Ids, Indexes, Source, VectorIndex, as_ids
from retriever_svc.settings import IndexKind

__all__ = ["FlatIndex", "Ids", "Indexes", "Source", "VectorIndex", "as_ids", "open_indexes"]

_EXACT_UNTIL = 100_000
_FEWEST_FOR_CELLS = 1_000


def open_indexes(kind: IndexKind, encoder: str, dimension: int, database_url: str = "") -> Indexes:
    """The indexes that the setting ``NESTOR_RETRIEVER_INDEX`` selects.

    Args:
        kind: ``auto`` (exact up to 100,000 vectors, IVF beyond), ``flat``, ``ivf`` or ``pgvector``.
        encoder: name of the encoder whose vectors they hold.
        dimension: length of its vectors.
        database_url: for ``pgvector``: the ``postgresql+asyncpg`` URL of the catalogue.

    Raises:
        UnusableSettings: ``pgvector`` without PostgreSQL.
    """
    match kind:
        case "flat":
            return FlatIndexes(dimension)
        case "ivf":
            return IvfIndexes(dimension, train_at=_FEWEST_FOR_CELLS)
        case "auto":
            return IvfIndexes(dimension, train_at=_EXACT_UNTIL)
        case "pgvector":
            from retriever_svc.engine.index.pgvector import PgVectorIndexes  # other kinds need no database

            return PgVectorIndexes(database_url, encoder, dimension)
