"""The catalogue in SQL: APIs, vectors of their texts, where they were imported from, and a version that grows.

Documents are kept as JSON in ASCII, so that any text an API may hold (NUL included) fits both databases unharmed.
Every change bumps the version in its own transaction, so a version names exactly one state of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    exists,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from retriever_svc.models import Change, Delta, Entry, Record, stamp
from services.contracts.api import Api
from services.encoder import Vectors
from services.errors import Conflict, NotFound
from services.storage.embeddings import chunks, embeddings_table, keep_vectors, read_vectors
from services.storage.engine import ping, read, write

METADATA = MetaData()


def _stamp(context: Any) -> str:
    """What the row's columns hold, digested: SQLAlchemy asks for it at each insert and update of the row."""
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
    # Its index holds all that a replica reads of the rows that have not changed.
    Column("stamp", String(32), nullable=False, index=True, default=_stamp, onupdate=_stamp),
    # Without it SQLite gives the number of a deleted last row out again.
    sqlite_autoincrement=True,
)
_STAMPED = [column.name for column in APIS.c if column.name not in {"number", "document", "stamp"}]
"""The document is told by its ``content_hash``."""
EMBEDDINGS = embeddings_table(METADATA)
DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("provider", String(200), primary_key=True),
    Column("document_hash", String(64), nullable=False),
    Column("format", String(40), nullable=False),
    Column("imported_at", DateTime(timezone=True), nullable=False),
)
CATALOGUE = Table(
    "catalogue",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)

_HEAD = [APIS.c[name] for name in Entry.__dataclass_fields__]


class CatalogueStorage:
    """The tables above, as models. Writers take turns by locking the row of the version."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def ping(self) -> None:
        """Raise ServiceUnavailable unless the database answers."""
        await ping(self._engine)

    async def version(self) -> int:
        """The version of the catalogue."""
        async with read(self._engine) as connection:
            return int(await connection.scalar(select(CATALOGUE.c.version)) or 0)

    async def changes(self, known: Mapping[int, str]) -> Delta:
        """How the catalogue differs from what is known, at one version of it.

        Args:
            known: stamps by number.
        """
        async with read(self._engine) as connection:
            await _freeze(connection)
            version = int(await connection.scalar(select(CATALOGUE.c.version)) or 0)
            rows = await connection.execute(select(APIS.c.number, APIS.c.stamp))
            stamps: dict[int, str] = dict(map(tuple, rows.all()))
            changed = [number for number, current in stamps.items() if known.get(number) != current]
            entries = [entry for chunk in chunks(changed) for entry in await _entries(connection, chunk)]
        return Delta(version, stamps, tuple(entries))

    async def get(self, ids: Sequence[str]) -> dict[str, Api]:
        """Those of the APIs that exist, by id."""
        found = {}
        async with read(self._engine) as connection:
            for chunk in chunks(ids):
                query = select(APIS.c.id, APIS.c.document).where(APIS.c.id.in_(chunk))
                found.update({row.id: row.document for row in await connection.execute(query)})
        return {key: Api.model_validate_json(document) for key, document in found.items()}

    async def documents(self, ids: Sequence[str]) -> dict[tuple[str, str], bytes]:
        """Those of the APIs that exist, as JSON, by id and content hash."""
        columns = (APIS.c.id, APIS.c.content_hash, APIS.c.document)
        found = {}
        async with read(self._engine) as connection:
            for chunk in chunks(ids):
                for row in await connection.execute(select(*columns).where(APIS.c.id.in_(chunk))):
                    found[row.id, row.content_hash] = row.document.encode()
        return found

    async def vectors(self, encoder: str, hashes: Sequence[str]) -> dict[str, Vectors]:
        """The stored vectors of these texts, each (d,) float32, by hash."""
        async with read(self._engine) as connection:
            return await read_vectors(connection, EMBEDDINGS, encoder, hashes)

    async def keep_vectors(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors of texts whose APIs are in the catalogue already (a new encoder was chosen)."""
        async with write(self._engine) as connection:
            await _lock(connection, grow=0)
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)

    async def create(self, record: Record, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Add an API.

        Raises:
            Conflict: the id is taken.
        """
        async with write(self._engine) as connection:
            await _lock(connection, grow=1)
            if await connection.scalar(select(APIS.c.number).where(APIS.c.id == record.api.id)) is not None:
                raise Conflict(f"There is an API {record.api.id!r} already.")
            await connection.execute(insert(APIS), [_row(record)])
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)

    async def update(self, record: Record, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Replace an API.

        Raises:
            NotFound: there is none of that id.
        """
        async with write(self._engine) as connection:
            await _lock(connection, grow=1)
            changed = await connection.execute(update(APIS).where(APIS.c.id == record.api.id).values(_row(record)))
            if not changed.rowcount:
                raise NotFound(f"There is no API {record.api.id!r}.")
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)
            await _forget_vectors(connection)

    async def delete(self, api_id: str) -> None:
        """Remove an API.

        Raises:
            NotFound: there is none of that id.
        """
        async with write(self._engine) as connection:
            await _lock(connection, grow=1)
            if not (await connection.execute(delete(APIS).where(APIS.c.id == api_id))).rowcount:
                raise NotFound(f"There is no API {api_id!r}.")
            await _forget_vectors(connection)

    async def delete_provider(self, provider: str) -> None:
        """Remove a provider with all its APIs.

        Raises:
            NotFound: it has none.
        """
        async with write(self._engine) as connection:
            await _lock(connection, grow=1)
            await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.provider == provider))
            if not (await connection.execute(delete(APIS).where(APIS.c.provider == provider))).rowcount:
                raise NotFound(f"There is no provider {provider!r}.")
            await _forget_vectors(connection)

    async def replace_provider(
        self,
        provider: str,
        records: Sequence[Record],
        source: tuple[str, str],
        encoder: str,
        vectors: Mapping[str, Vectors],
    ) -> Change:
        """Make these the provider's APIs, all at once. The version grows only where something differs.

        Args:
            provider: whose APIs they are.
            records: all of them.
            source: hash and format of the document they come from.
            encoder: whose vectors are given.
            vectors: those of the texts that had none.

        Raises:
            Conflict: an id belongs to another provider.
        """
        wanted = {record.api.id: record for record in records}
        async with write(self._engine) as connection:
            version = await _lock(connection, grow=0)
            query = select(APIS.c.id, APIS.c.content_hash).where(APIS.c.provider == provider)
            there = {row.id: row.content_hash for row in await connection.execute(query)}
            removed = [key for key in there if key not in wanted]
            added = [record for key, record in wanted.items() if key not in there]
            updated = [r for key, r in wanted.items() if there.get(key, r.api.content_hash) != r.api.content_hash]
            await _refuse_foreign(connection, [record.api.id for record in added])
            for chunk in chunks(removed):
                await connection.execute(delete(APIS).where(APIS.c.id.in_(chunk)))
            if added:
                await connection.execute(insert(APIS), [_row(record) for record in added])
            for record in updated:
                await connection.execute(update(APIS).where(APIS.c.id == record.api.id).values(_row(record)))
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)
            if removed or updated:
                await _forget_vectors(connection)
            await _note_document(connection, provider, source)
            if added or updated or removed:
                version = await _lock(connection, grow=1)
        unchanged = len(wanted) - len(added) - len(updated)
        return Change(len(added), len(updated), unchanged, len(removed), version)


