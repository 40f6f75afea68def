"""Lists, searches and counts stored runs."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.tables import RUNS, aware
from services.contracts.feedback import Judged
from services.contracts.run import RunPage, RunStatus, RunSummary
from services.errors import Overloaded
from services.fair_slots import FairSlots
from services.storage.engine import freeze, position, read

SEARCHED_RUNS = 10_000
"""Runs that one page of a search looks at. If there are more, the page may have fewer runs than asked for, or none."""
SEARCHED_CHARS = 300
"""Characters at the beginning of a request that are searched."""
_SEARCHES, _SEARCHES_EACH = 4, 2
"""Searches at once, of all tenants and of one. They leave most connections to everything else."""
_SEARCHES_WAITING, _SEARCHES_HELD, _SEARCH_WAIT_S = 1_000, 20, 10.0
"""How many searches may wait, how many one tenant may have, and how long one waits in seconds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs to list. Times are UTC. `text` is searched in the beginning of the query, ignoring case."""

    tenant: str
    status: Sequence[RunStatus] = ()
    after: datetime | None = None
    before: datetime | None = None
    text: str | None = None
    judged: Judged | None = None


class RunListing:
    """Lists stored runs. All methods raise ServiceUnavailable or Overloaded if the database is unavailable.

    Args:
        engine: the database engine.
        on_read: called with the tenant and the size of each run that is read for it.
    """

    def __init__(self, engine: AsyncEngine, on_read: Callable[[str, int], None]) -> None:
        self._engine, self._on_read = engine, on_read
        self._searches = FairSlots(_SEARCHES, _SEARCHES_WAITING, _SEARCHES_EACH, what="searches")

    async def page(self, which: Filter, *, limit: int, cursor: str | None) -> RunPage:
        """Runs, newest first, that come after ``cursor`` (the id of the last run of the page before).

        A search looks at ``SEARCHED_RUNS`` runs; the next page goes on after them.
        """
        c = RUNS.c
        statement = sa.select(c.id, c.status, c.query, c.created_at, c.total_ms, c.verdict, c.trouble)
        statement = statement.where(*_conditions(which)).order_by(c.id.desc())
        if cursor is not None:
            statement = statement.where(c.id < cursor)
        if which.text is not None:
            return await self._search(statement, which.text, which.tenant, limit)
        async with read(self._engine) as connection:
            rows = (await connection.execute(statement.limit(limit + 1))).all()
        return _page(rows, limit)

    async def _search(self, among: sa.Select[Any], text: str, tenant: str, limit: int) -> RunPage:
        """The first page of these runs whose query has the text.

        It is found in one state of the database: if a run were deleted in between, the next page would begin one run
        after the last one that was looked at.
        """
        seen = among.limit(SEARCHED_RUNS).subquery()
        begun = sa.func.lower(sa.func.substr(seen.c.query, 1, SEARCHED_CHARS))
        found = sa.select(seen).where(position(self._engine, begun, sa.func.lower(text)) > 0)
        last = among.with_only_columns(RUNS.c.id).offset(SEARCHED_RUNS - 1).limit(1)
        async with self._searching(tenant) as connection:
            await freeze(connection)
            rows = (await connection.execute(found.order_by(seen.c.id.desc()).limit(limit + 1))).all()
            end = None if len(rows) > limit else await connection.scalar(last)
        page = _page(rows, limit)
        return page if end is None else page.model_copy(update={"next": end})

    async def naming(self, api: str, tenant: str, newest: int, most_bytes: int) -> AsyncGenerator[str, None]:
        """The documents of those of a tenant's ``newest`` runs that name an API, newest first, each read on its own.

        It ends before they hold more than ``most_bytes``. Raises Overloaded.
        """
        c = RUNS.c
        among = sa.select(c.id, c.document).where(c.tenant == tenant).order_by(c.id.desc()).limit(newest).subquery()
        named = among.c.document.contains(f'"api":{to_json(api).decode()}', autoescape=True)
        ids = sa.select(among.c.id).where(named).order_by(among.c.id.desc())
        async with aclosing(self._documents(ids, tenant, most_bytes)) as documents:
            async for document in documents:
                yield document

    async def waiting(self, tenant: str, newest: int, most_bytes: int) -> AsyncGenerator[str, None]:
        """The documents of the ``newest`` of a tenant's runs that wait for an approval, as ``naming`` gives them."""
        c, waits = RUNS.c, Filter(tenant, (RunStatus.NEEDS_APPROVAL,))
        ids = sa.select(c.id).where(*_conditions(waits)).order_by(c.id.desc()).limit(newest)
        async with aclosing(self._documents(ids, tenant, most_bytes)) as documents:
            async for document in documents:
                yield document

    async def _documents(self, ids: sa.Select[tuple[str]], tenant: str, most_bytes: int) -> AsyncGenerator[str, None]:
        async with self._searching(tenant) as connection:
            for run_id in list(await connection.scalars(ids)):
                document = await connection.scalar(sa.select(RUNS.c.document).where(RUNS.c.id == run_id))
                if document is None:  # deleted in the meantime
                    continue
                self._on_read(tenant, len(document))
                most_bytes -= len(document)
                if most_bytes < 0:
                    return
                yield document

    @asynccontextmanager
    async def _searching(self, tenant: str) -> AsyncIterator[AsyncConnection]:
        """A connection for a search, in turn with other tenants. Raises Overloaded."""
        if self._searches.held(tenant) >= _SEARCHES_HELD:
            raise Overloaded("Too many active searches.", retry_after_s=1)
        async with self._searches.slot(tenant, _SEARCH_WAIT_S), read(self._engine) as connection:
            yield connection

    async def counts(self, which: Filter, ends: Sequence[datetime]) -> list[dict[RunStatus, int]]:
        """The number of these runs by status, for each interval. ``ends`` are the ends of the intervals, in order.

        Statuses without runs are left out. Runs after the last end count to the last interval.
        """
        c, last = RUNS.c, len(ends) - 1
        interval = sa.case(*((c.created_at < end, at) for at, end in enumerate(ends)), else_=last).label("interval")
        each = sa.select(interval, c.status).where(*_conditions(which)).subquery()
        statement = sa.select(each.c.interval, each.c.status, sa.func.count()).group_by(each.c.interval, each.c.status)
        found: list[dict[RunStatus, int]] = [{} for _ in ends]
        async with read(self._engine) as connection:
            for at, status, count in await connection.execute(statement):
                found[at][RunStatus(status)] = count
        return found


def _conditions(which: Filter) -> list[sa.ColumnElement[bool]]:
    found = [RUNS.c.tenant == which.tenant]
    if which.status:
        found.append(RUNS.c.status.in_(which.status))
    if which.after is not None:
        found.append(RUNS.c.created_at > which.after)
    if which.before is not None:
        found.append(RUNS.c.created_at < which.before)
    if which.judged is not None:
        verdict = None if which.judged is Judged.NONE else which.judged.value
        found.append(RUNS.c.verdict == verdict)
    return found


def _page(rows: Sequence[Any], limit: int) -> RunPage:
    """The page of the first ``limit`` rows."""
    runs = tuple(
        RunSummary(
            id=r.id,
            status=r.status,
            query=r.query,
            created_at=aware(r.created_at),
            total_ms=r.total_ms,
            verdict=r.verdict,
            trouble=r.trouble or "",
        )
        for r in rows[:limit]
    )
    return RunPage(runs=runs, next=runs[-1].id if len(rows) > limit else None)
