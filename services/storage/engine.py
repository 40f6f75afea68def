"""SQL engines. This module handles all differences between SQLite and PostgreSQL."""

import asyncio
import sqlite3
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import aiosqlite
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ExceptionContext,
    Float,
    Table,
    Update,
    cast,
    event,
    func,
    literal_column,
    make_url,
    select,
    text,
)
from sqlalchemy import create_engine as create_sync_engine
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from services.compute import for_tenant
from services.errors import Overloaded, ServiceUnavailable
from services.fair_slots import FairSlots

T = TypeVar("T")
BUSY_TIMEOUT_MS = 20_000
"""How long SQLite waits for another writer: a busy disk takes seconds for a commit, and requests have half a minute."""
PATIENCE_S = 30.0
"""How long a transaction on a server may take, without its wait for a lock (:func:`write`)."""
LOCK_PATIENCE_MS = 20_000
"""How long a transaction on a server waits for a lock that others hold; less than ``PATIENCE_S``."""
_AT_ONCE: Final = 13
"""Transactions at once; the pools have 15 connections, two of which notifications may take."""
_EACH: Final = 10
"""Transactions of one tenant at once."""
_FAST, _FAST_EACH = 8, 4
"""The same for those of :class:`Transactions`. Further ones wait in turns of tenants, and hold no connection."""
_TURN_S: Final = 20.0
"""How long a transaction waits for its tenant's turn."""
_MOST_WAITING: Final = 10_000
_WAL_ATTEMPTS = 100
_TURNS: Final = WeakKeyDictionary[Engine, FairSlots]()
_CREATING: Final = threading.Lock()
_GIBBERISH = (BufferError, UnicodeDecodeError)
"""Errors that asyncpg raises, unwrapped, if the peer does not speak PostgreSQL's protocol."""
_READ_ONLY: Final = "25006"
"""SQLSTATE of a write that a standby refuses, or a provider after the disk has become full."""
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


class _Connection(sqlite3.Connection):
    """A connection that releases its locks when it is closed.

    SQLite keeps a closed connection and the locks of its transaction until the last statement is deleted. The error's
    traceback keeps the statement of a cancelled task alive, so one cancelled run would block all writers.
    """

    def close(self) -> None:
        with suppress(sqlite3.Error):  # closed already, or the file is broken
            self.rollback()
        super().close()


_CONNECT: Final = MappingProxyType({"timeout": BUSY_TIMEOUT_MS / 1000, "factory": _Connection})


class _Driver(aiosqlite.Connection):
    """A driver's connection that is closed with a single message to its thread. Closing it is idempotent.

    A request whose client disconnects is cancelled repeatedly. The library's ``close`` sends two messages. If it is
    cancelled between them, it waits forever for a thread that has ended.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(partial(sqlite3.connect, *arguments, **options), iter_chunk_size=64)
        self._thread.daemon = True  # a connection left open does not keep the process alive

    def stop(self) -> asyncio.Future[Any] | None:
        return super().stop() if self._running else None

    async def close(self) -> None:
        stopped = self.stop()
        if stopped is not None:
            await stopped


def create_engine(url: str) -> AsyncEngine:
    """An engine for ``sqlite+aiosqlite:///FILE`` or ``postgresql+asyncpg://...``.

    SQLite runs in WAL mode with ``synchronous=FULL``, so a committed transaction survives a crash, and readers do not
    wait for the writer. The folder of the file is created if missing, and only the owner may access the file. Errors
    contain statements without their values, because values hold user data.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        server = create_async_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=10, hide_parameters=True)
        event.listen(server.sync_engine, "handle_error", _forget_values)
        event.listen(server.sync_engine, "handle_error", _leave_read_only)
        return server
    if parsed.database and parsed.database != ":memory:":
        _keep_private(Path(parsed.database))
    engine = create_async_engine(url, connect_args={**_CONNECT, "async_creator_fn": _Driver}, hide_parameters=True)
    _prepare(engine.sync_engine)
    return engine


