"""The ledger in SQL: executions, their calls, large values. The rules are in ``ledger`` and ``durable``.

Every write for an execution names its :class:`~services.ownership.ticket.Ticket`.
"""

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from executor_svc.admission import Sealer
from executor_svc.call_rows import CallRows
from executor_svc.models import (
    Admission,
    CallResult,
    CallState,
    Conclusion,
    Execution,
    ExecutionStates,
    LargeValue,
    Operation,
    Outcome,
    RecordedCall,
    SendIntent,
    value_id_of,
)
from executor_svc.tables import CALLS, EXECUTIONS, MEMBERS, VALUES
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.operations import Worker
from services.errors import Conflict
from services.ownership.members import Membership, workers
from services.ownership.takeover import has_orphans, lock_orphans
from services.ownership.ticket import Ticket
from services.signing import SIGNATURE_HOLDS_S
from services.storage.engine import Transactions, clock, insert, read, write
from services.telemetry import get_logger

_log = get_logger(__name__)

_STATES = (
    sa.select(
        EXECUTIONS.c.id, EXECUTIONS.c.owner, EXECUTIONS.c.epoch, EXECUTIONS.c.status, EXECUTIONS.c.cancel_requested
    )
    .where(EXECUTIONS.c.id.in_(sa.bindparam("runs", expanding=True)))
    .order_by(EXECUTIONS.c.id)
    .with_for_update(read=True)
)
_NOT_OVER = ("running", "in_doubt")
_FORGETTING_S = 0.3
"""Seconds after which a transaction forgets no further execution or value: all other writes wait for it."""
_STORED = '"stored":{"id":"'
"""In the recorded result of a call, before the id of its large value."""
_REFERENCE = re.compile(re.escape(_STORED) + "([0-9a-f]{64})")
_REPEATABLE_S = 2 * SIGNATURE_HOLDS_S
"""How long a request may be repeated after it began. Twice as long as its signature holds: clocks may differ."""


