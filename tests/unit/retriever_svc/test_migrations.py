"""The catalogue's migrations, one by one and back again, with an API in the tables, on both databases."""

import json
from collections.abc import AsyncIterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from retriever_svc.document_records import DocumentRecords
from retriever_svc.tables import METADATA
from services.storage.engine import create_engine
from tests.support.migrations import migrate_to

OLD = "INSERT INTO apis VALUES (1, 'zoo.feed', 'zoo', 'feed', 'POST', '/', '', '{}', '', '', '', '', {}, '{{}}')"
HASH = "0123456789abcdef" * 4


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    made = create_engine(database_url)
    yield made
    await made.dispose()


async def differences(engine: AsyncEngine) -> list[object]:
    """Where the tables are not what the code says they are."""
    async with engine.begin() as connection:
        return await connection.run_sync(lambda it: compare_metadata(MigrationContext.configure(it), METADATA))


async def rows(engine: AsyncEngine, columns: str) -> list[tuple[object, ...]]:
    async with engine.begin() as connection:
        return [tuple(row) for row in await connection.execute(text(f"SELECT {columns} FROM apis"))]


async def test_there_and_back_again(engine: AsyncEngine) -> None:
    await migrate_to(engine, "retriever_svc", "0001")
    async with engine.begin() as connection:
        await connection.execute(text(OLD.format(HASH, "true").replace(":", "\\:")))
    await migrate_to(engine, "retriever_svc", "0002")
    assert await rows(engine, "id, operation_key, revision") == [("zoo.feed", "", "")]
    await migrate_to(engine, "retriever_svc", "0003")
    assert await rows(engine, "id, stamp") == [("zoo.feed", HASH[:32])]
    await migrate_to(engine, "retriever_svc", "0004")
    assert await rows(engine, "id, tags, tenants") == [("zoo.feed", "[]", "[]")]
    imported = "INSERT INTO documents (provider, document_hash, format, imported_at, tenants) VALUES "
    values = "('{}', '', '', '2026-01-01 00:00:00', '{}')"
    async with engine.begin() as connection:
        for name, tenants in (("one", '["red"]'), ("two", '["blue", "red"]'), ("all", "[]")):
            await connection.execute(text(imported + values.format(name, tenants)))
    await migrate_to(engine, "retriever_svc", "0005")
    async with engine.begin() as connection:
        found = await connection.execute(text("SELECT provider, owner FROM documents"))
        owners = {row.provider: row.owner for row in found}
    assert owners == {"one": "red", "two": None, "all": None}
    await migrate_to(engine, "retriever_svc", "0006")
    async with engine.begin() as connection:
        found = await connection.execute(text("SELECT constants FROM documents"))
        assert [str(row.constants) for row in found] == ["{}"] * 3
    await migrate_to(engine, "retriever_svc", "0007")
    async with engine.begin() as connection:
        found = await connection.execute(text("SELECT places FROM documents"))
        assert [row.places for row in found] == ["[]"] * 3
    skipped = [{"operation": "é" * 400, "reason": f"no {n}"} for n in range(700)]
    async with engine.begin() as connection:
        noted = text("UPDATE documents SET notes = :notes WHERE provider = 'one'")
        await connection.execute(noted, {"notes": json.dumps([skipped, ["a warning"]])})
    await migrate_to(engine, "retriever_svc", "0008")
    async with engine.begin() as connection:
        found = await connection.execute(text("SELECT provider, notes, skipped, skipped_total FROM documents"))
        told = {row.provider: row for row in found}
    kept = [one | {"operation": "é" * 300} for one in skipped[:500]]
    assert json.loads(told["one"].notes) == [kept, ["a warning"]]
    assert (json.loads(told["one"].skipped), told["one"].skipped_total) == (kept[:20], 700)
    assert (told["two"].notes, told["two"].skipped, told["two"].skipped_total) == ("{}", "[]", 0)
    await migrate_to(engine, "retriever_svc", "0009")
    seen = {"red": ["all", "one", "two"], "blue": ["all", "two"], "Red": ["all"], None: ["all", "one", "two"]}
    for tenant, names in seen.items():
        records, total, further = await DocumentRecords(engine).page(9, "", tenant)
        assert ([one.provider for one in records], total, further) == (names, len(names), None)
    assert await differences(engine) == []
    await migrate_to(engine, "retriever_svc", "-0004")
    await migrate_to(engine, "retriever_svc", "-0003")
    await migrate_to(engine, "retriever_svc", "-0002")
    await migrate_to(engine, "retriever_svc", "-0001")
    assert await rows(engine, "id, content_hash") == [("zoo.feed", HASH)]
    assert await differences(engine)
    await migrate_to(engine, "retriever_svc", "head")
    assert await rows(engine, "id, stamp") == [("zoo.feed", HASH[:32])]
    assert await differences(engine) == []


async def test_to_nothing(engine: AsyncEngine) -> None:
    await migrate_to(engine, "retriever_svc", "head")
    await migrate_to(engine, "retriever_svc", "-base")
    async with engine.begin() as connection:
        assert await connection.run_sync(lambda it: inspect(it).get_table_names()) == ["alembic_version"]
