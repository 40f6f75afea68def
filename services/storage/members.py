"""Which of a service's processes are alive, so that another one can take over what a dead one left behind.

Every process keeps a row and renews it. Dead is a process whose row is older than a lease by the database's clock, or
has not changed for a lease by the clock of whoever looks, which is never set: a database's clock that was set back
would else keep the dead alive for as long as it was set back. Nothing depends on a dead process really being dead: who
takes work over raises the work's epoch, and every write of the former owner is refused by comparing it.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from services.contracts.operations import Worker
from services.storage.engine import clock, read, write

_FORGOTTEN_AFTER_LEASES = 100


def members_table(metadata: sa.MetaData) -> sa.Table:
    """The table of a service's processes: ``id``, and ``seen_at`` in seconds of the database's clock."""
    return sa.Table(
        "members",
        metadata,
        sa.Column("id", sa.String(100), primary_key=True),
        sa.Column("seen_at", sa.Float, nullable=False),
    )


async def workers(
    engine: AsyncEngine, table: sa.Table, lease_s: float, owned: sa.Select[str, int]
) -> tuple[Worker, ...]:
    """The processes that have a row, and others that still own something; the most recently seen first.

    Args:
        engine: the database's.
        table: the members.
        lease_s: seconds without a sign of life after which a process counts as dead.
        owned: owners, and how many runs under way each has.
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
    """The row of one process, this one, in a table made by :func:`members_table`.

    Args:
        engine: the database's.
        table: the members.
        lease_s: seconds without a sign of life after which a process counts as dead.
        monotonic: seconds of a clock that is never set.
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
        """Of its database, password and all."""
        return self._engine.url.render_as_string(hide_password=False)

    def over(self, engine: AsyncEngine) -> "Membership":
        """The same member over another connection to its database."""
        same = Membership(engine, self._table, self.lease_s)
        same.id = self.id
        return same

    async def beat(self) -> None:
        """Show that this process is alive, and look whether the others do."""
        insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        now = clock(self._engine)
        statement = insert(self._table).values(id=self.id, seen_at=now)
        renewed = statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now})
        forgotten = self._table.c.seen_at < now - _FORGOTTEN_AFTER_LEASES * self.lease_s
        async with write(self._engine) as connection:
            await connection.execute(renewed)
            await connection.execute(self._table.delete().where(forgotten))
            rows = (await connection.execute(sa.select(self._table.c.id, self._table.c.seen_at))).all()
        now_s = self._monotonic()
        former, self._seen = self._seen, {}
        for row in rows:
            before = former.get(row.id)
            self._seen[row.id] = before if before and before[0] == row.seen_at else (row.seen_at, now_s)

    async def leave(self) -> None:
        """Take this process's row away: what it still owns can be taken over at once."""
        async with write(self._engine) as connection:
            await connection.execute(self._table.delete().where(self._table.c.id == self.id))

    def living(self) -> sa.Select[tuple[str]]:
        """The ids of the processes that are alive, as a subquery: ``owner.not_in(membership.living())``."""
        c, latest_s = self._table.c, self._monotonic() - self.lease_s
        alive = sa.select(c.id).where(c.seen_at > clock(self._engine) - self.lease_s)
        for member, (seen_at, since) in self._seen.items():
            if since < latest_s and member != self.id:
                alive = alive.where((c.id != member) | (c.seen_at != seen_at))  # unless it has shown itself since
        return alive
