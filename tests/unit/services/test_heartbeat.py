"""A process that works is seen to be alive, whatever holds up its event loop."""

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from services.ownership import heartbeat as heartbeat_module
from services.ownership.heartbeat import Heartbeat
from services.ownership.members import Membership, members_table
from services.storage.engine import create_engine
from tests.support.members import PATIENCE_S, changes

METADATA = sa.MetaData()
MEMBERS = members_table(METADATA)


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
