"""Turns at writing, for a database whose writers all lock the same row."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy import Update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.errors import Overloaded
from services.fair_slots import FairSlots
from services.storage.engine import write

_WAITING: Final = 1_024
_WAITING_EACH: Final = 64
_WAIT_S: Final = 60.0
"""How long a writer waits for its turn: longer than one turn can take."""


class Writers:
    """The writers of this process. One of them writes at a time, and tenants take turns.

    A writer takes a connection only when it has its turn. Writers that wait for the row would otherwise hold all
    connections of the engine, and readers would wait with them.

    Args:
        engine: engine of the database.
        lock: locks the row that the writers of all processes lock.
        what: what they write; used in error messages.
    """

    def __init__(self, engine: AsyncEngine, lock: Update, what: str) -> None:
        self._engine, self._lock, self._what = engine, lock, what
        self._turns = FairSlots(1, _WAITING, what=what)

    @asynccontextmanager
    async def turn(self, tenant: str | None) -> AsyncIterator[AsyncConnection]:
        """A transaction that has the lock. Commits at the end; rolls back on an error.

        Args:
            tenant: whose turn it is; None: the operator's.

        Raises:
            Overloaded: too many writers wait, all together or of this tenant, or it was not their turn in time, or
                another process held the lock for too long.
            ServiceUnavailable: the database cannot be reached.
        """
        if self._turns.waits(tenant or "") >= _WAITING_EACH:
            raise Overloaded(f"Too many active {self._what} of this tenant.", retry_after_s=1)
        async with self._turns.slot(tenant or "", _WAIT_S), write(self._engine, self._lock) as connection:
            yield connection
