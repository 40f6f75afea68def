"""Finds the runs that nobody works on any more."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.ownership.members import Membership
from services.storage.engine import read, try_lock


async def has_orphans(
    engine: AsyncEngine,
    membership: Membership,
    table: sa.Table,
    under_way: sa.ColumnElement[bool],
    here: Collection[str],
) -> bool:
    """Whether there are rows that :func:`lock_orphans` would lock. It waits for no writer, and none waits for it.

    Every process asks this all the time. A transaction that writes would hold SQLite's lock for as long as a busy event
    loop takes for its statements, while the heartbeats of all processes wait for it.
    """
    async with read(engine) as connection:
        found = sa.select(table.c.id).where(under_way, _orphaned(membership, table, here)).limit(1)
        return await connection.scalar(found) is not None


async def lock_orphans(
    connection: AsyncConnection,
    membership: Membership,
    table: sa.Table,
    under_way: sa.ColumnElement[bool],
    here: Collection[str],
    limit: int,
) -> list[sa.Row[Any]]:
    """The rows of at most ``limit`` runs under way that no process works on, locked until the transaction ends.

    These are the runs whose owner is dead, and this process's own that it does not work on. The list is empty while
    another process takes runs over.

    Args:
        connection: in a transaction that writes.
        membership: that of this process.
        table: the runs, with the columns ``id`` and ``owner``.
        under_way: the condition for a run that needs an owner.
        here: the runs that this process works on, a live view: one may begin during the query.
        limit: how many at most.
    """
    if not await try_lock(connection, f"{table.name}.takeover"):
        return []
    orphans = sa.select(table).where(under_way, _orphaned(membership, table, here)).order_by(table.c.id).limit(limit)
    # Skips locked rows: an owner that is alive after all and is writing keeps its run.
    rows = (await connection.execute(orphans.with_for_update(skip_locked=True))).all()
    return [row for row in rows if row.id not in here]


def _orphaned(membership: Membership, table: sa.Table, here: Collection[str]) -> sa.ColumnElement[bool]:
    c = table.c
    return c.owner.not_in(membership.living()) | (c.owner == membership.id) & c.id.not_in(sorted(here))
