"""Runs the migrations once per process, service and kind of database. Later databases replay the SQL statements."""

import importlib.resources
from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, inspect
from sqlalchemy.ext.asyncio import AsyncEngine

Statement = tuple[str, Any]
_QUERIES = ("SELECT", "PRAGMA")
_upgrade = command.upgrade
_recorded: dict[tuple[str | None, str], list[Statement]] = {}


def _replayed(config: Config, revision: str, *more: Any, **named: Any) -> None:
    """Replace ``alembic.command.upgrade``, at a fraction of its cost for a new database."""
    connection: Connection | None = config.attributes.get("connection")
    if connection is None or revision != "head" or inspect(connection).get_table_names():
        _upgrade(config, revision, *more, **named)
        return
    key = config.get_main_option("script_location"), connection.dialect.name
    if key not in _recorded:
        _recorded[key] = _record(connection, config)
        return
    for statement, parameters in _recorded[key]:
        connection.exec_driver_sql(statement, parameters)


def _record(connection: Connection, config: Config) -> list[Statement]:
    statements = list[Statement]()

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if not statement.lstrip().upper().startswith(_QUERIES):
            statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        _upgrade(config, "head")
    finally:
        event.remove(connection, "before_cursor_execute", note)
    return statements


async def migrate_to(engine: AsyncEngine, service: str, revision: str) -> None:
    """Upgrade a service's database or, if the revision starts with "-", downgrade it."""

    def run(connection: Connection) -> None:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(importlib.resources.files(service) / "migrations"))
        step = command.downgrade if revision.startswith("-") else command.upgrade
        step(config, revision.removeprefix("-"))

    async with engine.begin() as connection:
        await connection.run_sync(run)


@pytest.fixture(autouse=True, scope="session")
def _replayed_migrations() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "upgrade", _replayed)
        yield


@pytest.fixture
def real_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn replaying off, for tests of the migrations themselves."""
    monkeypatch.setattr(command, "upgrade", _upgrade)
