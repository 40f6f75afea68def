"""The knowledge base in SQL: demos, the APIs they use, vectors of their requests, and a growing version.

Demos are stored as JSON in ASCII, so that both databases can hold any text of a request, including NUL.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    Update,
    delete,
    exists,
    func,
    insert,
    select,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from demo_svc.models import Changes, Entry, Listing, Page, key_of, text_hash
from services.contracts.demo import Demo
from services.encoder import Vectors
from services.errors import Conflict
from services.storage.embeddings import (
    chunks,
    embeddings_table,
    keep_vectors,
    known_vectors,
    read_vectors,
    refuse_removed,
)
from services.storage.engine import Probe, Transactions, read
from services.storage.writers import Writers
from services.telemetry import get_logger

METADATA = MetaData()
_log = get_logger(__name__)
MAX_DEMO_BYTES: Final = 262_144
"""Most bytes of a demo as it is stored. Larger ones of earlier versions are listed, but not selected."""
MAX_DEMO_APIS: Final = 32
"""Most APIs of a demo, whose ids are held in memory. Demos of earlier versions with more are treated like large ones.

A planner is offered some 25, and a demo that calls others is not selected. The corpora's requests call ten at most.
"""
_SIZED: Final = 50
"""Demos whose sizes are read at a time."""
_AT_ONCE: Final = 500
"""Demos that are read or written at a time with all their APIs: other requests go on in between."""
_QUERY_CHARS: Final = 121_000
"""Characters of a document within which its request ends: 10,000 of at most 12 as JSON in ASCII, after id and level."""
_PAGE_BYTES: Final = 300_000
"""Most bytes of the demos of a page, unless the first one is larger. The page is parsed and written at once."""

DEMOS = Table(
    "demos",
    METADATA,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("level", String(8), nullable=False),
    Column("text_hash", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("tenant", String(100), nullable=True),
    Index("ix_demos_text_hash_tenant", "text_hash", "tenant"),
    Index("ix_demos_tenant_id", "tenant", "id"),
)
"""``id`` is the demo's ``models.key_of``; the demo's own id is in its document.

