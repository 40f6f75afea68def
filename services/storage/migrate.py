"""Alembic migrations, run by the service itself at start. Each service has its own ``migrations`` folder.

A service's ``migrations/env.py`` is::

    from my_svc.storage import METADATA
    from services.storage.migrate import run_env

    run_env(METADATA)
"""

import importlib.resources
import zlib

from alembic import command, context
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, create_engine, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.errors import UnusableSettings
from services.storage.refusals import opening


def _config(package: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(importlib.resources.files(package) / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


async def migrate(engine: AsyncEngine, package: str) -> None:
    """Bring the database up to the newest revision of ``package``'s migrations.

    Several replicas may start at once. One migrates while the others wait: on PostgreSQL for an advisory lock, on
    SQLite for the write transaction.

    Raises:
        UnusableSettings: the database cannot be used, is another service's, or a newer version has migrated it.
    """

    def upgrade(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": zlib.crc32(package.encode())})
        config = _config(package)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    try:
        async with opening(engine), engine.begin() as connection:
            await connection.run_sync(upgrade)
    except CommandError as error:  # its revision or its tables are none of ours
        where = engine.url.render_as_string(hide_password=True)
        raise UnusableSettings(f"the database {where} cannot be used by this version of {package}: {error}") from error


def run_env(metadata: MetaData) -> None:
    """The body of every ``migrations/env.py``."""
    connection: Connection | None = context.config.attributes.get("connection")
    if connection is not None:
        _run(connection, metadata)
        return
    # Reached from the `alembic` command line, to write a new revision.
    url = context.config.get_main_option("sqlalchemy.url") or "sqlite://"
    with create_engine(url).begin() as own:
        _run(own, metadata)


def _run(connection: Connection, metadata: MetaData) -> None:
    existing = set(inspect(connection).get_table_names())
    # Revisions of services have the same numbers: an upgrade would begin in the middle, on the tables of another.
    if "alembic_version" in existing and not existing & metadata.tables.keys() and len(existing) > 1:
        raise CommandError("it has the tables of another service")
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=False)
    context.run_migrations()


def revision(package: str, message: str, url: str) -> None:
    """Write a new revision of ``package``'s migrations by comparing its tables with the database at ``url``."""
    config = _config(package)
    config.set_main_option("sqlalchemy.url", url)
    command.revision(config, message=message, autogenerate=True)