class LedgerStore:
    """The ledger's tables.

    Args:
        engine: the database.
        sealer: seals new rows, and checks the seals of stored ones.
    """

    def __init__(self, engine: AsyncEngine, sealer: Sealer) -> None:
        self._engine, self._transactions, self._sealer = engine, Transactions(engine), sealer
        self._calls, self._now = CallRows(sealer), clock(engine)
        self._admit = insert(engine, EXECUTIONS).on_conflict_do_nothing()
        keeping = insert(engine, VALUES).values(created_at=self._now)
        # An equal value of an older run belongs to this run, too: it must not be deleted with that one's.
        self._keep = keeping.on_conflict_do_update(
            index_elements=["id"], set_={"created_at": keeping.excluded.created_at}
        )
        sending = insert(engine, CALLS).values(sent_at=self._now)
        # An existing row belongs to a call that is resent after a takeover.
        self._send = sending.on_conflict_do_update(
            index_elements=["run_id", "key"],
            set_={"epoch": sending.excluded.epoch},
            where=CALLS.c.state == CallState.SENT.value,
        )
        # The first outcome wins. One that arrives after the call was marked in doubt or settled is ignored, and so is a
        # former owner's after the call was sent again.
        self._finish_sent = (
            CALLS.update()
            .where(CALLS.c.run_id == sa.bindparam("run"), CALLS.c.key == sa.bindparam("call"))
            .where(CALLS.c.state == CallState.SENT.value, CALLS.c.epoch <= sa.bindparam("of_epoch"))
            .values({n: sa.bindparam(f"new_{n}") for n in ("state", "result", "seal")})
        )
        self._finish_read = sending.on_conflict_do_nothing()
        self._conclude = (
            EXECUTIONS.update()
            .where(EXECUTIONS.c.id == sa.bindparam("run"))
            .values(status=sa.bindparam("new_status"), result=sa.bindparam("new_result"), ended_at=self._now)
        )

    async def write(self, operations: Sequence[Operation]) -> ExecutionStates:
        """Write a batch in one transaction. Skips operations of executions that do not run or have another owner.

        Cancelled executions start no calls: once :meth:`request_cancel` has returned, no owner sends a call that was
        not recorded before, even if the owner has not noticed the cancellation yet.

        Idempotent: the batch can be written again if it is unknown whether a commit succeeded.
        """
        batch = _Batch.of(operations)
        return await self._transactions.run(partial(self._write, batch), "the ledger")  # not after those of requests

    def _write(self, batch: "_Batch", connection: sa.Connection) -> ExecutionStates:
        if batch.admissions:
            connection.execute(self._admit, [self._execution_row(o) for o in batch.admissions])
        states = _states(connection, batch.runs)
        running, owned = states.running, states.running | states.ended
        for statement, rows in (
            (
                self._send,
                [self._calls.intent(o) for o in batch.intents if o.ticket in running and states.lets_begin(o)],
            ),
            # The outcome of a call that was sent is valid whoever owns the run now.
            (self._finish_sent, [self._calls.outcome(o) for o in batch.outcomes if o.sent]),
            (self._finish_read, [self._calls.read(o) for o in batch.outcomes if not o.sent and o.ticket in running]),
            (self._keep, [{"id": key, "content": batch.values[key]} for key in sorted(batch.values)]),
            (self._conclude, [_result_row(o) for o in batch.conclusions if o.ticket in owned]),
        ):
            if rows:
                connection.execute(statement, rows)
        return states

    def close(self) -> None:
        """Wait for writes in progress."""
        self._transactions.close()

    async def execution(self, run_id: str) -> Execution | None:
        """The stored execution; None also for an id that was forbidden before it started.

        Raises:
            Conflict: it cannot be read.
        """
        async with read(self._engine) as connection:
            row = (await connection.execute(sa.select(EXECUTIONS).where(EXECUTIONS.c.id == run_id))).first()
        if row is None or not row.request:
            return None
        try:
            return self._execution(row)
        except ValueError:
            raise Conflict(f"The stored run {run_id} cannot be read.", run_id=run_id) from None

    async def status(self, run_id: str) -> str | None:
        """The status of the stored execution: its request is not read. None as for :meth:`execution`."""
        c = EXECUTIONS.c
        async with read(self._engine) as connection:
            found: str | None = await connection.scalar(sa.select(c.status).where(c.id == run_id, c.request != ""))
        return found

    async def ending(self, run_id: str) -> tuple[str, ExecutionFinished | None] | None:
        """The plan of the stored execution, and how it ended: its request is not read. None as for :meth:`execution`.

        Raises:
            Conflict: it cannot be read.
        """
        c = EXECUTIONS.c
        async with read(self._engine) as connection:
            asked = sa.select(c.plan_id, c.result).where(c.id == run_id, c.request != "")
            row = (await connection.execute(asked)).first()
        try:
            if row is None or row.result is None:
                return None if row is None else (row.plan_id, None)
            return row.plan_id, ExecutionFinished.model_validate_json(row.result)
        except ValueError:
            raise Conflict(f"The stored run {run_id} cannot be read.", run_id=run_id) from None

    async def forbid(self, run_id: str) -> bool:
        """Prevent any execution of that id from starting. Returns False if one has started already."""
        row = {"id": run_id, "plan_id": "", "status": "cancelled", "owner": "", "epoch": 0, "takeovers": 0}
        row |= {"created_at": time.time(), "request": "", "cancel_requested": True}

        def add(connection: sa.Connection) -> bool:
            connection.execute(self._admit, [row])
            return not connection.scalar(sa.select(EXECUTIONS.c.request).where(EXECUTIONS.c.id == run_id))

        return await self._transactions.run(add)

    async def calls(self, run_id: str) -> dict[str, RecordedCall]:
        """The recorded calls of a run, by key."""
        async with read(self._engine) as connection:
            rows = (await connection.execute(sa.select(CALLS).where(CALLS.c.run_id == run_id))).all()
        return {row.key: self._calls.recorded(row) for row in rows}

    async def value(self, value_id: str) -> str | None:
        """The JSON of a large value; None also if somebody has changed it, so that its id is not its hash any more."""
        async with read(self._engine) as connection:
            found: str | None = await connection.scalar(sa.select(VALUES.c.content).where(VALUES.c.id == value_id))
        return found if found is not None and await asyncio.to_thread(value_id_of, found) == value_id else None

    async def workers(self, lease_s: float) -> tuple[Worker, ...]:
        """The executor's processes, with the number of active durable runs that each owns."""
        c = EXECUTIONS.c
        owned = sa.select(c.owner, sa.func.count()).where(c.status == "running").group_by(c.owner)
        return await workers(self._engine, MEMBERS, lease_s, owned)

    async def take_over(
        self, membership: Membership, running: Collection[str], after: str = ""
    ) -> tuple[Execution, Ticket] | None:
        """Take ownership of the first execution that no process works on, of those with a higher id than ``after``.

        One at a time, since their requests may be large. ``running`` is a live view of those that this process works
        on. One that cannot be read ends as failed: it must not keep the others from being taken over.
        """
        under_way = (EXECUTIONS.c.status == "running") & (EXECUTIONS.c.id > after)
        if await has_orphans(self._engine, membership, EXECUTIONS, under_way, running):
            async with write(self._engine) as connection:
                while found := await lock_orphans(connection, membership, EXECUTIONS, under_way, running, 1):
                    try:
                        execution = self._execution(found[0])
                    except ValueError as error:
                        await _end_unreadable(connection, found[0].id, error, self._now)
                        continue
                    execution = replace(execution, takeovers=execution.takeovers + 1)
                    return execution, await _take(connection, execution, membership.id)
        return None

    async def reopen(self, execution: Execution, owner: str) -> Ticket | None:
        """Set an execution that ended in doubt running again. None if it has changed in the meantime."""
        async with write(self._engine) as connection:
            if not await _still_in_doubt(connection, execution):
                return None
            return await _take(connection, replace(execution, takeovers=0), owner)

    async def settle(self, execution: Execution, key: str, result: CallResult | None) -> bool:
        """Record the outcome of a call in doubt. None means that it is to be resent. False if it is not in doubt.

        The outcome applies only to this epoch of the execution: it must not be applied to a call that was sent later.
        """
        this = (CALLS.c.run_id == execution.run_id) & (CALLS.c.key == key)
        async with write(self._engine) as connection:
            if not await _still_in_doubt(connection, execution):
                return False
            row = (await connection.execute(sa.select(CALLS).where(this).with_for_update())).first()
            if row is None or self._calls.recorded(row).state is CallState.DONE:
                return False
            if result is None:
                await connection.execute(CALLS.delete().where(this))
            else:
                done = self._calls.finished(execution.run_id, key, CallState.DONE, result)
                await connection.execute(CALLS.update().where(this).values(done))
            return True

    async def request_cancel(self, run_id: str) -> None:
        """Prevent further calls of an execution from being recorded, and so from being sent, by any owner."""
        asked = EXECUTIONS.update().where(EXECUTIONS.c.id == run_id).values(cancel_requested=True)
        await self._transactions.run(lambda connection: connection.execute(asked))

    async def to_stop(self, owner: str, running: Collection[str]) -> list[str]:
        """Which of the executions that an owner is running are cancelled or belong to another owner now."""
        if not running:
            return []
        c = EXECUTIONS.c
        stopped = c.id.in_(sorted(running)) & ((c.owner != owner) | c.cancel_requested)
        async with read(self._engine) as connection:
            return list(await connection.scalars(sa.select(c.id).where(stopped)))

    async def empty(self, run_id: str) -> bool:
        """Delete the data of an execution but keep its id, so that a late request cannot start it again.

        Returns False if it is not over.
        """
        c = EXECUTIONS.c

        def delete(connection: sa.Connection) -> bool:
            if connection.scalar(sa.select(c.status).where(c.id == run_id).with_for_update()) in _NOT_OVER:
                return False
            connection.execute(CALLS.delete().where(CALLS.c.run_id == run_id))
            connection.execute(EXECUTIONS.update().where(c.id == run_id).values(request="", result=None))
            return True

        return await self._transactions.run(delete)

    async def forget(self, older_than_s: float, limit: int = 500) -> int:
        """Delete executions that ended long ago with their calls, and old large values.

        Values that calls of executions refer to which are not over count as stored now. A request could begin an
        execution again whose id is gone. So it is kept for as long as its plan's signature may hold, by this process's
        clock: the database's may have been set forward.

        Treats at most ``limit`` of each, and ends early: a value may have megabytes. Returns their total number.
        """
        c, before = EXECUTIONS.c, self._now - older_than_s
        ended = c.status.not_in(_NOT_OVER) & (sa.func.coalesce(c.ended_at, c.created_at) < before)
        ended &= c.created_at < time.time() - _REPEATABLE_S
        unused = VALUES.c.created_at < before
        async with read(self._engine) as connection:
            values = set(await connection.scalars(sa.select(VALUES.c.id).where(unused).limit(limit)))
            needed = await _needed(connection, values) if values else values
        async with write(self._engine) as connection:
            old = list(await connection.scalars(sa.select(c.id).where(ended).limit(limit)))
            for value_id in sorted(needed):
                await connection.execute(VALUES.update().where(VALUES.c.id == value_id).values(created_at=self._now))
            parts = [
                [CALLS.delete().where(CALLS.c.run_id == run), EXECUTIONS.delete().where(c.id == run)] for run in old
            ]
            # Asks for the age again: a value may have been stored once more in the meantime.
            parts += [[VALUES.delete().where(VALUES.c.id == one, unused)] for one in sorted(values - needed)]
            until, done = time.monotonic() + _FORGETTING_S, len(needed)
            for part in parts:
                for statement in part:
                    await connection.execute(statement)
                done += 1
                if time.monotonic() > until:
                    break
        return done

    def _execution(self, row: sa.Row[tuple[object, ...]]) -> Execution:
        """The execution of a row. Raises ValueError if it cannot be read."""
        request = ExecuteRequest.model_validate_json(row.request)
        if request.run_id != row.id:
            raise ValueError("its request is of another run")
        return Execution(
            run_id=row.id,
            plan_id=row.plan_id,
            status=row.status,
            owner=row.owner,
            epoch=row.epoch,
            takeovers=row.takeovers,
            cancel_requested=row.cancel_requested,
            request=request,
            admitted=self._sealer.holds(row.request, row.seal),
            result=None if row.result is None else ExecutionFinished.model_validate_json(row.result),
            traceparent=row.traceparent,
        )

    def _execution_row(self, admission: Admission) -> dict[str, object]:
        request = admission.request.model_dump_json()
        return {
            "id": admission.request.run_id,
            "plan_id": admission.request.compiled.plan.id,
            "status": "running",
            "owner": admission.ticket.owner,
            "epoch": admission.ticket.epoch,
            "takeovers": 0,
            "cancel_requested": False,
            "created_at": time.time(),
            "request": request,
            "traceparent": admission.traceparent,
            "seal": self._sealer.seal(request),
        }


