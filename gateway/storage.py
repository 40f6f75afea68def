"""Runs in SQL: their content, their owners and their events.

A run is one row. It holds the run as a JSON document, the columns that lists filter by, and the data needed to continue
the run. Every write of a run's owner names its epoch (:class:`Ticket`). A process that takes a run over raises the
epoch, so that late writes of the former owner are refused.
"""

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.tables import (
    AUDIT,
    MEMBERS,
    METADATA,
    RUN_EVENTS,
    RUNS,
    StoredRun,
    aware,
    event_row,
    event_rows,
    feedback_row,
    run_event,
    run_json,
    run_of,
    run_row,
    stored_run,
    taken_run,
)
from services.contracts.event import RunEvent
from services.contracts.feedback import Feedback, Judged
from services.contracts.operations import Worker
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run, RunPage, RunStatus, RunSummary
from services.contracts.solve import SolveRequest
from services.errors import NotFound, Overloaded
from services.fair_slots import FairSlots
from services.storage.engine import Transactions, insert, position, read, try_lock, write
from services.storage.members import Membership, workers
from services.tracing import traceparent

__all__ = ["MEMBERS", "METADATA", "UNDER_WAY", "Fenced", "Filter", "RequestIdentity", "RunStore", "StoredRun", "Ticket"]

UNDER_WAY = frozenset({RunStatus.PLANNING, RunStatus.RUNNING})
NOT_OVER = UNDER_WAY | {RunStatus.NEEDS_APPROVAL, RunStatus.IN_DOUBT}
"""States of a run that may still make calls."""

_REAPER = "gateway.reaper"
SEARCHED_RUNS = 10_000
"""Runs that one page of a search looks at. If there are more, the page may have fewer runs than asked for, or none."""
SEARCHED_CHARS = 300
"""Characters at the beginning of a request that are searched."""
_SEARCHES, _SEARCHES_EACH = 4, 2
"""Searches at once, of all tenants and of one. They leave most connections to everything else."""
_SEARCHES_WAITING, _SEARCHES_HELD, _SEARCH_WAIT_S = 1_000, 20, 10.0
"""How many searches may wait, how many one tenant may have, and how long one waits in seconds."""


def new_run_id() -> str:
    """An id that sorts by time: milliseconds, then 80 random bits."""
    return f"run_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class Fenced(Exception):
    """Another process owns the run now."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Which process owns a run, and in which epoch."""

    run_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """Identifies repeated requests: the idempotency key that the app sent, and the hash of the request."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs to list. Times are UTC. `text` is searched in the beginning of the query, ignoring case."""

    tenant: str
    status: Sequence[RunStatus] = ()
    after: datetime | None = None
    before: datetime | None = None
    text: str | None = None
    judged: Judged | None = None


