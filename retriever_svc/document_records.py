"""The records of imported documents."""

import dataclasses
import json
from datetime import UTC
from itertools import accumulate
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Text,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    type_coerce,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from retriever_svc.models import ImportedDocumentRecord
from retriever_svc.tables import APIS, CATALOGUE, DOCUMENTS
from services.storage.engine import read

_PAGE_BYTES = 2_000_000
"""Most bytes of the skipped operations and constants on a page of documents, unless its first document has more."""
_NAME = DOCUMENTS.c.provider
_COLUMNS = [DOCUMENTS.c[name] for name in ImportedDocumentRecord.__dataclass_fields__ if name != "notes"]
_SHOWN_COLUMNS = [column for column in _COLUMNS if column.name != "places"]
_SHOWN_BYTES = func.length(DOCUMENTS.c.skipped) + func.length(cast(DOCUMENTS.c.constants, Text))  # in ASCII


class DocumentRecords:
    """Reads the records."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(
        self, document_hash: str, server: str | None, provider: str | None
    ) -> tuple[ImportedDocumentRecord, int, int] | None:
        """The record of a document imported with this server for this provider (None: the one its title names).

        Returns:
            The record, the number of the provider's APIs, and the catalogue's version; None if there is no such import.
        """
        asked = DOCUMENTS.c.named.is_(False) if provider is None else DOCUMENTS.c.provider == provider
        same = (DOCUMENTS.c.document_hash == document_hash, DOCUMENTS.c.server.is_not_distinct_from(server), asked)
        apis = select(func.count()).where(APIS.c.provider == DOCUMENTS.c.provider).scalar_subquery()
        version = select(CATALOGUE.c.version).scalar_subquery()
        async with read(self._engine) as connection:
            query = select(*_COLUMNS, DOCUMENTS.c.notes, apis.label("apis"), version.label("catalogue"))
            row = (await connection.execute(query.where(*same).limit(1))).first()
        return None if row is None else (_as_record(row), row.apis, row.catalogue)

    async def of(self, provider: str) -> ImportedDocumentRecord | None:
        """The record of the document that was last imported for the provider, without its notes; or None."""
        async with read(self._engine) as connection:
            row = (await connection.execute(select(*_COLUMNS).where(DOCUMENTS.c.provider == provider))).first()
        return None if row is None else _as_record(row)

    async def hash_of(self, provider: str) -> str | None:
        """The hash of the document that the provider's APIs come from."""
        async with read(self._engine) as connection:
            query = select(DOCUMENTS.c.document_hash).where(DOCUMENTS.c.provider == provider)
            found: str | None = await connection.scalar(query)
        return found

    async def page(
        self, limit: int, after: str, tenant: str | None = None
    ) -> tuple[list[ImportedDocumentRecord], int, str | None]:
        """The records that the tenant sees of the providers after this one, in order of their names.

        They are without notes and places.

        The page has fewer than ``limit`` if together they would be too large.

        Returns:
            The page, the number of all records, and the provider after which the next page begins, if there is one.
        """
        parts = _parts_seen_by(tenant)
        pages = [select(_NAME).where(part, after < _NAME).order_by(_NAME).limit(limit + 1) for part in parts]
        both = union_all(*(select(page.subquery().c.provider) for page in pages)).subquery()
        counts = [select(func.count()).select_from(DOCUMENTS).where(part) for part in parts]
        async with read(self._engine) as connection:
            following = select(both.c.provider).order_by(both.c.provider).limit(limit + 1)
            found = (await connection.scalars(following)).all()
            total = sum([await connection.scalar(count) or 0 for count in counts])
            names = found[:limit]
            sizes = select(_NAME, _SHOWN_BYTES).where(_NAME.in_(names))
            bytes_of = dict(map(tuple, (await connection.execute(sizes)).all()))
            ends = accumulate(bytes_of.get(name, 0) for name in names)
            fit = [name for name, end in zip(names, ends, strict=True) if name == names[0] or end <= _PAGE_BYTES]
            query = select(*_SHOWN_COLUMNS).where(_NAME.in_(fit))
            records = {row.provider: _as_record(row) for row in await connection.execute(query)}
        return [records[name] for name in fit if name in records], total, fit[-1] if len(fit) < len(found) else None


def _parts_seen_by(tenant: str | None) -> list[ColumnElement[bool]]:
    """Conditions, at most one true, for the documents that the tenant sees: its own, and the operator's for it.

    Each reads a range of the index, so a page costs nothing for the documents of other tenants.
    """
    if tenant is None:
        return [true()]
    stored, quoted = type_coerce(DOCUMENTS.c.tenants, Text), json.dumps(tenant)
    named = func.replace(stored, quoted, "") != stored  # unlike LIKE, it tells capitals apart; names have no quotes
    return [DOCUMENTS.c.owner == tenant, and_(DOCUMENTS.c.owner.is_(None), or_(stored == "[]", named))]


async def mark_edited(connection: AsyncConnection, api_id: str) -> None:
    """Note that the API's provider differs from its document, so that the next import reads the document again."""
    provider = select(APIS.c.provider).where(APIS.c.id == api_id).scalar_subquery()
    await connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.provider == provider).values(importer=""))


async def replace_record(connection: AsyncConnection, document_record: ImportedDocumentRecord) -> None:
    """Put the record in place of the provider's earlier one."""
    await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.provider == document_record.provider))
    await connection.execute(insert(DOCUMENTS), [dataclasses.asdict(document_record)])


def _as_record(row: Row[*tuple[Any, ...]]) -> ImportedDocumentRecord:
    known = ImportedDocumentRecord.__dataclass_fields__
    document_record = ImportedDocumentRecord(**{k: value for k, value in row._mapping.items() if k in known})
    moment = document_record.imported_at
    return dataclasses.replace(document_record, imported_at=moment if moment.tzinfo else moment.replace(tzinfo=UTC))