def _keep_private(file: Path) -> None:
    """Create the file for its owner only, or revoke access of others. SQLite copies the mode to its files beside it.

    A file that exists is never opened here. If a process closes any descriptor of a file, POSIX takes all of the
    process's locks on it, including those of SQLite's connections. Another process could then take itself for the last
    one, and delete the write-ahead log in use (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The lock: a connection of another thread could otherwise open the new file before this descriptor is closed.
    with _CREATING, suppress(OSError):  # it exists, or SQLite reports the problem with more detail
        file.touch(mode=0o600, exist_ok=False)
    for one in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):  # missing, or owned by another user
            one.chmod(one.stat().st_mode & ~0o007)


def _forget_values(context: ExceptionContext) -> None:
    """Remove PostgreSQL's `DETAIL` from an error that will be logged: it quotes the conflicting row."""
    original = context.original_exception
    for error in (context.sqlalchemy_exception, original, original.__cause__):
        if error is not None and error.args and isinstance(error.args[0], str):
            error.args = (error.args[0].partition("\nDETAIL:")[0], *error.args[1:])
        if isinstance(getattr(error, "detail", None), str):
            setattr(error, "detail", None)  # noqa: B010 - an attribute of the untyped driver


def _leave_read_only(context: ExceptionContext) -> None:
    """Close all connections of a server that takes no writes: after a failover another one does, at the same address.

    The old primary keeps its connections open, so they would otherwise be used for as long as it lives.
    """
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _prepare(engine: Engine) -> None:
    """Configure how an SQLite engine sets up connections and begins transactions."""
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_immediate)


def _set_pragmas(connection: Any, _record: object) -> None:
    # The driver's own handling starts transactions late, and read-only at first. Ours are explicit.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    _enter_wal(cursor)
    cursor.close()


def _enter_wal(cursor: Any) -> None:
    # SQLite does not wait for its lock here: if two processes start on a new file, one fails at once.
    for attempt in range(_WAL_ATTEMPTS):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == _WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.01)


def _begin_immediate(connection: Any) -> None:
    # A deferred transaction that reads and then writes may fail with SQLITE_BUSY at once, whatever the timeout.
    options = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN" if options.get("read_only") else "BEGIN IMMEDIATE")


@asynccontextmanager
async def write(engine: AsyncEngine, lock_statement: Update | None = None) -> AsyncIterator[AsyncConnection]:
    """A transaction. Commits at the end; rolls back on an error.

    Args:
        engine: engine of the database.
        lock_statement: executed first: it locks what all writers lock. On PostgreSQL it waits for a limited time, and
            the transaction's own time begins after it.

    Raises:
        Overloaded: other writers held a lock for too long.
        ServiceUnavailable: the database cannot be reached, or did not answer in time.
    """
    async with _turn(engine), _named(engine) as patience, engine.begin() as connection:
        if lock_statement is not None:
            if engine.dialect.name == "postgresql":
                await connection.execute(select(func.set_config("lock_timeout", f"{LOCK_PATIENCE_MS}ms", True)))
            await connection.execute(lock_statement)
            if patience.when() is not None:
                patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
        yield connection


class Transactions:
    """Fast transactions. Each runs a function of a synchronous connection.

    The asynchronous SQLite driver switches threads about twenty times for a transaction of four statements, which
    takes several times as long as the commit itself. Here the thread is switched once. PostgreSQL needs no thread.

    Args:
        engine: engine of the same database.
        read_only: transactions only read; on SQLite they never wait for a writer.

    Attributes:
        engine: the same.
    """

    def __init__(self, engine: AsyncEngine, *, read_only: bool = False) -> None:
        self.engine, self._read_only = engine, read_only
        self._turns = FairSlots(_FAST, each=_FAST_EACH, what="transactions")
        self._thread: ThreadPoolExecutor | None = None
        if engine.dialect.name == "sqlite":
            url = engine.url.set(drivername="sqlite+pysqlite")
            options = {**_CONNECT, "check_same_thread": False}
            self._sync = create_sync_engine(url, connect_args=options, poolclass=StaticPool, hide_parameters=True)
            _prepare(self._sync)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-reader" if read_only else "sqlite-writer")

    async def run(self, work: Callable[[Connection], T], whose: str | None = None) -> T:
        """Run ``work`` and commit, or roll back on an error. Raises the same errors as :func:`write`.

        ``whose``: the turn that it takes, by default that of the tenant ``for_tenant``.
        """
        until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        async with self._turns.slot(for_tenant.get() if whose is None else whose, BUSY_TIMEOUT_MS / 1000):
            return await self._do(work, until)

    async def _do(self, work: Callable[[Connection], T], until: float) -> T:
        if self._thread is None:
            async with (read if self._read_only else write)(self.engine) as connection:
                return await connection.run_sync(work)
        async with _named(self.engine):
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, until)

    def _run(self, work: Callable[[Connection], T], until: float) -> T:
        if time.monotonic() > until:  # else each that waits for the thread would wait as long again for the lock
            raise _busy()
        with self._sync.connect().execution_options(read_only=self._read_only) as connection, connection.begin():
            return work(connection)

    def close(self) -> None:
        """Wait for pending writes and close the connection."""
        if self._thread is not None:
            self._thread.shutdown()
            self._sync.dispose()


