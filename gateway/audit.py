"""The audit log in SQL: who did what, when. It is append-only: nothing here changes or deletes an entry.

A change in this database is written in one transaction with its entry. A change that another service makes has two
entries: one before the service is called, so that nothing is done unrecorded, and one with the outcome.
"""

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from gateway.principals import Principal
from gateway.settings import GatewaySettings
from gateway.tables import AUDIT, aware
from services.compute import for_tenant
from services.contracts.access import Action, AuditEntry, AuditPage, Outcome
from services.contracts.plan import content_hash
from services.errors import ServiceError
from services.fair_slots import FairSlots
from services.storage.engine import Transactions, insert, read, write
from services.telemetry import get_logger, request_id

MAX_TARGET_CHARS: Final = 400
"""Length of the column. PostgreSQL refuses longer text."""
_CHANGES, _CHANGE_WAIT_S = 16, 20.0
"""Changes by other services that one tenant has made at once: the outcome of one that is begun is stored soon."""
_SEARCHES, _SEARCH_WAIT_S = 2, 20.0
"""Pages that are read at once, one of a tenant: one may look at all of its entries, and holds a connection."""
_log = get_logger(__name__)


def fitted(target: str) -> str:
    """A target as it is stored. A longer one is cut and ends in its SHA-256, so that it still names one object."""
    target = target.replace("\x00", "\ufffd")  # PostgreSQL stores no NUL in text
    if len(target) <= MAX_TARGET_CHARS:
        return target
    mark = f"…{hashlib.sha256(target.encode()).hexdigest()}"
    return target[: MAX_TARGET_CHARS - len(mark)] + mark


def entry(
    principal: Principal, action: Action, target: str = "", digest: str = "", outcome: Outcome = "done"
) -> dict[str, object]:
    """A row of the audit log. Its id sorts by time."""
    return {
        "id": f"aud_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}",
        "at": datetime.now(UTC),
        "action": action.value,
        "outcome": outcome,
        "principal": principal.name,
        "key": principal.key,
        "tenant": principal.tenant,
        "target": fitted(target),
        "digest": digest,
        "request_id": request_id.get(),
        "begun_by": "",
        "detail": None,
    }


@dataclass(slots=True)
class PendingEntry:
    """The second entry of a change that another service makes. The code inside :meth:`AuditLog.around` updates it."""

    target: str
    digest: str
    outcome: Outcome = "done"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries to list. None: any. Times are UTC."""

    tenant: str | None
    actions: Sequence[Action] = ()
    principal: str | None = None
    target: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class AuditLog:
    """Adds and lists entries. All methods raise ServiceUnavailable or Overloaded where the database is away.

    Args:
        transactions: writes in its database, in turns of tenants.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._engine, self._transactions = transactions.engine, transactions
        self._changes = FairSlots(each=_CHANGES, what="changes")
        self._searches = FairSlots(_SEARCHES, each=1, what="searches of the audit log")

    async def add(self, row: Mapping[str, object]) -> None:
        """Add an entry."""
        await self._transactions.run(lambda connection: connection.execute(AUDIT.insert(), row))

    async def add_once(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Add the entries whose ids are not in the log yet."""
        if rows:
            adding = insert(self._engine, AUDIT).on_conflict_do_nothing()
            await self._transactions.run(lambda connection: connection.execute(adding, rows))

    @asynccontextmanager
    async def around(
        self, principal: Principal, action: Action, target: str = "", digest: str = ""
    ) -> AsyncGenerator[PendingEntry, None]:
        """Log a change that another service makes inside the context: one entry before it, and one with its outcome.

        If the caller is cancelled, only the first entry is written, because the outcome is not known here. Raises
        Overloaded if the tenant's other changes take too long.
        """
        async with self._changes.slot(principal.tenant, _CHANGE_WAIT_S):
            first = entry(principal, action, target, digest, "begun")
            await self.add(first)
            pending = PendingEntry(target, digest)
            try:
                yield pending
            except ServiceError as error:
                pending.outcome = "refused" if error.status < 500 else "unknown"
                await self._end(first, pending)
                raise
            await self._end(first, pending)

    async def _end(self, first: Mapping[str, object], pending: PendingEntry) -> None:
        fresh = entry(Principal(), Action(str(first["action"])), pending.target, pending.digest, pending.outcome)
        same = {name: first[name] for name in ("principal", "key", "tenant", "request_id")}
        try:
            await self.add(fresh | same | {"begun_by": first["id"]})
        except ServiceError as error:  # the change is made all the same, and the first entry records it
            _log.error("outcome not in the audit log", entry=first["id"], outcome=pending.outcome, why=error.detail)

    async def note_configuration(self, settings: GatewaySettings) -> None:
        """Log which policy and which principals are in force, if they differ from what was logged last."""
        rules = settings.model_dump(mode="json", include={"policy_rules", "policy_allow", "policy_deny", "four_eyes"})
        people: list[Any] = [[p.name, p.tenant, sorted(p.roles)] for p in settings.principals]
        people += [settings.operator_tenant, settings.token is not None]
        people += [issuer.model_dump(mode="json") for issuer in settings.issuers]
        now = {Action.POLICY: content_hash(rules), Action.PRINCIPALS: content_hash(people)}
        operator = Principal("settings", settings.operator_tenant)
        async with write(self._engine) as connection:
            for action, digest in now.items():
                last = sa.select(AUDIT.c.digest).where(AUDIT.c.action == action.value).order_by(AUDIT.c.id.desc())
                if await connection.scalar(last.limit(1)) != digest:
                    await connection.execute(AUDIT.insert(), entry(operator, action, digest=digest))

    async def page(self, which: AuditFilter, *, limit: int, cursor: str | None) -> AuditPage:
        """Entries, newest first, that come after the one with the id ``cursor``.

        Raises Overloaded if the tenant's other searches take too long.
        """
        statement = sa.select(AUDIT).where(*_conditions(which)).order_by(AUDIT.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(AUDIT.c.id < cursor)
        async with self._searches.slot(for_tenant.get(), _SEARCH_WAIT_S), read(self._engine) as connection:
            rows = (await connection.execute(statement)).mappings().all()
        entries = tuple(_audit_entry(row) for row in rows[:limit])
        return AuditPage(entries=entries, next=entries[-1].id if len(rows) > limit else None)


def _audit_entry(row: sa.RowMapping) -> AuditEntry:
    return AuditEntry.model_validate({**row, "at": aware(row["at"]), "detail": row["detail"] or ""})


def _conditions(which: AuditFilter) -> list[sa.ColumnElement[bool]]:
    c, found = AUDIT.c, []
    target = None if which.target is None else fitted(which.target)
    for column, wanted in ((c.tenant, which.tenant), (c.principal, which.principal), (c.target, target)):
        if wanted is not None:
            found.append(column == wanted)
    if which.actions:
        found.append(c.action.in_([action.value for action in which.actions]))
    if which.after is not None:
        found.append(c.at > which.after)
    if which.before is not None:
        found.append(c.at < which.before)
    return found
