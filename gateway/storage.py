"""Runs in SQL. One row per run; the run itself is a JSON document, the columns beside it are what lists filter by."""

import secrets
import time
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.contracts.run import Run, RunPage, RunStatus, RunSummary
from services.errors import NotFound
from services.storage.engine import read, write

METADATA = sa.MetaData()
RUNS = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("status", sa.String(20), nullable=False, index=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("total_ms", sa.Float, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)


def new_run_id() -> str:
    """An id that sorts by time: milliseconds, then 80 random bits."""
    return f"run_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class RunStore:
    """Keeps runs."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, run: Run) -> None:
        """Add a run."""
        async with write(self._engine) as connection:
            await connection.execute(RUNS.insert().values(_row(run)))

    async def update(self, run: Run) -> None:
        """Store the newest state of a run."""
        async with write(self._engine) as connection:
            await connection.execute(RUNS.update().where(RUNS.c.id == run.id).values(_row(run)))

    async def claim(self, run: Run, expected: RunStatus) -> bool:
        """Store ``run`` if the stored status is still ``expected``: of two that try, one succeeds."""
        async with write(self._engine) as connection:
            statement = RUNS.update().where(RUNS.c.id == run.id, RUNS.c.status == expected.value)
            return (await connection.execute(statement.values(_row(run)))).rowcount == 1

    async def get(self, run_id: str) -> Run:
        """One run. Raises NotFound."""
        async with read(self._engine) as connection:
            document = await connection.scalar(sa.select(RUNS.c.document).where(RUNS.c.id == run_id))
        if document is None:
            raise NotFound(f"There is no run {run_id}.")
        return Run.model_validate_json(document)

    async def page(self, *, limit: int, cursor: str | None, status: RunStatus | None) -> RunPage:
        """Runs, newest first, that come after ``cursor`` (the id of the last run of the page before)."""
        columns = (RUNS.c.id, RUNS.c.status, RUNS.c.query, RUNS.c.created_at, RUNS.c.total_ms)
        statement = sa.select(*columns).order_by(RUNS.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(RUNS.c.id < cursor)
        if status is not None:
            statement = statement.where(RUNS.c.status == status.value)
        async with read(self._engine) as connection:
            rows = (await connection.execute(statement)).all()
        runs = tuple(
            RunSummary(id=r.id, status=r.status, query=r.query, created_at=_aware(r.created_at), total_ms=r.total_ms)
            for r in rows[:limit]
        )
        return RunPage(runs=runs, next=runs[-1].id if len(rows) > limit else None)


def _row(run: Run) -> dict[str, object]:
    return {
        "id": run.id,
        "status": run.status.value,
        "query": run.query.replace("\x00", "\ufffd"),  # PostgreSQL stores no NUL in text; the document escapes it
        "created_at": run.created_at,
        "total_ms": run.timings.total_ms,
        "document": run.model_dump_json(),
    }


def _aware(moment: datetime) -> datetime:
    """SQLite keeps no time zone; what was stored was UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
