"""Writers of the catalogue: what they wait for, and in how many statements they write."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from retriever_svc.engine.texts import record
from retriever_svc.models import ImportedDocumentRecord, Record
from retriever_svc.storage import CatalogueStorage
from retriever_svc.tables import APIS, CATALOGUE, Names
from services.contracts.api import Api
from services.errors import Conflict, NotFound
from services.storage.embeddings import VectorsRemoved
from services.storage.engine import create_engine, read, write
from services.storage.migrate import migrate
from tests.unit.retriever_svc.catalogue import api

HANG_S = 15.0
"""A guard: less than the 30 s that an exhausted pool, and the 20 s that SQLite, would be waited for."""


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(database_url)
    await migrate(engine, "retriever_svc")
    yield engine
    await engine.dispose()


def document_of(provider: str, tenant: str) -> ImportedDocumentRecord:
    return ImportedDocumentRecord(
        provider, "0" * 64, "openapi-3.1", "1", None, True, "1", datetime.now(UTC), tenants=(tenant,), owner=tenant
    )


def records_of(provider: str, tenant: str, count: int, summary: str = "") -> list[Record]:
    return [record(api(f"op{n}", summary, provider, tenants=(tenant,))) for n in range(count)]


async def kept(storage: CatalogueStorage, provider: str, tenant: str, count: int = 1, summary: str = "") -> None:
    records = records_of(provider, tenant, count, summary)
    await storage.replace_provider(document_of(provider, tenant), records, "e", {}, tenant=tenant)


async def test_removing_what_is_not_there_waits_for_no_writer(engine: AsyncEngine) -> None:
    storage = CatalogueStorage(engine)
    await kept(storage, "zoo", "blue")
    async with write(engine) as connection:
        await connection.execute(sa.update(CATALOGUE).values(version=CATALOGUE.c.version))
        for provider in ("nothing", "zoo"):
            with pytest.raises(NotFound):
                await asyncio.wait_for(storage.delete_provider(provider, "red"), HANG_S)
    storage.close()


async def test_writers_that_wait_leave_connections_to_readers(engine: AsyncEngine) -> None:
    storage = CatalogueStorage(engine)
    await kept(storage, "zoo", "red")
    version, one = await storage.version(), records_of("shop", "red", 30)
    async with write(engine) as connection:
        await connection.execute(sa.update(CATALOGUE).values(version=CATALOGUE.c.version))
        tasks = [asyncio.create_task(storage.create(new, "e", {})) for new in one]
        tasks += [asyncio.create_task(storage.delete_provider("zoo", "red")) for _ in range(10)]
        for _ in range(200):  # those that ask for a connection get as far as they can
            await asyncio.sleep(0.001)
        assert await asyncio.wait_for(storage.version(), HANG_S) == version
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(one, NotFound) for one in done) == 9
    assert sum(one is None for one in done) == 31
    storage.close()


async def test_tenants_take_turns_at_writing(engine: AsyncEngine) -> None:
    storage, order = CatalogueStorage(engine), list[str]()

    async def change(provider: str, tenant: str) -> None:
        await kept(storage, provider, tenant)
        order.append(tenant)

    async with storage._writers.turn("red"):
        tasks = [asyncio.create_task(change(f"p{n}", "red")) for n in range(4)]
        tasks.append(asyncio.create_task(change("q", "blue")))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order.index("blue") == 1
    storage.close()


async def test_changed_rows_are_written_many_at_a_time_and_keep_their_numbers(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever_svc.storage._ROWS", 20)
    storage, sizes = CatalogueStorage(engine), list[int]()

    def stored(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if statement.startswith("UPDATE apis"):
            sizes.append(len(parameters) if many else 1)

    async def rows() -> dict[str, tuple[int, str, str]]:
        columns = (APIS.c.id, APIS.c.number, APIS.c.summary, APIS.c.stamp)
        async with read(engine) as connection:
            return {row[0]: tuple(row[1:]) for row in await connection.execute(sa.select(*columns))}

    await kept(storage, "zoo", "red", 50)
    before = await rows()
    event.listen(engine.sync_engine, "before_cursor_execute", stored)
    await kept(storage, "zoo", "red", 50, "changed")
    after = await rows()
    assert sizes == [20, 20, 10]
    assert {key: row[0] for key, row in after.items()} == {key: row[0] for key, row in before.items()}
    assert {row[1] for row in after.values()} == {"changed"}
    assert len({row[2] for row in (*before.values(), *after.values())}) == 100
    await storage.delete_provider("zoo", "red")
    await kept(storage, "zoo", "red", 50, "changed")  # the stamps are those of rows that are inserted
    assert {key: row[2] for key, row in (await rows()).items()} == {key: row[2] for key, row in after.items()}
    storage.close()


async def test_texts_whose_vectors_were_removed_are_not_stored(engine: AsyncEngine) -> None:
    storage = CatalogueStorage(engine)
    await kept(storage, "zoo", "red")
    (one,) = records_of("shop", "red", 1)
    with pytest.raises(VectorsRemoved):
        await storage.replace_provider(
            document_of("shop", "red"), [one], "e", {}, tenant="red", embedded=[one.text_hash]
        )
    assert await storage.owners([one.api.id]) == {}
    vectors = {one.text_hash: np.zeros(4, np.float32)}
    await storage.replace_provider(document_of("shop", "red"), [one], "e", vectors, tenant="red")
    await storage.replace_provider(document_of("shop", "red"), [one], "e", {}, tenant="red", embedded=[one.text_hash])
    storage.close()


async def test_a_tenant_has_so_many_apis(engine: AsyncEngine) -> None:
    storage = CatalogueStorage(engine, most_each=5)
    await kept(storage, "zoo", "red", 3)
    with pytest.raises(Conflict, match="at most 5 APIs; this one has 3"):
        await kept(storage, "shop", "red", 3)
    with pytest.raises(Conflict, match="at most 5"):
        await storage.change(document_of("shop", "red"), records_of("shop", "red", 3), "red")
    await kept(storage, "shop", "red", 2)
    await kept(storage, "zoo", "red", 3, "changed")
    await kept(storage, "zoo", "red", 1)
    await kept(storage, "farm", "blue", 5)
    everyones = records_of("park", "red", 9)
    document = dataclasses.replace(document_of("park", "red"), owner=None)
    await storage.replace_provider(document, everyones, "e", {})
    storage.close()


async def test_the_apis_of_a_provider_are_read_a_few_at_a_time(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever_svc.storage._ROWS", 4)
    storage = CatalogueStorage(engine)
    await kept(storage, "zoo", "red", 10)
    parts = [[Api.model_validate_json(one).name for one in part] async for part in storage.of_provider("zoo", "red")]
    assert parts == [["op0", "op1", "op2", "op3"], ["op4", "op5", "op6", "op7"], ["op8", "op9"]]
    assert [part async for part in storage.of_provider("zoo", "blue")] == [[], [], []]
    storage.close()


async def test_a_page_of_documents_reads_only_its_own(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = CatalogueStorage(engine)
    for number in range(12):
        for tenant in ("red", "blue", "Red"):
            await kept(storage, f"{tenant.lower()}{number:02}-{'' if tenant.islower() else 'x'}", tenant)
    for name, tenants in (("a", ()), ("o", ("blue", "red")), ("s", ("red_", "Red"))):
        shared = dataclasses.replace(document_of(name, ""), tenants=tenants, owner=None)
        await storage.replace_provider(shared, [record(api("op", provider=name))], "e", {})
    audiences = list[str | None]()

    def decode(_: Names, value: str | None, dialect: sa.Dialect) -> tuple[str, ...]:
        audiences.append(value)
        return tuple(json.loads(value or "[]"))

    monkeypatch.setattr(Names, "process_result_value", decode)

    async def listed(tenant: str | None, limit: int) -> list[str]:
        names = list[str]()
        after: str | None = ""
        while after is not None:
            audiences.clear()
            records, total, after = await storage.document_records.page(limit, after, tenant)
            assert len(audiences) == len(records) <= limit
            names += [one.provider for one in records]
        assert total == len(names) == len(set(names))
        return names

    own = [f"red{number:02}-" for number in range(12)]
    assert sorted(await listed("red", 5)) == ["a", "o", *own]
    assert sorted(await listed("Red", 1)) == ["a", *(f"{name}x" for name in own), "s"]
    assert sorted(await listed("green", 1)) == ["a"]
    assert len(await listed(None, 13)) == 39