async def _freeze(connection: AsyncConnection) -> None:
    """Have all that this connection reads be of one moment, as it is on SQLite."""
    if connection.dialect.name == "postgresql":
        await connection.execution_options(isolation_level="REPEATABLE READ")


async def _entries(connection: AsyncConnection, numbers: Sequence[int]) -> list[Entry]:
    rows = await connection.execute(select(*_HEAD).where(APIS.c.number.in_(numbers)))
    return [Entry(*row) for row in rows]


async def _lock(connection: AsyncConnection, grow: int) -> int:
    """Let the version grow and return it; until the transaction ends no other writer gets past this."""
    query = update(CATALOGUE).values(version=CATALOGUE.c.version + grow).returning(CATALOGUE.c.version)
    return int((await connection.execute(query)).scalar_one())


async def _refuse_foreign(connection: AsyncConnection, ids: Sequence[str]) -> None:
    for chunk in chunks(ids):
        taken = await connection.scalar(select(APIS.c.id).where(APIS.c.id.in_(chunk)).limit(1))
        if taken is not None:
            raise Conflict(f"The id {taken!r} belongs to another provider.")


async def _forget_vectors(connection: AsyncConnection) -> None:
    """Drop the vectors of texts that no API has any more."""
    used = exists().where(APIS.c.text_hash == EMBEDDINGS.c.text_hash)
    await connection.execute(delete(EMBEDDINGS).where(~used))


async def _note_document(connection: AsyncConnection, provider: str, source: tuple[str, str]) -> None:
    await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.provider == provider))
    row = {"provider": provider, "document_hash": source[0], "format": source[1], "imported_at": datetime.now(UTC)}
    await connection.execute(insert(DOCUMENTS), [row])


def _row(record: Record) -> dict[str, object]:
    api = record.api
    head = {"id": api.id, "provider": api.provider, "name": api.name, "method": api.method, "path": api.path}
    # PostgreSQL stores no NUL in text; only these copies of the document's fields lose it.
    head = {key: value.replace("\x00", "\ufffd") for key, value in (head | {"summary": api.summary}).items()}
    return head | {
        "content_hash": api.content_hash,
        "text_hash": record.text_hash,
        "lexical": record.lexical,
        "inputs": record.inputs,
        "outputs": record.outputs,
        "open": record.open,
        "document": api.model_dump_json(ensure_ascii=True),
    }
