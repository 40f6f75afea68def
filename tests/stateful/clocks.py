"""Steps the clock of a database, as an operator or a time server does to the machine that it runs on."""

import time
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from services.storage.engine import write

_DAY_S: Final = 86_400.0
_OFFSET: Final = sa.table("clock", sa.column("seconds", sa.Float), schema="stepped")
_FOR_POSTGRESQL: Final = (
    "CREATE SCHEMA stepped",
    "CREATE TABLE stepped.clock (seconds float8 NOT NULL)",
    "INSERT INTO stepped.clock VALUES (0)",
    "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
    "'SELECT pg_catalog.clock_timestamp() + make_interval(secs => seconds) FROM stepped.clock'",
)


class SteppedClock:
    """The clock of databases, off by a number of seconds. Make it with :meth:`over`.

    Args:
        file: holds that number, for SQLite. On PostgreSQL it is in a table, since its server may read no files of ours.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._offset_s = file, 0.0

    @classmethod
    async def over(cls, engine: AsyncEngine, file: Path) -> "SteppedClock":
        """A clock for a database, and for any SQLite files."""
        if engine.dialect.name == "postgresql":
            async with write(engine) as connection:
                for statement in _FOR_POSTGRESQL:
                    await connection.execute(sa.text(statement))
        clock = cls(file)
        await clock.step(0.0, engine)
        return clock

    async def step(self, seconds: float, engine: AsyncEngine) -> None:
        """Move the clock forward, or back."""
        self._offset_s += seconds
        new = self._file.with_suffix(".new")
        new.write_text(str(self._offset_s), encoding="utf-8")
        new.replace(self._file)
        if engine.dialect.name == "postgresql":
            async with write(engine) as connection:
                await connection.execute(sa.update(_OFFSET).values(seconds=self._offset_s))

    def use(self) -> None:
        """Make all connections that this process opens from now on read this clock."""
        event.listen(Engine, "connect", self._replace_clock)

    def _replace_clock(self, connection: Any, _record: object) -> None:
        if hasattr(connection, "create_function"):  # SQLite's
            connection.create_function("julianday", 1, self._julian_day)
        else:
            cursor = connection.cursor()
            cursor.execute("SET search_path TO stepped, pg_catalog, public")
            cursor.close()

    def _julian_day(self, _now: str) -> float:
        return 2_440_587.5 + (time.time() + float(self._file.read_text(encoding="utf-8"))) / _DAY_S