class RunStore:
    """Stores runs. All methods raise ServiceUnavailable or Overloaded if the database is unavailable.

    Args:
        engine: the database engine.
        on_read: called with the tenant and the size of each run that is read for it, before that is parsed.
    """

    def __init__(self, engine: AsyncEngine, on_read: Callable[[str, int], None] = lambda _tenant, _size: None) -> None:
        self._engine, self._transactions, self._on_read = engine, Transactions(engine), on_read
        self._searches = FairSlots(_SEARCHES, _SEARCHES_WAITING, _SEARCHES_EACH, what="searches")
        self._add_run = insert(engine, RUNS).on_conflict_do_nothing(index_elements=["tenant", "idempotency_key"])
        self._add_events = insert(engine, RUN_EVENTS).on_conflict_do_nothing()

    def close(self) -> None:
        """Wait for pending writes."""
        self._transactions.close()

    async def insert(
        self,
        ticket: Ticket,
        run: Run,
        request: SolveRequest,
        identity: RequestIdentity | None,
        entry: Mapping[str, object] | None = None,
    ) -> str | None:
        """Add a run and an audit entry; or return the id of an earlier run with the same idempotency key."""
        row = run_row(run) | {
            "tenant": run.tenant,
            "owner": ticket.owner,
            "epoch": ticket.epoch,
            "takeovers": 0,
            "cancel_requested": False,
            "idempotency_key": identity.key if identity else None,
            "fingerprint": identity.fingerprint if identity else None,
            "request": request.model_dump_json(),
            "traceparent": traceparent(),
        }
        return await self._transactions.run(partial(self._add, row, entry))

    def _add(
        self, row: Mapping[str, object], entry: Mapping[str, object] | None, connection: sa.Connection
    ) -> str | None:
        if connection.execute(self._add_run, row).rowcount == 1:
            if entry is not None:
                connection.execute(AUDIT.insert(), entry)
            return None
        same = (RUNS.c.tenant == row["tenant"]) & (RUNS.c.idempotency_key == row["idempotency_key"])
        found: str = connection.scalars(sa.select(RUNS.c.id).where(same)).one()
        return found

    async def begin(self, ticket: Ticket, run: Run, compiled: CompiledPlan) -> None:
        """Store the run and the plan that is about to be executed. Raises Fenced."""
        await self._own(ticket, run_row(run) | {"compiled": compiled.model_dump_json()}, ())

    async def conclude(
        self, ticket: Ticket, run: Run, events: Sequence[RunEvent], entries: Sequence[Mapping[str, object]] = ()
    ) -> None:
        """Store the end of a run, its unwritten events, and audit entries. Raises Fenced."""
        row = run_row(run)
        if run.status is not RunStatus.IN_DOUBT:  # a run in doubt may go on
            row["compiled"] = None
        await self._own(ticket, row, event_rows(events, run, str(row["document"])), entries)

    async def _own(
        self,
        ticket: Ticket,
        row: Mapping[str, object],
        events: Sequence[Mapping[str, object]],
        entries: Sequence[Mapping[str, object]] = (),
    ) -> None:
        mine = (RUNS.c.id == ticket.run_id) & (RUNS.c.owner == ticket.owner) & (RUNS.c.epoch == ticket.epoch)
        if not await self._transactions.run(partial(self._update, mine, row, events, entries=entries)):
            raise Fenced(ticket.run_id)

    async def replace(
        self,
        stored: StoredRun,
        run: Run,
        *,
        ticket: Ticket | None = None,
        compiled: CompiledPlan | None = None,
        events: Sequence[RunEvent] = (),
        entry: Mapping[str, object] | None = None,
    ) -> bool:
        """Store ``run`` if it is still as in ``stored`` (compare and swap). Returns whether it was stored.

        The audit entry is stored in the same transaction.

        With a ticket, the run is set running again and belongs to the ticket's owner.
        """
        row = run_row(run)
        if ticket is not None:
            assert compiled is not None
            row |= {"owner": ticket.owner, "epoch": ticket.epoch, "takeovers": 0, "cancel_requested": False}
            row |= {"compiled": compiled.model_dump_json()}
        c = RUNS.c
        same = (c.id == run.id) & (c.epoch == stored.epoch) & (c.status == stored.run.status.value)
        rows = event_rows(events, run, str(row["document"]))
        return await self._transactions.run(partial(self._update, same, row, rows, entries=[entry] if entry else []))

    def _update(
        self,
        which: sa.ColumnElement[bool],
        row: Mapping[str, object],
        events: Sequence[Mapping[str, object]],
        connection: sa.Connection,
        *,
        entries: Sequence[Mapping[str, object]] = (),
    ) -> bool:
        updated = connection.execute(RUNS.update().where(which).values(row)).rowcount == 1
        if updated and events:
            self._append(events, connection)
        if updated and entries:
            connection.execute(AUDIT.insert(), entries)
        return updated

    async def append(self, events: Sequence[tuple[str, RunEvent]]) -> None:
        """Store events by their run's id. Events that are already stored are not changed."""
        rows = [event_row(run_id, event, event.event.model_dump_json()) for run_id, event in events]
        await self._transactions.run(partial(self._append, rows))

    def _append(self, rows: Sequence[Mapping[str, object]], connection: sa.Connection) -> None:
        connection.execute(self._add_events, rows)

    async def events(self, run_id: str, after: int, upto: int | None = None, limit: int = 200) -> list[RunEvent]:
        """The stored events of a run with ``after < id <= upto``, in order."""
        c = RUN_EVENTS.c
        statement = sa.select(c.seq, c.data).where(c.run_id == run_id, c.seq > after).order_by(c.seq).limit(limit)
        if upto is not None:
            statement = statement.where(c.seq <= upto)
        async with read(self._engine) as connection:
            rows = (await connection.execute(statement)).all()
        return [run_event(row.seq, row.data) for row in rows]

    async def forget_events(self, older_than_s: float) -> None:
        """Delete the events of runs that began more than that many seconds ago and have ended."""
        oldest = max(0, int((time.time() - older_than_s) * 1000))
        under_way = sa.select(RUNS.c.id).where(RUNS.c.status.in_(UNDER_WAY))
        old = (RUN_EVENTS.c.run_id < f"run_{oldest:012x}") & RUN_EVENTS.c.run_id.not_in(under_way)

        def forget(connection: sa.Connection) -> None:
            connection.execute(RUN_EVENTS.delete().where(old))

        await self._transactions.run(forget)

    async def delete(self, run_id: str, tenant: str) -> bool:
        """Delete a run that is over, its events and its idempotency key. False if it is not over or does not exist."""
        c = RUNS.c
        found = (c.id == run_id) & (c.tenant == tenant) & c.status.not_in(NOT_OVER)
        return await self._transactions.run(partial(self._delete, sa.select(c.id).where(found))) == 1

    async def forget_runs(self, older_than_s: float, limit: int = 200) -> int:
        """Delete at most ``limit`` runs that are over and began more than that many seconds ago. Returns how many."""
        c, oldest = RUNS.c, max(0, int((time.time() - older_than_s) * 1000))
        old = (c.id < f"run_{oldest:012x}") & c.status.not_in(NOT_OVER)
        return await self._transactions.run(
            partial(self._delete, sa.select(c.id).where(old).order_by(c.id).limit(limit))
        )

    def _delete(self, which: sa.Select[tuple[str]], connection: sa.Connection) -> int:
        """Delete runs that are over. They are locked, so that none can be resumed before the transaction ends."""
        ids = list(connection.scalars(which.with_for_update(skip_locked=True)))
        connection.execute(RUN_EVENTS.delete().where(RUN_EVENTS.c.run_id.in_(ids)))
        return connection.execute(RUNS.delete().where(RUNS.c.id.in_(ids))).rowcount

    async def take_over(self, membership: Membership, here: Collection[str], limit: int) -> list[StoredRun]:
        """Take over at most ``limit`` runs that are under way but that no process works on.

        These are the runs whose owner is dead, and this process's own runs that are not in ``here`` (a live view).
        """
        c, own = RUNS.c, RUNS.c.owner == membership.id
        orphaned = c.owner.not_in(membership.living()) | own & c.id.not_in(sorted(here))
        orphans = sa.select(RUNS).where(c.status.in_(UNDER_WAY), orphaned).order_by(c.id).limit(limit)
        async with write(self._engine) as connection:
            if not await try_lock(connection, _REAPER):
                return []
            # Skips locked rows: an owner that is alive after all and is writing keeps its run.
            rows = (await connection.execute(orphans.with_for_update(skip_locked=True))).all()
            # A run may have begun here during the query.
            found = [stored for row in rows if row.id not in here and (stored := taken_run(row)) is not None]
            for stored in found:
                taken = {"owner": membership.id, "epoch": stored.epoch, "takeovers": stored.takeovers}
                await connection.execute(RUNS.update().where(c.id == stored.run.id).values(taken))
        return found

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the run's owner to cancel it. False: it has ended already."""

        def note(connection: sa.Connection) -> bool:
            under_way = (RUNS.c.id == run_id) & RUNS.c.status.in_(UNDER_WAY)
            return connection.execute(RUNS.update().where(under_way).values(cancel_requested=True)).rowcount == 1

        return await self._transactions.run(note)

    async def judge(self, run_id: str, feedback: Feedback) -> None:
        """Store feedback on a run. It replaces earlier feedback."""

        def note(connection: sa.Connection) -> None:
            connection.execute(RUNS.update().where(RUNS.c.id == run_id).values(feedback_row(feedback)))

        await self._transactions.run(note)

    async def cancelled(self, owner: str) -> list[str]:
        """The runs of an owner that are under way and for which cancellation was requested."""
        wanted = RUNS.c.status.in_(UNDER_WAY) & (RUNS.c.owner == owner) & RUNS.c.cancel_requested
        async with read(self._engine) as connection:
            return list(await connection.scalars(sa.select(RUNS.c.id).where(wanted)))

    async def get(self, run_id: str, tenant: str, weight: int = 1) -> Run:
        """One run. Raises NotFound. For ``on_read`` its size counts ``weight`` times."""
        row = await self._document(run_id, tenant, weight)
        return run_of(row.document, row.feedback)

    async def json(self, run_id: str, tenant: str) -> str:
        """The JSON of one run. Raises NotFound."""
        row = await self._document(run_id, tenant)
        return run_json(row.document, row.feedback, row.shape)

    async def _document(self, run_id: str, tenant: str, weight: int = 1) -> sa.Row[Any, Any, Any]:
        c = RUNS.c
        mine = (c.id == run_id) & (c.tenant == tenant)
        async with read(self._engine) as connection:
            row = (await connection.execute(sa.select(c.document, c.feedback, c.shape).where(mine))).first()
        if row is None:
            raise NotFound(f"There is no run {run_id}.")
        self._on_read(tenant, weight * len(row.document))
        return row

    async def stored(self, run_id: str, tenant: str) -> StoredRun:
        """One run with the other columns of its row. Raises NotFound."""
        mine = (RUNS.c.id == run_id) & (RUNS.c.tenant == tenant)
        async with read(self._engine) as connection:
            row = (await connection.execute(sa.select(RUNS).where(mine))).first()
        if row is None:
            raise NotFound(f"There is no run {run_id}.")
        self._on_read(tenant, len(row.document))
        return stored_run(row)

    async def status(self, run_id: str) -> RunStatus:
        """The status of a run. Raises NotFound."""
        async with read(self._engine) as connection:
            status = await connection.scalar(sa.select(RUNS.c.status).where(RUNS.c.id == run_id))
        if status is None:
            raise NotFound(f"There is no run {run_id}.")
        return RunStatus(status)

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
        """The first page of these runs whose query has the text."""
        seen = among.limit(SEARCHED_RUNS).subquery()
        begun = sa.func.lower(sa.func.substr(seen.c.query, 1, SEARCHED_CHARS))
        found = sa.select(seen).where(position(self._engine, begun, sa.func.lower(text)) > 0)
        last = among.with_only_columns(RUNS.c.id).offset(SEARCHED_RUNS - 1).limit(1)
        async with self._searching(tenant) as connection:
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
        async with self._searching(tenant) as connection:
            for run_id in list(
                await connection.scalars(sa.select(among.c.id).where(named).order_by(among.c.id.desc()))
            ):
                document = await connection.scalar(sa.select(c.document).where(c.id == run_id))
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

    async def workers(self, lease_s: float) -> tuple[Worker, ...]:
        """The gateway's processes, with the number of runs under way that each owns."""
        c = RUNS.c
        under_way = c.status.in_([status.value for status in UNDER_WAY])
        owned = sa.select(c.owner, sa.func.count()).where(under_way).group_by(c.owner)
        return await workers(self._engine, MEMBERS, lease_s, owned)

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
