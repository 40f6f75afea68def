"""The catalogue's tables: APIs, vectors of their texts, imported documents, and the version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.types import TypeDecorator

from retriever_svc.models import stamp
from services.storage.embeddings import embeddings_table

METADATA = MetaData()


class Names(TypeDecorator[tuple[str, ...]]):
    """A list of names as JSON in ASCII, which both databases can store."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Iterable[str] | None, dialect: Dialect) -> str:
        """The stored JSON."""
        return json.dumps(list(value or ()))

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:
        """The names."""
        return () if value in (None, "[]") else tuple(json.loads(value))


def _stamp(context: Any) -> str:
    """A digest of the row's columns. SQLAlchemy calls this at each insert and update of the row."""
    values = context.get_current_parameters()
    return stamp(values.get(name) for name in _STAMPED)


APIS = Table(
    "apis",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(400), nullable=False, unique=True),
    Column("provider", String(200), nullable=False, index=True),
    Column("name", String(200), nullable=False),
    Column("method", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("text_hash", String(64), nullable=False, index=True),
    Column("lexical", Text, nullable=False),
    Column("inputs", Text, nullable=False),
    Column("outputs", Text, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Column("operation_key", String(32), nullable=False, server_default="", index=True),
    Column("content_key", String(32), nullable=False, server_default="", index=True),
    Column("revision", String(80), nullable=False, server_default=""),
    Column("tags", Names, nullable=False, server_default="[]"),
    Column("deprecated", Boolean, nullable=False, server_default=false()),
    # Not in the document: it is sent to each of these tenants, and they must not learn of each other.
    Column("tenants", Names, nullable=False, server_default="[]"),
    # Indexed, because a replica reads only number and stamp of rows that have not changed.
    Column("stamp", String(32), nullable=False, index=True, default=_stamp, onupdate=_stamp),
    # Without it SQLite reuses the number of a deleted last row.
    sqlite_autoincrement=True,
)
_STAMPED = [column.name for column in APIS.c if column.name not in {"number", "document", "stamp"}]
"""``content_hash`` stands for the document."""
EMBEDDINGS = embeddings_table(METADATA)
DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("provider", String(200), primary_key=True),
    Column("document_hash", String(64), nullable=False),
    Column("format", String(40), nullable=False),
    Column("imported_at", DateTime(timezone=True), nullable=False),
    Column("importer", String(64), nullable=False, server_default=""),
    Column("server", Text, nullable=True),
    Column("named", Boolean, nullable=False, server_default=false()),
    Column("version", Text, nullable=False, server_default=""),
    Column("notes", Text, nullable=False, server_default="{}"),
    Column("skipped", Text, nullable=False, server_default="[]"),
    Column("skipped_total", Integer, nullable=False, server_default="0"),
    Column("tenants", Names, nullable=False, server_default="[]"),
    Column("owner", String(100), nullable=True),
    Column("constants", JSON, nullable=False, server_default="{}"),
    Column("places", Names, nullable=False, server_default="[]"),
    # What a tenant imported, and what the operator did, each in order.
    Index("ix_documents_owner", "owner", "provider"),
)
CATALOGUE = Table(
    "catalogue",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