@asynccontextmanager
async def read(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection for reading; on SQLite it never waits for a writer."""
    async with _turn(engine), _named(engine), engine.connect() as connection:
        yield await connection.execution_options(read_only=True)


def _turn(engine: AsyncEngine) -> AbstractAsyncContextManager[None]:
    """One of the engine's connections, in turns of tenants. The pool's own queue has no turns. Raises Overloaded."""
    slots = _TURNS.get(engine.sync_engine)
    if slots is None:
        slots = _TURNS[engine.sync_engine] = FairSlots(_AT_ONCE, _MOST_WAITING, _EACH, "transactions")
    return slots.slot(for_tenant.get(), _TURN_S)


@asynccontextmanager
async def _named(engine: AsyncEngine) -> AsyncIterator[asyncio.Timeout]:
    """Turn a database that cannot be reached, or is locked too long, into a 503; other database errors are bugs.

    If a server disappears silently (power loss, or a firewall that dropped the connection), neither the driver nor TCP
    ever times out. So transactions on PostgreSQL have a timeout, which the context gives.
    """
    try:
        async with asyncio.timeout(PATIENCE_S if engine.dialect.name == "postgresql" else None) as patience:
            yield patience
    except DBAPIError as error:
        # An error without a statement comes from connecting: the server is starting, full, or has no such database.
        connecting = error.statement is None and not isinstance(error, IntegrityError)
        if _is_busy(error):
            raise _busy() from error
        if _is_full(error):
            raise _cannot_write(engine) from error
        if connecting or _is_stopping(error) or error.connection_invalidated or isinstance(error.orig, OSError):
            raise _unavailable(engine) from error
        raise
    except (OSError, PoolTimeout, *_GIBBERISH) as error:  # a TimeoutError is an OSError
        raise _unavailable(engine) from error


def _is_busy(error: DBAPIError) -> bool:
    """Locked by another writer, or aborted by PostgreSQL because of one (serialization, deadlock, lock timeout)."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return (code is not None and code & 0xFF == sqlite3.SQLITE_BUSY) or _sqlstate(error) in {"40001", "40P01", "55P03"}


def _is_full(error: DBAPIError) -> bool:
    """The disk is full or broken, or the server takes no writes or is out of resources (SQLSTATE 53 and 58)."""
    code, state = getattr(error.orig, "sqlite_errorcode", None), _sqlstate(error)
    return (code is not None and code & 0xFF in _FULL) or state == _READ_ONLY or state[:2] in {"53", "58"}


def _is_stopping(error: DBAPIError) -> bool:
    """The server is stopping, starting, or was killed (SQLSTATE 57)."""
    return _sqlstate(error)[:2] == "57"


def _sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _busy() -> Overloaded:
    return Overloaded("The database is busy with other writers.", retry_after_s=1)


def _unavailable(engine: AsyncEngine) -> ServiceUnavailable:
    return ServiceUnavailable(f"The database ({engine.dialect.name}) cannot be reached.", service=engine.dialect.name)


def _cannot_write(engine: AsyncEngine) -> ServiceUnavailable:
    return ServiceUnavailable(f"The database ({engine.dialect.name}) cannot write.", service=engine.dialect.name)


def clock(engine: AsyncEngine) -> ColumnElement[float]:
    """The database's clock, in seconds since 1970. It is the only clock that all processes share."""
    if engine.dialect.name == "sqlite":
        return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Float)
    return cast(func.extract("epoch", func.clock_timestamp()), Float)


