"""Tracks which processes of a service are alive, so that a live one can take over the work of a dead one.

Every process has a row and renews it. One counts as dead if its row has not changed for a lease by the observer's
monotonic clock, and in as many beats of the observer as a lease has. The database's clock does not count: set forward,
it would make all processes look dead, and set back, dead ones alive. Nor does the time in which the observer could not
look: after an outage of the database everybody has the time to renew its row. It is safe if a "dead" process is in fact
alive: the new owner raises the work's epoch, and writes of the former owner, which carry the old epoch, are refused.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.contracts.operations import Worker
from services.storage.engine import clock, insert, read, write

BEATS_PER_LEASE: Final = 5
_FORGOTTEN_AFTER_BEATS: Final = 100 * BEATS_PER_LEASE


def members_table(metadata: sa.MetaData) -> sa.Table:
    """The table of a service's processes: ``id``, and ``seen_at`` in seconds by the database's clock."""
    return sa.Table(
        "members",
        metadata,
        sa.Column("id", sa.String(100), primary_key=True),
        sa.Column("seen_at", sa.Float, nullable=False),
    )


async def workers(
    engine: AsyncEngine, table: sa.Table, lease_s: float, owned: sa.Select[str, int]
) -> tuple[Worker, ...]:
    """The processes that have a row, and others that still own runs; the most recently seen first.

    Args:
        engine: engine of the database.
        table: the members table.
        lease_s: seconds without a heartbeat after which a process counts as dead.
        owned: query of owners and the number of unfinished runs of each.
    """
    async with read(engine) as connection:
        ages = (await connection.execute(sa.select(table.c.id, clock(engine) - table.c.seen_at))).all()
        runs = {owner: int(count) for owner, count in await connection.execute(owned)}
    seen = {row[0]: max(0.0, float(row[1])) for row in ages}
    found = [
        Worker(id=one, seen_s=round(age, 3), alive=age < lease_s, runs=runs.get(one, 0)) for one, age in seen.items()
    ]
    found += [Worker(id=one, alive=False, runs=count) for one, count in runs.items() if one not in seen]
    return tuple(sorted(found, key=lambda one: (one.seen_s is None, one.seen_s or 0.0)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A row that an observer looks at: what it holds, since when, and in how many further beats it has held that."""

    seen_at: float
    since_s: float
    beats: int = 0


class Membership:
    """The row of this process in a table made by :func:`members_table`.

    Args:
        engine: engine of the database.
        table: the members table.
        lease_s: seconds without a heartbeat after which a process counts as dead.
        monotonic: returns seconds of a monotonic clock.
    """

    def __init__(
        self, engine: AsyncEngine, table: sa.Table, lease_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.id = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(6)}"
        self.lease_s = lease_s
        self._engine, self._table, self._monotonic = engine, table, monotonic
        self._seen: dict[str, _Seen] = {}

    @property
    def url(self) -> str:
        """URL of the database, including the password."""
        return self._engine.url.render_as_string(hide_password=False)

    async def beat(self, engine: AsyncEngine | None = None) -> None:
        """Renew this process's row, and record which other rows have changed.

        Args:
            engine: another engine of the same database, for a caller in another event loop.
        """
        engine = engine or self._engine
        c, now = self._table.c, clock(engine)
        statement = insert(engine, self._table).values(id=self.id, seen_at=now)
        renewed = statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now})
        async with write(engine) as connection:
            await connection.execute(renewed)
            await connection.execute(self._table.delete().where(self._unchanged(_FORGOTTEN_AFTER_BEATS)))
            rows = (await connection.execute(sa.select(c.id, c.seen_at))).all()
        before, fresh = self._seen, self._monotonic()
        seen: dict[str, _Seen] = {}
        for row in rows:
            last = before.get(row.id)
            same = last is not None and last.seen_at == row.seen_at
            seen[row.id] = replace(last, beats=last.beats + 1) if last and same else _Seen(row.seen_at, fresh)
        self._seen = seen  # replaced as a whole, because another thread may be reading it

    async def leave(self) -> None:
        """Delete this process's row, so that others can take over its runs at once."""
        async with write(self._engine) as connection:
            await connection.execute(self._table.delete().where(self._table.c.id == self.id))

    def living(self) -> sa.Select[tuple[str]]:
        """The ids of the processes that are alive, as a subquery: ``owner.not_in(membership.living())``."""
        return sa.select(self._table.c.id).where(~self._unchanged(BEATS_PER_LEASE))

    def _unchanged(self, beats: int) -> sa.ColumnElement[bool]:
        """Rows of others that have not changed for a lease and in this many beats of this process, nor since."""
        latest_s = self._monotonic() - self.lease_s
        found = [
            (member, seen.seen_at)
            for member, seen in self._seen.items()
            if member != self.id and seen.beats >= beats and seen.since_s <= latest_s
        ]
        return sa.tuple_(self._table.c.id, self._table.c.seen_at).in_(found)
