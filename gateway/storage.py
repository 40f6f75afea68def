"""Runs in SQL: their content, their owners and their events.

A run is one row. It holds the run as a JSON document, the columns that lists filter by, and the data needed to continue
the run. Every write of a run's owner names its :class:`~services.ownership.ticket.Ticket`.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.listing import RunListing
from gateway.tables import (
    AUDIT,
    MEMBERS,
    METADATA,
    RUN_EVENTS,
    RUNS,
    StoredRun,
    event_rows,
    feedback_row,
    run_event,
    run_json,
    run_of,
    run_row,
    stored_run,
    taken_run,
)
from services.compute import for_tenant
from services.contracts.event import RunEvent
from services.contracts.feedback import Feedback
from services.contracts.operations import Worker
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.errors import NotFound
from services.fair_slots import FairSlots
from services.ownership.members import Membership, workers
from services.ownership.takeover import has_orphans, lock_orphans
from services.ownership.ticket import Fenced, Ticket
from services.storage.engine import Transactions, insert, read, write
from services.tracing import traceparent

__all__ = ["MEMBERS", "METADATA", "UNDER_WAY", "RequestIdentity", "RunStore", "StoredRun"]

UNDER_WAY = frozenset({RunStatus.PLANNING, RunStatus.RUNNING})
NOT_OVER = UNDER_WAY | {RunStatus.NEEDS_APPROVAL, RunStatus.IN_DOUBT}
"""States of a run that may still make calls."""
_POLLS, _POLLS_WAITING, _POLL_WAIT_S = 2, 10_000, 20.0
"""Reads at once for those that follow or wait for runs of other processes, one of a tenant. Hundreds ask for news again
and again, and would otherwise keep all connections, the event loop, and those of other tenants."""

_READS, _READS_EACH = 8, 3
"""Reads of runs at once, of all tenants and of one. A run may have megabytes; they leave connections to all others."""
_READS_WAITING, _READ_WAIT_S = 10_000, 10.0

_FORGOTTEN, _FORGETTING_S = 200, 0.3
"""Runs that one transaction forgets, and seconds after which it forgets no further one: all other writes wait for it,
and a run may have megabytes."""

_OF_A_RUN = (RUN_EVENTS.c.run_id, RUNS.c.id)
"""The columns with its id, in the order in which they are deleted."""


def new_run_id() -> str:
    """An id that sorts by time: milliseconds, then 80 random bits."""
    return f"run_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """Identifies repeated requests: the idempotency key that the app sent, and the hash of the request."""

    key: str
    fingerprint: str


class RunStore:
    """Stores runs. All methods raise ServiceUnavailable or Overloaded if the database is unavailable.

    Args:
        transactions: writes in its database, in turns of tenants.
        on_read: called with the tenant and the size of each run that is read for it, before that is parsed, and with 0
            before that is read. May raise.
        on_listed: the same for each run that is read among others.

    Attributes:
        listing: lists, searches and counts them.
    """

    def __init__(
        self,
        transactions: Transactions,
        on_read: Callable[[str, int], None] = lambda _tenant, _size: None,
        on_listed: Callable[[str, int], None] = lambda _tenant, _size: None,
    ) -> None:
        self._engine = engine = transactions.engine
        self._transactions, self._on_read, self._on_listed = transactions, on_read, on_listed
        self.listing = RunListing(engine, on_listed)
        self._add_run = insert(engine, RUNS).on_conflict_do_nothing(index_elements=["tenant", "idempotency_key"])
        self._add_events = insert(engine, RUN_EVENTS).on_conflict_do_nothing()
        self._add_owned_events = _owned_events(engine)
        self._polls = FairSlots(_POLLS, _POLLS_WAITING, 1, "reads of events")
        self._reads = FairSlots(_READS, _READS_WAITING, _READS_EACH, "reads of runs")

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
        same = (RUNS.c.tenant == row["tenant"]) & (RUNS.c.idempotency_key == row["idempotency_key"])
        while connection.execute(self._add_run, row).rowcount != 1:
            found: str | None = connection.scalar(sa.select(RUNS.c.id).where(same))
            if found is not None:  # else it was deleted in between
                return found
        if entry is not None:
            connection.execute(AUDIT.insert(), entry)
        return None

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
            connection.execute(self._add_events, events)
        if updated and entries:
            connection.execute(AUDIT.insert(), entries)
        return updated

    async def append(self, events: Sequence[tuple[Ticket, RunEvent]]) -> None:
        """Store events of runs. Those that are already stored are not changed.

        Events of a run that another process has taken over, or that was deleted, are dropped.
        """
        rows = [
            {"of": ticket.run_id, "by": ticket.owner, "at_epoch": ticket.epoch}
            | {"number": event.id, "text": event.event.model_dump_json()}
            for ticket, event in events
        ]

        def add(connection: sa.Connection) -> None:
            connection.execute(self._add_owned_events, rows)

        await self._transactions.run(add)

    async def events(self, run_id: str, after: int, upto: int | None = None, limit: int = 200) -> list[RunEvent]:
        """The stored events of a run with ``after < id <= upto``, in order."""
        c = RUN_EVENTS.c
        statement = sa.select(c.seq, c.data).where(c.run_id == run_id, c.seq > after).order_by(c.seq).limit(limit)
        if upto is not None:
            statement = statement.where(c.seq <= upto)
        async with self._polls.slot(for_tenant.get(), _POLL_WAIT_S), read(self._engine) as connection:
            rows = (await connection.execute(statement)).all()
        return [run_event(row.seq, row.data) for row in rows]

    async def newest_events(self, run_id: str, limit: int) -> tuple[list[tuple[int, str]], int]:
        """The numbers and the JSON of a run's newest events, in order, and how many events are stored."""
        c = RUN_EVENTS.c
        newest = sa.select(c.seq, c.data).where(c.run_id == run_id).order_by(c.seq.desc()).limit(limit)
        async with read(self._engine) as connection:
            total = await connection.scalar(sa.select(sa.func.count()).where(c.run_id == run_id))
            rows = (await connection.execute(newest)).all()
        return [(row.seq, row.data) for row in reversed(rows)], total or 0

    async def forget_events(self, older_than_s: float) -> int:
        """Delete the events of some runs that began more than that many seconds ago and have ended.

        Returns of how many. Call it until it returns 0: a transaction is short.
        """
        c = RUN_EVENTS.c
        under_way = sa.select(RUNS.c.id).where(RUNS.c.status.in_(UNDER_WAY))
        old = (c.run_id < _oldest_id(older_than_s)) & c.run_id.not_in(under_way)
        some = sa.select(c.run_id).distinct().where(old).order_by(c.run_id).limit(_FORGOTTEN)
        return await self._transactions.run(partial(self._delete, some, (c.run_id,)))

    async def delete(self, run_id: str, tenant: str) -> bool:
        """Delete a run that is over, its events and its idempotency key. False if it is not over or does not exist."""
        c = RUNS.c
        found = (c.id == run_id) & (c.tenant == tenant) & c.status.not_in(NOT_OVER)
        locked = sa.select(c.id).where(found).with_for_update()  # waits for another deletion: then there is none left
        return await self._transactions.run(partial(self._delete, locked, _OF_A_RUN)) == 1

    async def forget_runs(self, older_than_s: float) -> int:
        """Delete some runs that are over and began more than that many seconds ago; as ``forget_events``."""
        c = RUNS.c
        old = (c.id < _oldest_id(older_than_s)) & c.status.not_in(NOT_OVER)
        some = sa.select(c.id).where(old).order_by(c.id).limit(_FORGOTTEN).with_for_update(skip_locked=True)
        return await self._transactions.run(partial(self._delete, some, _OF_A_RUN))

    def _delete(
        self, which: sa.Select[tuple[str]], columns: Sequence[sa.Column[str]], connection: sa.Connection
    ) -> int:
        """Delete the rows that have a run's id in these columns. Returns of how many runs.

        ``which`` locks runs that are over, so that none can be resumed before the transaction ends.
        """
        until, done = time.monotonic() + _FORGETTING_S, 0
        for run_id in list(connection.scalars(which)):
            if done and time.monotonic() > until:
                break
            for column in columns:
                connection.execute(column.table.delete().where(column == run_id))
            done += 1
        return done

    async def take_over(
        self, membership: Membership, here: Collection[str], after: str = "", full: Collection[str] = ()
    ) -> StoredRun | None:
        """Take over the first run under way that no process works on, of those with a higher id than ``after``.

        One at a time, since their plans may be large. ``here`` is a live view of the runs that this one works on, and
        ``full`` the tenants that have as many of these as they may.
        """
        c = RUNS.c
        under_way = c.status.in_(UNDER_WAY) & (c.id > after) & c.tenant.not_in(sorted(full))
        if not await has_orphans(self._engine, membership, RUNS, under_way, here):
            return None
        async with write(self._engine) as connection:
            while True:
                rows = await lock_orphans(connection, membership, RUNS, under_way, here, 1)
                if not rows:
                    return None
                if (stored := taken_run(rows[0])) is not None:
                    break
                under_way &= c.id > rows[0].id
            taken = {"owner": membership.id, "epoch": stored.epoch, "takeovers": stored.takeovers}
            await connection.execute(RUNS.update().where(c.id == stored.run.id).values(taken))
        return stored

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

    async def get(self, run_id: str, tenant: str, weight: int = 1, *, further: bool = False) -> Run:
        """One run. Raises NotFound. For ``on_read`` its size counts ``weight`` times.

        A ``further`` run, that is read for the same request as one before or after what that has changed, counts for
        ``on_listed``.
        """
        row = await self._document(run_id, tenant, weight, self._on_listed if further else self._on_read)
        return run_of(row.document, row.feedback)

    async def json(self, run_id: str, tenant: str, *, counted: bool = True) -> str:
        """The JSON of one run. Raises NotFound. Unless it is ``counted``, it is not refused whatever was read."""
        row = await self._document(run_id, tenant, int(counted), self._on_read if counted else self._on_listed)
        return run_json(row.document, row.feedback, row.shape)

    async def charge(self, run_id: str, tenant: str, weight: int) -> RunStatus:
        """Report to ``on_read`` that a run was read with its events. Returns its status. Raises NotFound.

        Its size counts ``weight`` times, or that of its events does: while it is under way only they have its steps.
        """
        c = RUNS.c
        mine = (c.id == run_id) & (c.tenant == tenant)
        told = sa.select(sa.func.sum(sa.func.length(RUN_EVENTS.c.data))).where(RUN_EVENTS.c.run_id == run_id)
        sizes = sa.select(c.status, sa.func.length(c.document), sa.func.coalesce(told.scalar_subquery(), 0))
        async with self._reading(tenant) as connection:
            row = (await connection.execute(sizes.where(mine))).first()
        if row is None:
            raise NotFound(f"There is no run {run_id}.")
        self._on_read(tenant, max(weight * row[1], int(row[2])))
        return RunStatus(row.status)

    async def _document(
        self, run_id: str, tenant: str, weight: int, on_read: Callable[[str, int], None]
    ) -> sa.Row[Any, Any, Any]:
        c = RUNS.c
        mine = (c.id == run_id) & (c.tenant == tenant)
        async with self._reading(tenant, on_read) as connection:
            row = (await connection.execute(sa.select(c.document, c.feedback, c.shape).where(mine))).first()
        if row is None:
            raise NotFound(f"There is no run {run_id}.")
        on_read(tenant, weight * len(row.document))
        return row

    async def stored(self, run_id: str, tenant: str, *, compiled: bool = False, further: bool = False) -> StoredRun:
        """One run with the other columns of its row. Raises NotFound.

        ``compiled``: with its compiled plan. That may be large, and counts for ``on_read`` before it is read.
        ``further``: as for :meth:`get`.
        """
        on_read = self._on_listed if further else self._on_read
        c = RUNS.c
        mine = (c.id == run_id) & (c.tenant == tenant)
        parts = (c.document, c.compiled) if compiled else (c.document,)
        size = sum((sa.func.coalesce(sa.func.length(part), 0) for part in parts), sa.literal(0))
        columns = [column for column in c if compiled or column is not c.compiled]
        async with self._reading(tenant, on_read) as connection:
            if (found := await connection.scalar(sa.select(size).where(mine))) is not None:
                on_read(tenant, found)
            row = (await connection.execute(sa.select(*columns).where(mine))).first()
        if row is None:
            raise NotFound(f"There is no run {run_id}.")
        return stored_run(row)

    @asynccontextmanager
    async def _reading(
        self, tenant: str, on_read: Callable[[str, int], None] | None = None
    ) -> AsyncIterator[AsyncConnection]:
        """A connection for reading a run, in turn with other tenants.

        Raises:
            Overloaded: the tenant's other reads take too long.
            ServiceError: as ``on_read``.
        """
        async with self._reads.slot(tenant, _READ_WAIT_S):
            (on_read or self._on_read)(tenant, 0)
            async with read(self._engine) as connection:
                yield connection

    async def status(self, run_id: str) -> RunStatus:
        """The status of a run. Raises NotFound."""
        async with self._polls.slot(for_tenant.get(), _POLL_WAIT_S), read(self._engine) as connection:
            status = await connection.scalar(sa.select(RUNS.c.status).where(RUNS.c.id == run_id))
        if status is None:
            raise NotFound(f"There is no run {run_id}.")
        return RunStatus(status)

    async def workers(self, lease_s: float) -> tuple[Worker, ...]:
        """The gateway's processes, with the number of runs under way that each owns."""
        c = RUNS.c
        under_way = c.status.in_([status.value for status in UNDER_WAY])
        owned = sa.select(c.owner, sa.func.count()).where(under_way).group_by(c.owner)
        return await workers(self._engine, MEMBERS, lease_s, owned)


def _oldest_id(older_than_s: float) -> str:
    """What the ids of runs that began more than that many seconds ago are below."""
    return f"run_{max(0, int((time.time() - older_than_s) * 1000)):012x}"


def _owned_events(engine: AsyncEngine) -> sa.Insert:
    """The insertion of an event by the run's owner: it adds nothing unless the run's row has its ticket."""
    c, e = RUNS.c, RUN_EVENTS.c
    mine = (c.id == sa.bindparam("of")) & (c.owner == sa.bindparam("by")) & (c.epoch == sa.bindparam("at_epoch"))
    row = sa.select(c.id, sa.bindparam("number", type_=e.seq.type), sa.bindparam("text", type_=e.data.type)).where(mine)
    return insert(engine, RUN_EVENTS).from_select([e.run_id, e.seq, e.data], row).on_conflict_do_nothing()
