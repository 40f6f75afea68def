"""Migrations, on SQLite and on PostgreSQL."""

import asyncio
import importlib
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from services.storage.engine import create_engine, read
from services.storage.migrate import migrate

PACKAGES = ["gateway", "retriever_svc", "demo_svc"]
TABLES = ["gateway.tables", "retriever_svc.tables", "demo_svc.storage"]


@pytest.mark.parametrize("package", PACKAGES)
async def test_migrations_can_run_again_and_side_by_side(package: str, tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite+aiosqlite:///{tmp_path}/test.db", postgres_url):
        replicas = [create_engine(url) for _ in range(2)]
        await asyncio.gather(*(migrate(replica, package) for replica in replicas))
        await migrate(replicas[0], package)
        async with read(replicas[1]) as connection:
            tables = set(await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names()))
            versions = list(await connection.scalars(sa.text("SELECT version_num FROM alembic_version")))
        assert len(tables) > 1
        assert len(versions) == 1
        for replica in replicas:
            await replica.dispose()


@pytest.mark.parametrize("tables", TABLES)
async def test_migrations_make_the_tables_that_the_code_uses(tables: str, tmp_path: Path, postgres_url: str) -> None:
    metadata = importlib.import_module(tables).METADATA
    package = tables.partition(".")[0]
    for url in (f"sqlite+aiosqlite:///{tmp_path}/test.db", postgres_url):
        engine = create_engine(url)
        await migrate(engine, package)
        async with engine.connect() as connection:
            differences = await connection.run_sync(
                lambda sync: compare_metadata(MigrationContext.configure(sync), metadata)
            )
        assert differences == []
        await engine.dispose()