def insert(engine: AsyncEngine, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insertion that can say what happens to a row that exists already (``on_conflict_do_...``)."""
    return sqlite.insert(table) if engine.dialect.name == "sqlite" else postgresql.insert(table)


def position(engine: AsyncEngine, text: ColumnElement[str], part: ColumnElement[str]) -> ColumnElement[int]:
    """Where the part first occurs in the text, from 1; 0 if it does not."""
    return (func.instr if engine.dialect.name == "sqlite" else func.strpos)(text, part)


async def freeze(connection: AsyncConnection) -> None:
    """Make all reads of this connection see one state of the database, as SQLite does anyway. Call it first."""
    if connection.dialect.name != "sqlite":
        await connection.execution_options(isolation_level="REPEATABLE READ")


async def try_lock(connection: AsyncConnection, name: str) -> bool:
    """Try to take the named lock until the transaction ends. Returns False if another transaction holds it.

    On SQLite it always succeeds, because a write transaction already excludes all others.
    """
    if connection.dialect.name == "sqlite":
        return True
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock(zlib.crc32(name.encode())))))


async def lock(connection: AsyncConnection, name: str) -> None:
    """Take the named lock until the transaction ends, once no other transaction holds it. On SQLite: as `try_lock`."""
    if connection.dialect.name != "sqlite":
        await connection.execute(select(func.pg_advisory_xact_lock(zlib.crc32(name.encode()))))


class Probe:
    """Checks for `/readyz` that a database can be read and written.

    SQLite answers ``SELECT 1`` without reading its file. So the check opens its own connection, reads from every table
    and writes a number that nothing uses. This detects a file that is locked, damaged, or on a full disk. On
    PostgreSQL it begins a write transaction, which a standby server refuses, and asks whether it may write.

    Args:
        engine: engine of the database.
        patience_s: how long another connection may hold the write lock, in seconds.
    """

    def __init__(self, engine: AsyncEngine, patience_s: float = 10.0) -> None:
        self._engine, self._patience_s = engine, patience_s
        self._writable_at = time.monotonic()

    async def check(self) -> None:
        """Raise ServiceUnavailable if the check fails."""
        await (self._look() if self._is_file() else ping(self._engine))

    def _is_file(self) -> bool:
        return self._engine.dialect.name == "sqlite" and self._engine.url.database not in (None, "", ":memory:")

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(_use_sqlite, str(self._engine.url.database))
            self._writable_at = time.monotonic()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_CANTOPEN:
                raise _unavailable(self._engine) from error
            if code != sqlite3.SQLITE_BUSY:
                what = "cannot write" if code in _FULL else "is damaged"
                raise ServiceUnavailable(f"The database (sqlite) {what}.", service="sqlite") from error
            if time.monotonic() - self._writable_at > self._patience_s:
                raise ServiceUnavailable(
                    "The database (sqlite) is locked by another process.", service="sqlite"
                ) from error


def _use_sqlite(file: str) -> None:
    uri = f"{Path(file).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=0.2, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=NORMAL")  # the number need not survive a crash
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone()  # noqa: S608 - our own tables
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA user_version=1")
        connection.execute("COMMIT")


async def ping(engine: AsyncEngine) -> None:
    """Raise ServiceUnavailable unless the database answers; on PostgreSQL it must also accept writes."""
    server = engine.dialect.name == "postgresql"
    look = "SELECT pg_current_xact_id(), current_setting('transaction_read_only') = 'on'" if server else "SELECT 1, 0"
    try:
        async with engine.connect() as connection:
            await connection.execution_options(read_only=True)
            _, read_only = (await connection.execute(text(look))).one()
            if read_only:
                await connection.invalidate()  # the next one may reach the server that takes writes
    except (SQLAlchemyError, OSError) as error:
        raise _unavailable(engine) from error
    if read_only:
        raise _cannot_write(engine)
