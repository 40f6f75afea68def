"""Engines: transactions and concurrency, on SQLite and on PostgreSQL."""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.errors import Overloaded, ServiceUnavailable
from services.storage import engine as engine_module
from services.storage.engine import Probe, create_engine, freeze, insert, ping, position, read, write

THINGS = sa.table("things", sa.column("name", sa.String))
CREATE = sa.text("CREATE TABLE things (name VARCHAR(20) PRIMARY KEY)")


@pytest.fixture(params=["sqlite", "postgresql"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """An empty database with one table."""
    url = f"sqlite+aiosqlite:///{tmp_path}/deep/er/test.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    engine = create_engine(url)
    async with write(engine) as connection:
        await connection.execute(CREATE)
    yield engine
    await engine.dispose()


async def names(engine: AsyncEngine) -> list[str]:
    async with read(engine) as connection:
        return list(await connection.scalars(sa.select(THINGS.c.name).order_by(THINGS.c.name)))


async def add(engine: AsyncEngine, *names: str, fail: bool = False) -> None:
    async with write(engine) as connection:
        for name in names:
            await connection.execute(sa.insert(THINGS).values(name=name))
        if fail:
            raise RuntimeError


async def test_rows_that_exist_are_left_as_they_are(engine: AsyncEngine) -> None:
    table = sa.Table("things", sa.MetaData(), sa.Column("name", sa.String, primary_key=True))
    async with write(engine) as connection:
        for name in ("a", "b", "a"):
            await connection.execute(insert(engine, table).values(name=name).on_conflict_do_nothing())
    assert await names(engine) == ["a", "b"]


async def test_a_part_of_a_text_is_found_where_it_begins(engine: AsyncEngine) -> None:
    await add(engine, "a%b")
    async with read(engine) as connection:
        found = [await connection.scalar(sa.select(position(engine, THINGS.c.name, sa.literal(p)))) for p in ("%", "_")]
    assert found == [2, 0]


async def test_frozen_reads_see_one_state(engine: AsyncEngine) -> None:
    async with read(engine) as connection:
        await freeze(connection)
        assert (await connection.scalars(sa.select(THINGS.c.name))).all() == []
        await add(engine, "a")
        assert (await connection.scalars(sa.select(THINGS.c.name))).all() == []
    assert await names(engine) == ["a"]


def test_only_the_storage_package_asks_which_database_it_is() -> None:
    root = Path(engine_module.__file__).parents[2]
    files = [
        file
        for name in ("gateway", "retriever_svc", "demo_svc", "planner_svc", "executor_svc")
        for file in (root / name).rglob("*.py")
    ]
    files += (root / "services").glob("*.py")
    assert [str(file) for file in files if "dialect.name" in file.read_text(encoding="utf-8")] == []


async def test_a_transaction_is_all_or_nothing(engine: AsyncEngine) -> None:
    await add(engine, "a")
    with pytest.raises(IntegrityError):  # not a database that cannot be reached
        await add(engine, "b", "a")
    with pytest.raises(RuntimeError):
        await add(engine, "c", fail=True)
    assert await names(engine) == ["a"]


async def test_a_cancelled_transaction_changes_nothing_and_holds_nobody_up(engine: AsyncEngine) -> None:
    inside = asyncio.Event()

    async def stuck() -> None:
        async with write(engine) as connection:
            await connection.execute(sa.insert(THINGS).values(name="b"))
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(stuck())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await add(engine, "c")
    assert await names(engine) == ["c"]


async def test_a_transaction_that_is_cancelled_while_it_reads_holds_nobody_up(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/test.db"
    reading, go_on = threading.Event(), threading.Event()

    def wait() -> int:
        reading.set()
        return int(go_on.wait(20))

    engine, other = create_engine(url), create_engine(url)
    sa.event.listen(engine.sync_engine, "connect", lambda raw, _: raw.create_function("wait", 0, wait))
    async with write(engine) as connection:
        await connection.execute(CREATE)

    async def stuck() -> None:
        async with write(engine) as connection:
            await connection.execute(sa.insert(THINGS).values(name="b"))
            await connection.execute(sa.text("SELECT wait() UNION ALL SELECT 1 UNION ALL SELECT 2"))

    task = asyncio.create_task(stuck())
    await asyncio.to_thread(reading.wait, 20)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:  # whose traceback keeps the statement alive
        await task
    await add(other, "c")
    assert await names(other) == ["c"]
    assert cancelled
    await engine.dispose()
    await other.dispose()


@pytest.mark.parametrize("turns", range(2, 40, 3))
async def test_a_transaction_that_is_cancelled_again_and_again_leaves_nothing_behind(
    tmp_path: Path, turns: int
) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    async with write(engine) as connection:
        await connection.execute(CREATE)

    async def stuck() -> None:
        async with write(engine) as connection:
            while True:
                await connection.execute(sa.insert(THINGS).values(name="b"))

    before, task = asyncio.all_tasks(), asyncio.create_task(stuck())
    for _ in range(turns):
        await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait_for(add(engine, "c"), 10)
    assert await names(engine) == ["c"]
    for _ in range(1_000):
        if asyncio.all_tasks() == before:
            break
        await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == before
    await engine.dispose()


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine(postgres_url)
    monkeypatch.setattr("services.storage.engine.PATIENCE_S", 0.2)
    with pytest.raises(ServiceUnavailable):
        async with write(engine) as connection:
            await connection.execute(sa.select(sa.func.pg_sleep(60)))
    monkeypatch.undo()
    async with read(engine) as connection:
        assert await connection.scalar(sa.select(1)) == 1
    await engine.dispose()


async def become_read_only(engine: AsyncEngine) -> None:
    """From now on the pool's connection is one to a server that takes no writes, as a former primary's."""
    async with write(engine) as connection:
        await connection.execute(sa.text("SET SESSION default_transaction_read_only = on"))


async def test_a_server_that_takes_no_writes_is_an_outage_and_is_left(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    await add_table(engine)
    await become_read_only(engine)
    with pytest.raises(ServiceUnavailable, match="cannot write"):
        await add(engine, "a")
    await add(engine, "b")
    await become_read_only(engine)
    with pytest.raises(ServiceUnavailable, match="cannot write"):
        await ping(engine)
    await ping(engine)
    assert await names(engine) == ["b"]
    await engine.dispose()


async def test_a_writer_whose_view_is_too_old_is_told_to_come_back(tmp_path: Path) -> None:
    """SQLite's extended code for it is not that of a lock held too long."""
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    await add_table(engine)

    async def write_late() -> None:
        async with read(engine) as connection:
            await connection.scalars(sa.select(THINGS.c.name))
            await add(engine, "a")
            await connection.execute(sa.insert(THINGS).values(name="b"))

    with pytest.raises(Overloaded, match="busy"):
        await write_late()
    await engine.dispose()


async def test_a_server_that_talks_gibberish_is_no_bug(engine: AsyncEngine) -> None:
    """asyncpg raises what its reader stumbles over, as it is."""
    with pytest.raises(ServiceUnavailable):
        async with write(engine):
            raise BufferError("not enough data to read one byte")


async def test_a_reader_does_not_wait_for_a_writer_and_sees_what_is_committed(engine: AsyncEngine) -> None:
    await add(engine, "a")
    async with write(engine) as connection:
        await connection.execute(sa.insert(THINGS).values(name="b"))
        assert await asyncio.wait_for(names(engine), 2) == ["a"]
    assert await names(engine) == ["a", "b"]


async def test_writers_take_turns(engine: AsyncEngine) -> None:
    async def grow(name: str) -> None:
        async with write(engine) as connection:  # reads, then writes: the pattern that deadlocks deferred transactions
            await connection.scalars(sa.select(THINGS.c.name))
            await asyncio.sleep(0.005)
            await connection.execute(sa.insert(THINGS).values(name=name))

    await asyncio.gather(*(grow(f"n{number}") for number in range(12)))
    assert len(await names(engine)) == 12


async def test_a_lock_held_too_long_is_a_503_that_says_when_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 20)
    url = f"sqlite+aiosqlite:///{tmp_path}/test.db"
    one, other = create_engine(url), create_engine(url)
    async with write(one) as connection:
        await connection.execute(CREATE)
        with pytest.raises(Overloaded, match="busy") as caught:
            await add(other, "a")
    assert caught.value.extensions["retry_after_s"] == 1
    await add(other, "a")
    assert await names(one) == ["a"]
    await one.dispose()
    await other.dispose()


async def test_those_that_wait_for_the_writer_do_not_each_wait_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of a hundred was told after half an hour that another process had held the lock."""
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 200)
    monkeypatch.setattr(engine_module, "_CONNECT", {**engine_module._CONNECT, "timeout": 0.2})
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    await add_table(engine)
    transactions, begun = engine_module.Transactions(engine), list[object]()
    sa.event.listen(transactions._sync, "begin", begun.append, insert=True)
    async with write(engine):
        writes = (transactions.run(lambda connection: connection.execute(CREATE)) for _ in range(10))
        refused = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in refused] == [Overloaded] * 10
    assert len(begun) < 5
    transactions.close()
    await engine.dispose()


async def test_a_wrong_statement_is_a_bug_and_not_an_outage(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    with pytest.raises(OperationalError):
        await names(engine)
    await ping(engine)
    await engine.dispose()


@pytest.mark.parametrize("call", ["ping", "read", "write"])
async def test_a_database_that_is_not_there_is_named(call: str, tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    for url, name in (
        (f"sqlite+aiosqlite:///{tmp_path}/folder.db", "sqlite"),
        ("postgresql+asyncpg://nobody:nothing@127.0.0.1:1/none", "postgresql"),
    ):
        engine = create_engine(url)
        with pytest.raises(ServiceUnavailable) as caught:
            await (ping(engine) if call == "ping" else names(engine) if call == "read" else add(engine, "a"))
        assert caught.value.extensions["service"] == name
        assert "nothing" not in caught.value.detail  # the password
        await engine.dispose()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def full(_file: Path) -> Iterator[None]:
    """No file of this process grows beyond a byte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def corrupt(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    file.write_bytes(b"\xa5" * len(whole))
    yield
    file.write_bytes(whole)


@pytest.mark.parametrize(
    ("harm", "said"),
    [(locked, "locked"), (full, "cannot write"), (corrupt, "damaged")],
    ids=["locked", "full", "corrupt"],
)
async def test_a_database_that_keeps_nothing_is_not_ready(
    harm: Callable[[Path], AbstractContextManager[None]], said: str, tmp_path: Path
) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    async with write(engine) as connection:
        await connection.execute(CREATE)
    probe = Probe(engine, patience_s=0)
    await probe.check()
    with harm(tmp_path / "test.db"), pytest.raises(ServiceUnavailable, match=said):
        await probe.check()
    await probe.check()
    await engine.dispose()


async def test_another_may_write_for_a_while(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    await add_table(engine)
    probe = Probe(engine)
    with locked(tmp_path / "test.db"):
        await probe.check()
    await engine.dispose()


async def test_a_probe_takes_a_server_that_writes(engine: AsyncEngine) -> None:
    await Probe(engine).check()


async def test_others_cannot_read_the_files(tmp_path: Path) -> None:
    file = tmp_path / "new" / "test.db"
    old = os.umask(0)
    try:
        engine = create_engine(f"sqlite+aiosqlite:///{file}")
        await add_table(engine)
        modes = {one.name: one.stat().st_mode & 0o777 for one in (file.parent, *file.parent.iterdir())}
        await engine.dispose()
    finally:
        os.umask(old)
    assert modes == {"new": 0o700, "test.db": 0o600, "test.db-wal": 0o600, "test.db-shm": 0o600}
    file.chmod(0o644)
    await create_engine(f"sqlite+aiosqlite:///{file}").dispose()
    assert file.stat().st_mode & 0o007 == 0


async def test_another_engine_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """A process that takes itself for the last one that uses the file deletes its log on closing."""
    file = tmp_path / "test.db"
    first = create_engine(f"sqlite+aiosqlite:///{file}")
    await add_table(first)
    second = create_engine(f"sqlite+aiosqlite:///{file}")
    closing_it = (
        "import sqlite3, sys; one = sqlite3.connect(sys.argv[1]); one.execute('SELECT * FROM things'); one.close()"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", closing_it, str(file)], check=True)
    assert (tmp_path / "test.db-wal").exists()
    await add(first, "a")
    assert await names(second) == ["a"]
    await first.dispose()
    await second.dispose()


async def test_errors_do_not_name_values(engine: AsyncEngine) -> None:
    value = "hunter" + str(2)  # so that no line of source holds it
    await add(engine, value)
    with pytest.raises(IntegrityError) as caught:
        await add(engine, value)
    told = "".join(traceback.format_exception(caught.value))
    assert "things" in told
    assert value not in told


async def add_table(engine: AsyncEngine) -> None:
    async with write(engine) as connection:
        await connection.execute(CREATE)


async def test_sqlite_is_durable_and_checks_foreign_keys(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    async with read(engine) as connection:
        found = {name: await connection.scalar(sa.text(f"PRAGMA {name}")) for name in PRAGMAS}
    assert found == PRAGMAS
    await engine.dispose()


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 20000}