@dataclass(slots=True)
class _Batch:
    """Operations by kind, in their original order."""

    admissions: list[Admission] = field(default_factory=list)
    intents: list[SendIntent] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """The content of each value, by id. Written in the order of ids, so that two processes do not lock each other."""
    conclusions: list[Conclusion] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> Self:
        """Sort operations by kind."""
        batch = cls()
        places: dict[type[Operation], list[Any]] = {
            Admission: batch.admissions,
            SendIntent: batch.intents,
            Outcome: batch.outcomes,
            Conclusion: batch.conclusions,
        }
        for operation in operations:
            if isinstance(operation, LargeValue):
                batch.values[operation.id] = operation.content
                continue
            places[type(operation)].append(operation)
            batch.runs.add(operation.ticket.run_id)
        return batch


def _states(connection: sa.Connection, runs: Iterable[str]) -> ExecutionStates:
    """The state of these executions. Locks them, so that none is taken over before the transaction ends."""
    rows = connection.execute(_STATES, {"runs": sorted(runs)}).all()
    tickets = {Ticket(row.id, row.owner, row.epoch): row for row in rows}
    return ExecutionStates(
        running=frozenset(ticket for ticket, row in tickets.items() if row.status == "running"),
        ended=frozenset(ticket for ticket, row in tickets.items() if row.status != "running"),
        cancelled=frozenset(row.id for row in rows if row.cancel_requested),
    )