In SQLite whoever reads the tenant in a row, or the length of its document, reads the document. So demos are found in
the indexes, and only of those that are wanted the rows are read.
"""
DEMO_APIS = Table(
    "demo_apis",
    METADATA,
    Column("demo", String(64), ForeignKey("demos.id", ondelete="CASCADE"), primary_key=True),
    Column("api", String(400), primary_key=True, index=True),
)
EMBEDDINGS = embeddings_table(METADATA)
KNOWLEDGE = Table(
    "knowledge",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)
CHANGES = Table(
    "demo_changes",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("demo", String(64), primary_key=True),
)
"""The keys of the demos that each of the newest versions added or removed."""
_QUERY: Final = '"query":'
_DECODER: Final = json.JSONDecoder()
_KEPT_VERSIONS: Final = 1_000
_BYTES: Final = func.length(DEMOS.c.document)  # in ASCII
_CALLED: Final = select(func.count()).where(DEMO_APIS.c.demo == DEMOS.c.id).correlate(DEMOS).scalar_subquery()
_SELECTABLE: Final = (_BYTES <= MAX_DEMO_BYTES) & (_CALLED <= MAX_DEMO_APIS)
_ENTRY = (DEMOS.c.id, DEMOS.c.level, DEMOS.c.text_hash, DEMOS.c.tenant)


class DemoStorage:
    """The tables above, as models.

    Writers take turns by locking the row of the version, so inserts cannot conflict; tenants by :class:`Writers`.

    Args:
        engine: engine of the database.
        most_each: most demos of one tenant; None: no bound.
    """

    def __init__(self, engine: AsyncEngine, most_each: int | None = None) -> None:
        self._engine, self._reads, self._probe = engine, Transactions(engine, read_only=True), Probe(engine)
        self._writers = Writers(engine, _growing(0), "changes of demos")
        self._most_each = most_each

    def close(self) -> None:
        """Close its own connections. The engine is left open for its owner to close."""
        self._reads.close()

    async def ping(self) -> None:
        """Raise ServiceUnavailable unless the database can be read and written."""
        await self._probe.check()

    async def version(self) -> int:
        """The version of the knowledge base."""

        def find(connection: Connection) -> int:
            return int(connection.scalar(select(KNOWLEDGE.c.version)) or 0)

        return await self._reads.run(find)  # part of every selection, as is `get`

    async def listing(self) -> Listing:
        """All demos that can be selected, without plans, oldest first, and a version that is no newer than any of them.

        They are read in several transactions. So some may be missing, or there already, that later versions change.
        """
        version, entries, after = await self.version(), list[Entry](), 0
        while page := await self._entries(DEMOS.c.position > after):
            entries += page.values()
            after = max(page)
        async with read(self._engine) as connection:
            left_out = await connection.scalar(select(func.count()).select_from(DEMOS).where(~_SELECTABLE))
        if left_out:
            _log.warning(
                "demos are too large, or call too many APIs, and are not selected",
                demos=left_out,
                most_bytes=MAX_DEMO_BYTES,
                most_apis=MAX_DEMO_APIS,
            )
        return Listing(version, tuple(entries))

    async def changes(self, since: int) -> Changes | None:
        """What has changed since a version. None if this is not known: it is long ago, or an older process wrote.

        The entries are read later, like those of :meth:`listing`.
        """

        def find(connection: Connection) -> tuple[int, frozenset[str]] | None:
            version = int(connection.scalar(select(KNOWLEDGE.c.version)) or 0)
            if version - since > _KEPT_VERSIONS:
                return None
            newer = (CHANGES.c.version > since) & (CHANGES.c.version <= version)
            changed = connection.execute(select(CHANGES.c.version, CHANGES.c.demo).where(newer)).all()
            if {row.version for row in changed} != set(range(since + 1, version + 1)):
                return None
            return version, frozenset(row.demo for row in changed)

        found = await self._reads.run(find)
        if found is None:
            return None
        entries = dict[int, Entry]()
        for some in chunks(sorted(found[1]), _AT_ONCE):
            entries |= await self._entries(DEMOS.c.id.in_(some))
        return Changes(*found, tuple(entries[place] for place in sorted(entries)))

    async def _entries(self, which: ColumnElement[bool]) -> dict[int, Entry]:
        """The first of these demos that can be selected, by their positions, oldest first."""

        def find(connection: Connection) -> dict[int, Entry]:
            query = select(DEMOS.c.position, *_ENTRY).where(which, _SELECTABLE)
            rows = connection.execute(query.order_by(DEMOS.c.position).limit(_AT_ONCE)).all()
            apis: dict[str, list[str]] = {row.id: [] for row in rows}
            links = select(DEMO_APIS.c.demo, DEMO_APIS.c.api).where(DEMO_APIS.c.demo.in_(apis))
            for demo, api in connection.execute(links):
                apis[demo].append(api)
            return {
                row.position: Entry(row.id, row.level, row.text_hash, frozenset(apis[row.id]), row.tenant)
                for row in rows
            }

        return await self._reads.run(find)

    async def vectors(self, encoder: str, hashes: Sequence[str]) -> dict[str, Vectors]:
        """The stored vectors of these texts, each (d,) float32, by hash."""
        async with read(self._engine) as connection:
            return await read_vectors(connection, EMBEDDINGS, encoder, hashes)

    async def embedded(self, encoder: str, hashes: Sequence[str]) -> set[str]:
        """The hashes that have a vector of this encoder."""
        async with read(self._engine) as connection:
            return await known_vectors(connection, EMBEDDINGS, encoder, hashes)

    async def keep_vectors(self, encoder: str, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors by the hash of their text, after a change of the encoder. Existing ones are not changed.

        Those of texts that no demo has any more are left out: nothing would remove them.
        """
        async with self._writers.turn(None) as connection:
            used = set(await connection.scalars(select(DEMOS.c.text_hash).where(DEMOS.c.text_hash.in_(vectors))))
            await keep_vectors(connection, EMBEDDINGS, encoder, {key: vectors[key] for key in used})

    async def check_room(self, demos: Iterable[Demo], tenant: str | None) -> None:
        """Raise Conflict if the tenant would have too many demos with these, whose ids are set."""
        async with read(self._engine) as connection:
            if new := await _new(connection, demos, tenant):
                await self._refuse_too_many(connection, tenant, len(new))

    async def _refuse_too_many(self, connection: AsyncConnection, tenant: str | None, more: int) -> None:
        if tenant is None or self._most_each is None:
            return
        there = await connection.scalar(select(func.count()).select_from(DEMOS).where(DEMOS.c.tenant == tenant))
        if (there or 0) + more > self._most_each:
            raise Conflict(f"A tenant can have at most {self._most_each:,} demonstrations; this one has {there:,}.")

    async def add(
        self,
        demos: Iterable[Demo],
        tenant: str | None = None,
        encoder: str | None = None,
        vectors: Mapping[str, Vectors] = MappingProxyType({}),
    ) -> set[str]:
        """Store demos, whose ids are set, as this tenant's or (None) everyone's.

        A demo that is everyone's already is not stored again for a tenant.

        Args:
            demos: the demos.
            tenant: whose they are.
            encoder: the encoder that has encoded their requests; None: that is left to whoever selects.
            vectors: vectors of the requests that had none, by the requests' hashes.

        Returns:
            The ids of the new demos.

        Raises:
            Conflict: the tenant would have too many.
            VectorsRemoved: a request that had a vector of the encoder has none any more.
        """
        async with self._writers.turn(tenant) as connection:
            if new := await _new(connection, demos, tenant):
                await self._refuse_too_many(connection, tenant, len(new))
                if encoder is not None:
                    await _keep_all(connection, encoder, {text_hash(demo.query) for demo in new}, vectors)
                for some in chunks(new, _AT_ONCE):
                    rows = [_row(demo, tenant) for demo in some]
                    await connection.execute(insert(DEMOS), rows)
                    links = zip(rows, some, strict=True)
                    await connection.execute(
                        insert(DEMO_APIS), [{"demo": row["id"], "api": api} for row, demo in links for api in demo.apis]
                    )
                await _grow(connection, [key_of(demo.id, tenant) for demo in new])
        return {demo.id for demo in new}

    async def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The demos that exist, as JSON, by the keys under which they are stored."""
        if not keys:
            return {}

        def find(connection: Connection) -> dict[str, str]:
            rows = connection.execute(select(DEMOS.c.id, DEMOS.c.document).where(DEMOS.c.id.in_(keys)))
            return {row.id: row.document for row in rows}

        return await self._reads.run(find)

    async def queries(self, keys: Sequence[str]) -> dict[str, str]:
        """The requests of the demos that exist, by key. Their plans, which may be large, are not parsed."""

        def find(connection: Connection) -> dict[str, str]:
            start = func.substr(DEMOS.c.document, 1, _QUERY_CHARS).label("start")
            rows = connection.execute(select(DEMOS.c.id, start).where(DEMOS.c.id.in_(keys)))
            return {row.id: _query_of(row.start) for row in rows}

        return await self._reads.run(find)

    async def of_text(self, hashed: str, limit: int, tenant: str | None = None) -> list[tuple[str, tuple[str, ...]]]:
        """Key and APIs of the tenant's demos of the request with this hash, then of everyone's, oldest first."""
        of_text = select(DEMOS.c.position).where(DEMOS.c.text_hash == hashed).order_by(DEMOS.c.position)

        def find(connection: Connection) -> list[tuple[str, tuple[str, ...]]]:
            places = [
                place
                for owner in dict.fromkeys((tenant, None))
                for place in connection.scalars(of_text.where(DEMOS.c.tenant == owner).limit(limit))
            ][:limit]
            small = select(DEMOS.c.position, DEMOS.c.id).where(DEMOS.c.position.in_(places), _SELECTABLE)
            keys = dict(map(tuple, connection.execute(small).all()))
            apis: dict[str, list[str]] = {keys[place]: [] for place in places if place in keys}
            links = select(DEMO_APIS.c.demo, DEMO_APIS.c.api).where(DEMO_APIS.c.demo.in_(apis))
            for demo, api in connection.execute(links.order_by(DEMO_APIS.c.api)) if apis else ():
                apis[demo].append(api)
            return [(key, tuple(names)) for key, names in apis.items()]

        return await self._reads.run(find)  # part of every request, as is `get`

    async def page(
        self, limit: int, after: int, apis: Sequence[str] = (), tenant: str | None = None, *, own: bool = False
    ) -> Page:
        """Demos after a position, oldest first: the tenant's and, unless ``own``, everyone's; of these APIs, if any.

        The page has fewer than ``limit`` if together they would be too large.
        """
        owners = (tenant,) if own else dict.fromkeys((tenant, None))
        seen = union_all(*(_places(owner, apis) for owner in owners)).subquery()
        query = select(seen.c.position).where(seen.c.position > after).order_by(seen.c.position).limit(limit + 1)
        async with read(self._engine) as connection:
            total = await connection.scalar(select(func.count()).select_from(seen))
            places = (await connection.scalars(query)).all()
            shown = await _fitting(connection, places[:limit])
            documents = select(DEMOS.c.document).where(DEMOS.c.position.in_(shown)).order_by(DEMOS.c.position)
            demos = tuple(map(Demo.model_validate_json, await connection.scalars(documents)))
        return Page(demos=demos, total=total or 0, next=shown[-1] if len(places) > len(shown) else None)

    async def delete(self, key: str, tenant: str | None = None) -> bool:
        """Remove the demo with this key, which is this tenant's or (None) everyone's. False if there is none.

        Its vectors are removed if no other demo has its request.
        """
        query = select(DEMOS.c.text_hash).where(DEMOS.c.id == key)
        async with read(self._engine) as connection:  # a request that changes nothing takes no turn
            if await connection.scalar(query) is None:
                return False
        async with self._writers.turn(tenant) as connection:
            hashed = await connection.scalar(query)
            if hashed is None:
                return False
            await connection.execute(delete(DEMO_APIS).where(DEMO_APIS.c.demo == key))
            await connection.execute(delete(DEMOS).where(DEMOS.c.id == key))
            still_used = exists().where(DEMOS.c.text_hash == hashed)
            await connection.execute(delete(EMBEDDINGS).where(EMBEDDINGS.c.text_hash == hashed, ~still_used))
            await _grow(connection, [key])
            return True


def _places(tenant: str | None, apis: Sequence[str]) -> Select[tuple[int]]:
    """The positions of the demos of a tenant or (None) of everyone; only of those that use one of these APIs, if any.

    ``tenant`` and ``id`` alone are looked at: they are in an index.
    """
    query = select(DEMOS.c.position).where(DEMOS.c.tenant == tenant)
    return query.where(DEMOS.c.id.in_(select(DEMO_APIS.c.demo).where(DEMO_APIS.c.api.in_(apis)))) if apis else query


async def _fitting(connection: AsyncConnection, places: Sequence[int]) -> list[int]:
    """The first of these positions whose demos fit on a page, but at least one. Few sizes beyond those are read."""
    fit, size = list[int](), 0
    for start in range(0, len(places), _SIZED):
        some = places[start : start + _SIZED]
        rows = await connection.execute(select(DEMOS.c.position, _BYTES).where(DEMOS.c.position.in_(some)))
        for place, one in sorted(map(tuple, rows)):
            size += one
            if fit and size > _PAGE_BYTES:
                return fit
            fit.append(place)
    return fit


def _growing(by: int) -> Update:
    """Increase the version. Other writers wait at this statement until the transaction ends."""
    return update(KNOWLEDGE).values(version=KNOWLEDGE.c.version + by)


async def _new(connection: AsyncConnection, demos: Iterable[Demo], tenant: str | None) -> list[Demo]:
    """The demos, each once, that neither the tenant nor everyone has."""
    wanted = {demo.id: demo for demo in demos}
    there: set[str] = set()
    for chunk in chunks(list(wanted)):
        for keys in (chunk, [key_of(one, tenant) for one in chunk]):
            there.update(await connection.scalars(select(DEMOS.c.id).where(DEMOS.c.id.in_(keys))))
    return [demo for demo in wanted.values() if there.isdisjoint((demo.id, key_of(demo.id, tenant)))]


async def _keep_all(
    connection: AsyncConnection, encoder: str, hashes: Set[str], vectors: Mapping[str, Vectors]
) -> None:
    """Store the vectors with these hashes. Raises VectorsRemoved unless each of the hashes has a vector then."""
    await refuse_removed(connection, EMBEDDINGS, encoder, list(hashes - vectors.keys()))
    for some in chunks(list(hashes & vectors.keys()), _AT_ONCE):
        await keep_vectors(connection, EMBEDDINGS, encoder, {key: vectors[key] for key in some})


async def _grow(connection: AsyncConnection, keys: Iterable[str]) -> None:
    """Make a new version, in which the demos with these keys were added or removed."""
    await connection.execute(_growing(1))
    version = (await connection.scalars(select(KNOWLEDGE.c.version))).one()
    await connection.execute(insert(CHANGES), [{"version": version, "demo": key} for key in keys])
    await connection.execute(delete(CHANGES).where(CHANGES.c.version <= version - _KEPT_VERSIONS))


def document_of(demo: Demo) -> str:
    """The demo as it is stored."""
    return demo.model_dump_json(ensure_ascii=True)


def _query_of(start: str) -> str:
    """The request of a demo whose document begins like this. Before it stand an id and a level, without quotes."""
    return str(_DECODER.raw_decode(start, start.index(_QUERY) + len(_QUERY))[0])


def _row(demo: Demo, tenant: str | None) -> dict[str, str | None]:
    return {
        "id": key_of(demo.id, tenant),
        "level": demo.level,
        "text_hash": text_hash(demo.query),
        "document": document_of(demo),
        "tenant": tenant,
    }
