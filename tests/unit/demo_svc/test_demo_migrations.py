"""The knowledge base's migrations, with a demo of before in the tables, on both databases."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert

from demo_svc.storage import DEMO_APIS, DEMOS, EMBEDDINGS, METADATA, DemoStorage
from services.contracts.demo import demo_id
from services.storage.engine import create_engine
from tests.support.migrations import migrate_to
from tests.unit.demo_svc.support import demo


@pytest.mark.usefixtures("real_migrations")
async def test_what_is_there_stays_everyones(database_url: str) -> None:
    engine = create_engine(database_url)
    storage = DemoStorage(engine)
    old = demo("how was it before?", "p.a")
    old = old.model_copy(update={"id": demo_id(old)})
    row = {"id": old.id, "level": "task", "text_hash": "0" * 64, "document": old.model_dump_json()}
    await migrate_to(engine, "demo_svc", "0001")
    async with engine.begin() as connection:
        await connection.execute(insert(DEMOS).values(row))
        await connection.execute(insert(DEMO_APIS).values(demo=old.id, api="p.a"))
        for hashed in ("0" * 64, "1" * 64):
            await connection.execute(insert(EMBEDDINGS).values(text_hash=hashed, encoder="e", vector=b"0000"))
    await migrate_to(engine, "demo_svc", "head")
    assert await storage.embedded("e", ["0" * 64, "1" * 64]) == {"0" * 64}  # no demo has the other text
    own = demo("how is it now?", "p.a")
    own = own.model_copy(update={"id": demo_id(own)})
    await storage.add([own], "red")
    assert [(await storage.page(10, 0, (), tenant)).demos for tenant in (None, "red")] == [(old,), (old, own)]
    async with engine.begin() as connection:
        assert await connection.run_sync(lambda it: compare_metadata(MigrationContext.configure(it), METADATA)) == []
    await migrate_to(engine, "demo_svc", "-0001")
    await migrate_to(engine, "demo_svc", "head")
    assert (await storage.page(10, 0, (), "red")).demos == (old,)
    await engine.dispose()
