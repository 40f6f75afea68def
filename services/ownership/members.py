"""Tracks which processes of a service are alive, so that a live one can take over the work of a dead one.

Every process has a row and renews it. A process counts as dead in two cases: its row is older than a lease by the
database's clock, or its row has not changed for a lease by the observer's monotonic clock. The second case matters if
the database's clock is set back: dead processes would otherwise look alive for that long. It is safe if a "dead"
process is in fact alive: the new owner raises the work's epoch, and writes of the former owner, which carry the old
epoch, are refused.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.contracts.operations import Worker
from services.storage.engine import clock, insert, read, write

_FORGOTTEN_AFTER_LEASES = 100


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
        self._seen: dict[str, tuple[float, float]] = {}

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
        now = clock(engine)
        statement = insert(engine, self._table).values(id=self.id, seen_at=now)
        renewed = statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now})
        forgotten = self._table.c.seen_at < now - _FORGOTTEN_AFTER_LEASES * self.lease_s
        async with write(engine) as connection:
            await connection.execute(renewed)
            await connection.execute(self._table.delete().where(forgotten))
            rows = (await connection.execute(sa.select(self._table.c.id, self._table.c.seen_at))).all()
        now_s = self._monotonic()
        seen: dict[str, tuple[float, float]] = {}
        for row in rows:
            before = self._seen.get(row.id)
            seen[row.id] = before if before and before[0] == row.seen_at else (row.seen_at, now_s)
        self._seen = seen  # replaced as a whole, because another thread may be reading it

    async def leave(self) -> None:
        """Delete this process's row, so that others can take over its runs at once."""
        async with write(self._engine) as connection:
            await connection.execute(self._table.delete().where(self._table.c.id == self.id))

    def living(self) -> sa.Select[tuple[str]]:
        """The ids of the processes that are alive, as a subquery: ``owner.not_in(membership.living())``."""
        c, latest_s = self._table.c, self._monotonic() - self.lease_s
        alive = sa.select(c.id).where(c.seen_at > clock(self._engine) - self.lease_s)
        for member, (seen_at, since) in self._seen.items():
            if since < latest_s and member != self.id:
                alive = alive.where((c.id != member) | (c.seen_at != seen_at))  # unless its row has changed since
        return alive
