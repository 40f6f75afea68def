"""The catalogue in SQL: APIs, vectors of their texts, the documents they come from, and a growing version.

Documents are stored as JSON in ASCII, so that both databases can hold any text of an API, including NUL.
Every change increments the version in its own transaction, so a version identifies one state of the catalogue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import accumulate

from sqlalchemy import (
    Connection,
    Update,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from retriever_svc.document_records import DocumentRecords, mark_edited, replace_record
from retriever_svc.models import Change, Delta, Entry, ImportedDocumentRecord, Record, is_seen, state_of
from retriever_svc.opening import opened
from retriever_svc.tables import APIS, CATALOGUE, DOCUMENTS, EMBEDDINGS
from services.contracts.api import Api
from services.encoder import Vectors
from services.errors import Conflict, NotFound
from services.storage.embeddings import chunks, keep_vectors, known_vectors, read_vectors, refuse_removed
from services.storage.engine import Probe, Transactions, freeze, read
from services.storage.writers import Writers

_DERIVED = ("text_hash", "lexical", "inputs", "outputs", "open", "operation_key", "content_key", "revision")
"""Columns derived from an API. They may change with the code that derives them although the API does not."""
_OF_API = ("content_hash", "tags", "deprecated", "tenants")
_AT_ONCE_BYTES = 64_000
"""APIs of more bytes together are parsed beside the event loop."""
_ROWS = 100
"""APIs whose documents are read or written at a time: each may have 256 kB."""
_ENTRY_COLUMNS = [APIS.c[name] for name in Entry.__dataclass_fields__]


class CatalogueStorage:
    """The tables of :mod:`retriever_svc.tables`, as models.

    Writers take turns by locking the row of the version, tenants within a process by :class:`Writers`.

    Args:
        engine: engine of the database.
        most_each: most APIs that one tenant imports; the operator may import more. None: no bound.
    """

    def __init__(self, engine: AsyncEngine, most_each: int | None = None) -> None:
        self._most_each = most_each
        self._engine, self._reads, self._probe = engine, Transactions(engine, read_only=True), Probe(engine)
        self._writers = Writers(engine, _growing(0), "changes of the catalogue")
        self.document_records = DocumentRecords(engine)

    def close(self) -> None:
        """Close its own connections. The engine is left open for its owner to close."""
        self._reads.close()

    async def ping(self) -> None:
        """Raise ServiceUnavailable unless the database can be read and written."""
        await self._probe.check()

    async def version(self) -> int:
        """The version of the catalogue."""
        async with read(self._engine) as connection:
            return int(await connection.scalar(select(CATALOGUE.c.version)) or 0)

    async def changes(self, known: Mapping[int, str]) -> Delta:
        """How the current catalogue differs from a known state.

        Args:
            known: the stamps of that state, by number.
        """
        async with read(self._engine) as connection:
            await freeze(connection)
            version = int(await connection.scalar(select(CATALOGUE.c.version)) or 0)
            rows = await connection.execute(select(APIS.c.number, APIS.c.stamp))
            stamps: dict[int, str] = dict(map(tuple, rows.all()))
            changed = [number for number, current in stamps.items() if known.get(number) != current]
            entries = [entry for chunk in chunks(changed) for entry in await _entries(connection, chunk)]
        return Delta(version, stamps, tuple(entries))

    async def get(
        self, ids: Sequence[str], tenant: str | None = None, *, bounded: bool = False, most_bytes: int | None = None
    ) -> dict[str, Api]:
        """The APIs that exist, by id.

        Args:
            ids: ids of the APIs.
            tenant: only the APIs that this tenant sees, without their ``tenants``; None: all, with their ``tenants``.
            bounded: leave schemas open in APIs that are too large (:func:`opened`), as in a search.
            most_bytes: only the first APIs that have at most so many bytes together, as they are stored; None: all.
        """
        found = dict[str, tuple[str, tuple[str, ...]]]()
        async with read(self._engine) as connection:
            if most_bytes is not None:
                ids = await _first(connection, ids, tenant, most_bytes)
            for chunk in chunks(ids):
                query = select(APIS.c.id, APIS.c.document, APIS.c.tenants).where(APIS.c.id.in_(chunk))
                for row in await connection.execute(query):
                    if is_seen(row.tenants, tenant):
                        found[row.id] = row.document, row.tenants if tenant is None else ()

        def parse() -> dict[str, Api]:
            return {key: _api(*stored, bounded=bounded) for key, stored in found.items()}

        size = sum(len(document) for document, _ in found.values())
        return parse() if size <= _AT_ONCE_BYTES else await asyncio.to_thread(parse)

    async def of_provider(self, provider: str, tenant: str | None) -> AsyncGenerator[list[str], None]:
        """The JSON of the provider's APIs that this tenant sees, a few at a time, in order of their ids."""
        query = select(APIS.c.id, APIS.c.document, APIS.c.tenants).where(APIS.c.provider == provider)
        query, after = query.order_by(APIS.c.id).limit(_ROWS), ""
        while True:
            async with read(self._engine) as connection:
                rows = (await connection.execute(query.where(APIS.c.id > after))).all()
            yield [row.document for row in rows if is_seen(row.tenants, tenant)]
            if len(rows) < _ROWS:
                return
            after = rows[-1].id

    async def stored_of(self, provider: str) -> list[tuple[str, tuple[str, ...], str]]:
        """The JSON, the tenants and the text's hash of each of the provider's APIs, in order of their ids."""
        query = select(APIS.c.document, APIS.c.tenants, APIS.c.text_hash).where(APIS.c.provider == provider)
        async with read(self._engine) as connection:
            return [tuple(row) for row in await connection.execute(query.order_by(APIS.c.id))]

    async def documents(self, numbers: Sequence[int]) -> dict[tuple[int, str], bytes]:
        """The APIs that exist, as JSON, by number and content hash."""
        columns = (APIS.c.number, APIS.c.content_hash, APIS.c.document)

        def find(connection: Connection) -> dict[tuple[int, str], bytes]:
            queries = [select(*columns).where(APIS.c.number.in_(chunk)) for chunk in chunks(numbers)]
            rows = [row for query in queries for row in connection.execute(query)]
            return {(row.number, row.content_hash): row.document.encode() for row in rows}

        return await self._reads.run(find)  # part of every search; by number because that is SQLite's row id

    async def vectors(self, encoder: str, hashes: Sequence[str]) -> dict[str, Vectors]:
        """The stored vectors of these texts, each (d,) float32, by hash."""
        async with read(self._engine) as connection:
            return await read_vectors(connection, EMBEDDINGS, encoder, hashes)

    async def embedded(self, encoder: str, hashes: Sequence[str]) -> set[str]:
        """The hashes that have a vector of this encoder."""
        async with read(self._engine) as connection:
            return await known_vectors(connection, EMBEDDINGS, encoder, hashes)

    async def keep_vectors(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors for texts of APIs that are in the catalogue already, after a change of the encoder."""
        async with self._writers.turn(None) as connection:
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)

    async def create(self, record: Record, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Add an API.

        Raises:
            Conflict: the id is taken.
        """
        async with self._writers.turn(None) as connection:
            await _grow(connection)
            if await connection.scalar(select(APIS.c.number).where(APIS.c.id == record.api.id)) is not None:
                raise Conflict(f"The API {record.api.id!r} already exists.")
            await connection.execute(insert(APIS), [_row(record)])
            await mark_edited(connection, record.api.id)
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)

    async def update(self, record: Record, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Replace an API.

        Raises:
            NotFound: there is no API with that id.
        """
        async with self._writers.turn(None) as connection:
            await _grow(connection)
            await mark_edited(connection, record.api.id)
            changed = await connection.execute(update(APIS).where(APIS.c.id == record.api.id).values(_row(record)))
            if not changed.rowcount:
                raise NotFound(f"There is no API {record.api.id!r}.")
            await mark_edited(connection, record.api.id)  # the update may have changed its provider
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)
            await _delete_unused_vectors(connection)

    async def delete(self, api_id: str) -> None:
        """Remove an API.

        Raises:
            NotFound: there is no API with that id.
        """
        async with self._writers.turn(None) as connection:
            await _grow(connection)
            await mark_edited(connection, api_id)
            if not (await connection.execute(delete(APIS).where(APIS.c.id == api_id))).rowcount:
                raise NotFound(f"There is no API {api_id!r}.")
            await _delete_unused_vectors(connection)

    async def delete_provider(self, provider: str, tenant: str | None = None) -> None:
        """Remove a provider with all its APIs. The operator (``tenant`` None) may remove any.

        Raises:
            NotFound: it has no API that this tenant sees.
            Conflict: it belongs to another owner.
        """
        async with read(self._engine) as connection:  # a request that would be refused takes no turn
            await _refuse_removal(connection, provider, tenant)
        async with self._writers.turn(tenant) as connection:
            await _refuse_removal(connection, provider, tenant)
            await _grow(connection)
            await connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.provider == provider))
            await connection.execute(delete(APIS).where(APIS.c.provider == provider))
            await _delete_unused_vectors(connection)

    async def replace_provider(
        self,
        document_record: ImportedDocumentRecord,
        records: Sequence[Record],
        encoder: str,
        vectors: Mapping[str, Vectors],
        expected: str | None = None,
        tenant: str | None = None,
        embedded: Sequence[str] = (),
    ) -> tuple[Change, int]:
        """Replace all of a provider's APIs in one transaction.

        Only rows that differ are written, and the version grows only if there are any.

        Args:
            document_record: the document they come from.
            records: all APIs of the provider.
            encoder: name of the encoder of the vectors.
            vectors: vectors of the texts that had none, by the texts' hashes.
            expected: hash that the change must have; None: any.
            tenant: the tenant that asks; None: the operator.
            embedded: hashes of texts that had a vector when ``vectors`` were computed.

        Returns:
            The change, and the version of the catalogue after it.

        Raises:
            Conflict: an id belongs to another provider, the provider belongs to another owner, the change does not
                have the expected hash, or the tenant would have too many APIs.
            VectorsRemoved: one of ``embedded`` has no vector any more.
        """
        wanted = {record.api.id: record for record in records}
        async with self._writers.turn(tenant) as connection:
            change = await self._allowed_change(connection, document_record, records, tenant)
            refuse_unexpected(change, expected)
            await _refuse_taken_ids(connection, change.added)
            await refuse_removed(connection, EMBEDDINGS, encoder, embedded)
            rewritten = await _differing(connection, document_record.provider, wanted)
            for chunk in chunks(change.removed):
                await connection.execute(delete(APIS).where(APIS.c.id.in_(chunk)))
            for chunk in chunks(change.added, _ROWS):  # other requests go on in between
                rows = await asyncio.to_thread(lambda keys: [_row(wanted[key]) for key in keys], chunk)
                await connection.execute(insert(APIS), rows)
            for some in chunks(rewritten, _ROWS):
                rows = await asyncio.to_thread(
                    lambda records: [_row(one) | {"of": one.api.id} for one in records], some
                )
                await connection.execute(update(APIS).where(APIS.c.id == bindparam("of")), rows)
            await keep_vectors(connection, EMBEDDINGS, encoder, vectors)
            if change.removed or rewritten:
                await _delete_unused_vectors(connection)
            await replace_record(connection, document_record)
            version = await _grow(connection, by=int(bool(change.added or change.removed or rewritten)))
        return change, version

    async def change(
        self, document_record: ImportedDocumentRecord, records: Sequence[Record], tenant: str | None = None
    ) -> Change:
        """What :meth:`replace_provider` would change now. Raises Conflict if the tenant may not do so."""
        async with read(self._engine) as connection:
            return await self._allowed_change(connection, document_record, records, tenant)

    async def _allowed_change(
        self,
        connection: AsyncConnection,
        document_record: ImportedDocumentRecord,
        records: Sequence[Record],
        tenant: str | None,
    ) -> Change:
        change = await _change(connection, document_record, records, tenant)
        more = len(change.added) - len(change.removed)
        if tenant is not None and self._most_each is not None and more > 0:
            owned = select(DOCUMENTS.c.provider).where(DOCUMENTS.c.owner == tenant)
            count = select(func.count()).select_from(APIS).where(APIS.c.provider.in_(owned))
            there = int(await connection.scalar(count) or 0)
            if there + more > self._most_each:
                raise Conflict(f"A tenant can import at most {self._most_each:,} APIs; this one has {there:,}.")
        return change

    async def owners(self, ids: Sequence[str]) -> dict[str, str]:
        """The providers of the APIs that exist, by id."""
        found = dict[str, str]()
        async with read(self._engine) as connection:
            for chunk in chunks(ids):
                rows = await connection.execute(select(APIS.c.id, APIS.c.provider).where(APIS.c.id.in_(chunk)))
                found.update({row.id: row.provider for row in rows})
        return found

    async def related(
        self, provider: str, column: str, keys: Sequence[str], tenant: str | None = None
    ) -> list[tuple[str, str, str]]:
        """Key, id and revision of the APIs of other providers that have one of these keys and that the tenant sees.

        Args:
            provider: the provider to leave out.
            column: name of the column that holds the keys.
            keys: the keys to look for.
            tenant: None: the operator, who sees all.
        """
        key = APIS.c[column]
        query = select(key, APIS.c.id, APIS.c.revision, APIS.c.tenants).where(APIS.c.provider != provider)
        found = list[tuple[str, str, str]]()
        async with read(self._engine) as connection:
            for chunk in chunks(keys):
                rows = await connection.execute(query.where(key.in_(chunk)))
                found += [(row[0], row[1], row[2]) for row in rows if is_seen(row[3], tenant)]
        return found


def refuse_unexpected(change: Change, expected: str | None) -> None:
    """Raise Conflict unless this is the change that was reviewed. An empty change is always accepted."""
    nothing = not (change.added or change.updated or change.removed)
    if expected is not None and expected != change.hash and not nothing:
        raise Conflict("The document or the catalogue differs from what was reviewed. Review the change again.")


async def _change(
    connection: AsyncConnection, document_record: ImportedDocumentRecord, records: Sequence[Record], tenant: str | None
) -> Change:
    query = select(APIS.c.id, APIS.c.content_hash, APIS.c.tenants).where(APIS.c.provider == document_record.provider)
    rows = (await connection.execute(query)).all()
    await _refuse_other_owners(connection, document_record.provider, tenant, exists=bool(rows))
    before = {row.id: state_of(row.content_hash, row.tenants) for row in rows}
    after = {record.api.id: state_of(record.api.content_hash, record.api.tenants) for record in records}
    return Change(before, after, document_record.document_hash)


async def _refuse_other_owners(connection: AsyncConnection, provider: str, tenant: str | None, *, exists: bool) -> None:
    """Raise Conflict unless this tenant imported the provider. The operator (None) owns APIs that were not imported."""
    owned = (await connection.execute(select(DOCUMENTS.c.owner).where(DOCUMENTS.c.provider == provider))).first()
    if (owned is not None or exists) and (owned.owner if owned else None) != tenant:
        raise Conflict(f"The provider {provider!r} belongs to another tenant.")


def _api(document: str, tenants: tuple[str, ...], *, bounded: bool) -> Api:
    text = opened(document.encode())[0] if bounded else document
    return Api.model_validate_json(text).model_copy(update={"tenants": tenants})


async def _first(connection: AsyncConnection, ids: Sequence[str], tenant: str | None, most_bytes: int) -> list[str]:
    """The first of the APIs that the tenant sees which have at most so many bytes together."""
    sizes = dict[str, int]()
    for chunk in chunks(ids):
        query = select(APIS.c.id, APIS.c.tenants, func.length(APIS.c.document)).where(APIS.c.id.in_(chunk))
        for key, tenants, size in await connection.execute(query):
            if is_seen(tenants, tenant):
                sizes[key] = size
    there = [key for key in ids if key in sizes]
    totals = accumulate(sizes[key] for key in there)
    return [key for key, total in zip(there, totals, strict=True) if total <= most_bytes]


async def _differing(connection: AsyncConnection, provider: str, wanted: Mapping[str, Record]) -> list[Record]:
    """The records whose stored row has other content or other derived columns."""
    columns = [APIS.c[name] for name in (*_OF_API, *_DERIVED)]
    query = select(APIS.c.id, *columns).where(APIS.c.provider == provider)
    stored = {row.id: tuple(row[1:]) for row in await connection.execute(query)}
    return [record for key, record in wanted.items() if key in stored and stored[key] != _columns(record)]


def _columns(record: Record) -> tuple[object, ...]:
    return (
        *(getattr(record.api, name) for name in _OF_API),
        *(getattr(record, name) for name in _DERIVED),
    )


async def _entries(connection: AsyncConnection, numbers: Sequence[int]) -> list[Entry]:
    rows = await connection.execute(select(*_ENTRY_COLUMNS).where(APIS.c.number.in_(numbers)))
    return [Entry(*row) for row in rows]


async def _refuse_removal(connection: AsyncConnection, provider: str, tenant: str | None) -> None:
    """Raise NotFound if the tenant sees no API of the provider, Conflict if it is another owner's."""
    query = select(APIS.c.tenants).where(APIS.c.provider == provider).distinct()
    audiences = [row.tenants for row in await connection.execute(query)]
    if not any(is_seen(tenants, tenant) for tenants in audiences):
        raise NotFound(f"There is no provider {provider!r}.")
    if tenant is not None:
        await _refuse_other_owners(connection, provider, tenant, exists=True)


def _growing(by: int) -> Update:
    """Increase the version. Other writers wait at this statement until the transaction ends."""
    return update(CATALOGUE).values(version=CATALOGUE.c.version + by)


async def _grow(connection: AsyncConnection, by: int = 1) -> int:
    """Increase the version and return it."""
    return int((await connection.execute(_growing(by).returning(CATALOGUE.c.version))).scalar_one())


async def _refuse_taken_ids(connection: AsyncConnection, ids: Sequence[str]) -> None:
    for chunk in chunks(ids):
        taken = await connection.scalar(select(APIS.c.id).where(APIS.c.id.in_(chunk)).limit(1))
        if taken is not None:
            raise Conflict(f"The id {taken!r} belongs to another provider.")


async def _delete_unused_vectors(connection: AsyncConnection) -> None:
    """Delete the vectors of texts that no API uses any more."""
    used = exists().where(APIS.c.text_hash == EMBEDDINGS.c.text_hash)
    await connection.execute(delete(EMBEDDINGS).where(~used))


def _row(record: Record) -> dict[str, object]:
    api = record.api
    head = {"id": api.id, "provider": api.provider, "name": api.name, "method": api.method, "path": api.path}
    # PostgreSQL stores no NUL in text. It is replaced only in these copies of the document's fields.
    head = {key: value.replace("\x00", "\ufffd") for key, value in (head | {"summary": api.summary}).items()}
    return head | {
        "content_hash": api.content_hash,
        "text_hash": record.text_hash,
        "lexical": record.lexical,
        "inputs": record.inputs,
        "outputs": record.outputs,
        "open": record.open,
        "tags": api.tags,
        "deprecated": api.deprecated,
        "tenants": api.tenants,
        "document": api.model_copy(update={"tenants": ()}).model_dump_json(ensure_ascii=True),
        "operation_key": record.operation_key,
        "content_key": record.content_key,
        "revision": record.revision,
    }
