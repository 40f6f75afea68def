"""Who counts as alive, whatever the database's clock was set to meanwhile."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.ownership import members
from services.ownership.members import BEATS_PER_LEASE, Membership, members_table, workers
from services.storage.engine import create_engine, write

LEASE_S = 10.0
METADATA = sa.MetaData()
MEMBERS = members_table(METADATA)


@dataclass
class Stopwatch:
    """A clock that is never set, and goes only when told."""

    now_s: float = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    opened = create_engine(database_url)
    async with opened.begin() as connection:
        await connection.run_sync(METADATA.create_all)
    yield opened
    await opened.dispose()


async def set_clock_back(engine: AsyncEngine, by_s: float) -> None:
    """What was written before it lies in the future from now on; in the past if ``by_s`` is negative."""
    async with write(engine) as connection:
        await connection.execute(MEMBERS.update().values(seen_at=MEMBERS.c.seen_at + by_s))


async def alive(engine: AsyncEngine, looking: Membership) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.scalars(looking.living()))


async def ids(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.scalars(sa.select(MEMBERS.c.id)))


async def watch_for_a_lease(looking: Membership, watch: Stopwatch) -> None:
    for _ in range(BEATS_PER_LEASE):
        watch.now_s += LEASE_S / BEATS_PER_LEASE
        await looking.beat()


@pytest.mark.parametrize("back_s", [0.0, 60.0, 86_400.0, -60.0])
async def test_the_dead_are_found_out_whatever_the_clock_says(engine: AsyncEngine, back_s: float) -> None:
    watch = Stopwatch()
    dead, looking = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S, watch)
    await dead.beat()
    await set_clock_back(engine, back_s)
    await looking.beat()
    assert await alive(engine, looking) == {dead.id, looking.id}
    await watch_for_a_lease(looking, watch)
    assert await alive(engine, looking) == {looking.id}


@pytest.mark.parametrize("back_s", [3_600.0, -60.0, -86_400.0])
async def test_who_shows_itself_is_alive_although_the_clock_was_set(engine: AsyncEngine, back_s: float) -> None:
    watch = Stopwatch()
    other, looking = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S, watch)
    await other.beat()
    await looking.beat()
    for _ in range(BEATS_PER_LEASE):
        await set_clock_back(engine, back_s)
        watch.now_s += LEASE_S - 1
        await looking.beat()
        assert await alive(engine, looking) == {other.id, looking.id}
        await other.beat()
        assert await alive(engine, looking) == {other.id, looking.id}


@pytest.mark.parametrize("leases", [1.5, 1_000.0])
async def test_nobody_is_dead_because_the_database_was_away(engine: AsyncEngine, leases: float) -> None:
    watch = Stopwatch()
    other, looking = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S, watch)
    await other.beat()
    await looking.beat()
    await looking.beat()
    watch.now_s += leases * LEASE_S
    assert await alive(engine, looking) == {other.id, looking.id}
    for _ in range(BEATS_PER_LEASE - 2):
        await looking.beat()
        assert await alive(engine, looking) == {other.id, looking.id}
    await other.beat()
    await watch_for_a_lease(looking, watch)
    assert await alive(engine, looking) == {other.id, looking.id}


async def test_who_has_shown_itself_since_the_last_look_is_alive(engine: AsyncEngine) -> None:
    watch = Stopwatch()
    other, looking = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S, watch)
    await other.beat()
    await looking.beat()
    await watch_for_a_lease(looking, watch)
    assert await alive(engine, looking) == {looking.id}
    await other.beat()
    assert await alive(engine, looking) == {other.id, looking.id}


async def test_rows_of_processes_that_died_long_ago_are_deleted(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "_FORGOTTEN_AFTER_BEATS", 3 * BEATS_PER_LEASE)
    watch = Stopwatch()
    dead, looking = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S, watch)
    await dead.beat()
    await looking.beat()
    for _ in range(3):
        await watch_for_a_lease(looking, watch)
    assert await ids(engine) == {dead.id, looking.id}
    await looking.beat()
    assert await ids(engine) == {looking.id}


async def test_workers_are_told_with_what_they_own_the_dead_and_the_forgotten_among_them(engine: AsyncEngine) -> None:
    living, dead = Membership(engine, MEMBERS, LEASE_S), Membership(engine, MEMBERS, LEASE_S)
    await living.beat()
    await dead.beat()
    async with write(engine) as connection:
        late = MEMBERS.update().where(MEMBERS.c.id == dead.id).values(seen_at=MEMBERS.c.seen_at - LEASE_S - 5)
        await connection.execute(late)
    rows = (
        sa.select(sa.literal(one).label("owner"), sa.literal(n).label("n")) for one, n in ((dead.id, 2), ("gone", 1))
    )
    owned = sa.union_all(*rows).subquery()
    told = await workers(engine, MEMBERS, LEASE_S, sa.select(owned.c.owner, owned.c.n))
    assert [(one.id, one.alive, one.runs) for one in told] == [
        (living.id, True, 0),
        (dead.id, False, 2),
        ("gone", False, 1),
    ]
    assert told[0].seen_s is not None
    assert told[1].seen_s is not None
    assert told[0].seen_s < LEASE_S < told[1].seen_s
    assert told[2].seen_s is None
