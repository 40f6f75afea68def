"""A process that works is seen to be alive, whatever holds up its event loop."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from services.storage import heartbeat as heartbeat_module
from services.storage.engine import create_engine
from services.storage.heartbeat import Heartbeat
from services.storage.members import Membership, members_table

METADATA = sa.MetaData()
MEMBERS = members_table(METADATA)
PATIENCE_S = 30.0


def last_seen(file: Path) -> float:
    with closing(sqlite3.connect(file, timeout=PATIENCE_S)) as database:
        return float(database.execute("SELECT seen_at FROM members").fetchone()[0])


def changes(file: Path, within_s: float) -> bool:
    """Whether a sign of life comes while the event loop stands still."""
    before, until = last_seen(file), time.monotonic() + within_s
    while time.monotonic() < until:
        if last_seen(file) != before:
            return True
        time.sleep(0.02)
    return False


async def opened(file: Path, lease_s: float, within: Callable[[Membership], None]) -> None:
    engine = create_engine(f"sqlite+aiosqlite:///{file}")
    try:
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
        member = Membership(engine, MEMBERS, lease_s)
        await member.beat()
        beat = Heartbeat(member)
        async with beat.beating():
            within(member)
            await beat.stop()
            await member.leave()
        async with engine.connect() as connection:
            assert (await connection.execute(sa.select(MEMBERS))).all() == []
    finally:
        await engine.dispose()


async def test_a_lease_is_not_lost_to_ones_own_loop(tmp_path: Path) -> None:
    file = tmp_path / "members.db"
    await opened(file, 0.5, lambda _: _expect(changes(file, PATIENCE_S) and changes(file, PATIENCE_S)))


async def test_a_loop_that_hangs_for_good_loses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_module, "_HUNG_LEASES", 0)
    file = tmp_path / "members.db"
    await opened(file, 0.5, lambda _: _expect(not changes(file, 1.0)))


def _expect(found: bool) -> None:
    assert found