async def _still_in_doubt(connection: AsyncConnection, execution: Execution) -> bool:
    """Whether an execution is unchanged since it ended in doubt. Locks it until the transaction ends."""
    c = EXECUTIONS.c
    same = (c.id == execution.run_id) & (c.status == "in_doubt") & (c.epoch == execution.epoch)
    return await connection.scalar(sa.select(c.id).where(same).with_for_update()) is not None


async def _needed(connection: AsyncConnection, values: Collection[str]) -> set[str]:
    """Those of the large values that calls of executions refer to which are not over.

    Answers of upstreams may hold what looks like a reference: other ids than those of ``values`` are not collected.
    """
    not_over = sa.select(EXECUTIONS.c.id).where(EXECUTIONS.c.status.in_(_NOT_OVER))
    results = sa.select(CALLS.c.result).where(CALLS.c.run_id.in_(not_over), CALLS.c.result.contains(_STORED))
    found = set[str]()
    async for result in await connection.stream_scalars(results):
        found.update(one[1] for one in _REFERENCE.finditer(result) if one[1] in values)
    return found


async def _take(connection: AsyncConnection, execution: Execution, owner: str) -> Ticket:
    ticket = Ticket(execution.run_id, owner, execution.epoch + 1)
    taken = {
        "owner": owner,
        "epoch": ticket.epoch,
        "takeovers": execution.takeovers,
        "status": "running",
        "result": None,
        "ended_at": None,
    }
    await connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.id == ticket.run_id).values(taken))
    return ticket


async def _end_unreadable(
    connection: AsyncConnection, run_id: str, error: ValueError, now: sa.ColumnElement[float]
) -> None:
    # Of an error of the contract only its kinds: its text quotes the stored values.
    why = ", ".join(sorted({one["type"] for one in error.errors()})) if isinstance(error, ValidationError) else error
    _log.warning("a stored run cannot be read and is not continued", run=run_id, why=str(why))
    sent = await connection.scalar(sa.select(sa.func.count()).where(CALLS.c.run_id == run_id))
    problem = "the stored run cannot be read" + (f"; {sent} of its calls had been sent" if sent else "")
    ended = ExecutionFinished(status="failed", records=(), problem=problem, duration_ms=0)
    values = {"status": ended.status, "result": ended.model_dump_json(), "ended_at": now}
    await connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.id == run_id).values(values))


def _result_row(conclusion: Conclusion) -> dict[str, object]:
    finished = conclusion.finished
    return {"run": conclusion.ticket.run_id, "new_status": finished.status, "new_result": finished.model_dump_json()}
