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
from services.fair_slots import FairSlots
from services.storage.engine import freeze, position, read

SEARCHED_RUNS = 10_000
"""Runs that one page of a search looks at. If there are more, the page may have fewer runs than asked for, or none."""
_APART_MS = 60_000
"""How far the time in a run's id and its ``created_at`` may be apart: the clock is read for each."""
SEARCHED_CHARS = 300
"""Characters at the beginning of a request that are listed and searched: a page of whole ones could have megabytes."""
_SEARCHES, _SEARCHES_EACH = 4, 2
"""Searches and counts at once, of all tenants and of one. They leave most connections to everything else."""
_SEARCHES_WAITING, _SEARCH_WAIT_S = 1_000, 10.0
"""How many searches may wait, and how long one waits in seconds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs to list. Times are UTC. `text` is searched in the beginning of the query, ignoring case."""

    tenant: str
    status: Sequence[RunStatus] = ()
    after: datetime | None = None
    before: datetime | None = None
    text: str | None = None
    judged: Judged | None = None


_BEGUN = sa.func.substr(RUNS.c.query, 1, SEARCHED_CHARS).label("query")
_LINE = (_BEGUN, *(RUNS.c[name] for name in ("id", "status", "created_at", "total_ms", "verdict", "trouble")))


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

        A search by text or feedback looks at ``SEARCHED_RUNS`` runs; the next page goes on after them.
        """
        if which.text is not None or which.judged is not None:
            return await self._search(which, limit, cursor)
        async with read(self._engine) as connection:
            rows = (await connection.execute(_newest(which, limit + 1, cursor))).all()
        return _page(rows, limit)

    async def _search(self, which: Filter, limit: int, cursor: str | None) -> RunPage:
        """The first page of the runs with the text and the feedback.

        It is found in one state of the database: if a run were deleted in between, the next page would begin one run
        after the last one that was looked at.
        """
        among = sa.select(*_LINE).where(*_between(which, cursor)).order_by(RUNS.c.id.desc())
        if which.judged not in (None, Judged.NONE):
            among = among.where(RUNS.c.verdict == which.judged.value)
        seen = among.limit(SEARCHED_RUNS).subquery()
        found = sa.select(seen).where(*_moments(which, seen.c.created_at))
        if which.status:
            found = found.where(seen.c.status.in_(which.status))
        if which.judged is Judged.NONE:
            found = found.where(seen.c.verdict.is_(None))
        if which.text is not None:
            found = found.where(position(self._engine, sa.func.lower(seen.c.query), sa.func.lower(which.text)) > 0)
        last = among.with_only_columns(RUNS.c.id).offset(SEARCHED_RUNS - 1).limit(1)
        async with self._searching(which.tenant) as connection:
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
        waits = (RUNS.c.tenant == tenant, RUNS.c.status == RunStatus.NEEDS_APPROVAL)
        ids = sa.select(RUNS.c.id).where(*waits).order_by(RUNS.c.id.desc()).limit(newest)
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
        async with self._searches.slot(tenant, _SEARCH_WAIT_S), read(self._engine) as connection:
            yield connection

    async def counts(self, tenant: str, since: datetime, ends: Sequence[datetime]) -> list[dict[RunStatus, int]]:
        """The number of a tenant's runs by status, for each interval. ``ends`` are the ends of the intervals, in order.

        Statuses without runs are left out. Runs after the last end count to the last interval.
        """
        c, last, which = RUNS.c, len(ends) - 1, Filter(tenant, after=since)
        interval = sa.case(*((c.created_at < end, at) for at, end in enumerate(ends)), else_=last).label("interval")
        each = sa.select(interval, c.status).where(*_between(which), *_moments(which, c.created_at)).subquery()
        statement = sa.select(each.c.interval, each.c.status, sa.func.count()).group_by(each.c.interval, each.c.status)
        found: list[dict[RunStatus, int]] = [{} for _ in ends]
        async with self._searching(tenant) as connection:
            for at, status, count in await connection.execute(statement):
                found[at][RunStatus(status)] = count
        return found


def _newest(which: Filter, most: int, cursor: str | None) -> sa.Select[Any]:
    """The newest runs of a filter by status and time. Few other rows are read, however many runs there are."""
    c = RUNS.c
    newest = [*_between(which, cursor), *_moments(which, c.created_at)]
    found = sa.select(*_LINE).where(*newest).order_by(c.id.desc()).limit(most)
    if not which.status:
        return found
    each = (
        sa.select(c.id).where(*newest, c.status == status).order_by(c.id.desc()).limit(most).subquery()
        for status in dict.fromkeys(which.status)
    )
    ids = sa.union_all(*(sa.select(one.c.id) for one in each))
    return sa.select(*_LINE).where(c.id.in_(ids)).order_by(c.id.desc()).limit(most)


def _between(which: Filter, cursor: str | None = None) -> list[sa.ColumnElement[bool]]:
    """The filter's tenant, and its moments as bounds of the ids, which begin with the time."""
    found = [RUNS.c.tenant == which.tenant]
    if which.after is not None:
        found.append(RUNS.c.id > _id_at(which.after, -_APART_MS))
    if which.before is not None:
        found.append(RUNS.c.id < _id_at(which.before, _APART_MS))
    if cursor is not None:
        found.append(RUNS.c.id < cursor)
    return found


def _id_at(moment: datetime, add_ms: int) -> str:
    """The beginning of the ids of runs that began so many milliseconds after that moment."""
    return f"run_{max(0, int(moment.timestamp() * 1000) + add_ms):012x}"


def _moments(which: Filter, created_at: sa.ColumnElement[Any]) -> list[sa.ColumnElement[bool]]:
    found = list[sa.ColumnElement[bool]]()
    if which.after is not None:
        found.append(created_at > which.after)
    if which.before is not None:
        found.append(created_at < which.before)
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
