"""The tables of the gateway, and conversions of their rows."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import TypeVar

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from services.collecting import no_collection
from services.contracts.base import Contract
from services.contracts.event import RunEvent, RunFinished, SolveEvent
from services.contracts.feedback import Feedback
from services.contracts.outcome import Failed
from services.contracts.plan import content_hash
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run, RunStatus
from services.contracts.solve import SolveRequest
from services.ownership.members import members_table
from services.telemetry import get_logger

METADATA = sa.MetaData()
MEMBERS = members_table(METADATA)
_JUDGED = sa.text("verdict IS NOT NULL")
RUNS = sa.Table(
    "runs",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("status", sa.String(20), nullable=False, index=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("total_ms", sa.Float, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("tenant", sa.String(100), nullable=False),
    sa.Column("owner", sa.String(100), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("takeovers", sa.Integer, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("idempotency_key", sa.String(255)),
    sa.Column("fingerprint", sa.String(64)),
    sa.Column("request", sa.Text),
    sa.Column("compiled", sa.Text),
    sa.Column("verdict", sa.String(20)),
    sa.Column("feedback", sa.Text),
    sa.Column("traceparent", sa.String(55)),
    sa.Column("trouble", sa.String(300)),
    sa.Column("shape", sa.String(64)),
    sa.Index("ix_runs_tenant_id", "tenant", "id"),
    sa.Index("ix_runs_tenant_status_id", "tenant", "status", "id"),
    sa.Index("uq_runs_tenant_idempotency_key", "tenant", "idempotency_key", unique=True),
    sa.Index("ix_runs_tenant_verdict_id", "tenant", "verdict", "id", sqlite_where=_JUDGED, postgresql_where=_JUDGED),
)
RUN_EVENTS = sa.Table(
    "run_events",
    METADATA,
    sa.Column("run_id", sa.String(64), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("data", sa.Text, nullable=False),
)
KEYS = sa.Table(
    "keys",
    METADATA,
    sa.Column("id", sa.String(20), primary_key=True),
    sa.Column("secret_hash", sa.String(64), nullable=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("tenant", sa.String(100), nullable=False),
    sa.Column("roles", sa.String(100), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("created_by", sa.String(100), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Index("ix_keys_tenant_id", "tenant", "id"),
)
AUDIT = sa.Table(
    "audit",
    METADATA,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("action", sa.String(40), nullable=False),
    sa.Column("outcome", sa.String(20), nullable=False),
    sa.Column("principal", sa.String(100), nullable=False),
    sa.Column("key", sa.String(20), nullable=False),
    sa.Column("tenant", sa.String(100), nullable=False),
    sa.Column("target", sa.String(400), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("begun_by", sa.String(40), nullable=False),
    sa.Column("detail", sa.Text),
    sa.Index("ix_audit_tenant_id", "tenant", "id"),
    sa.Index("ix_audit_action_id", "action", "id"),
)
"""Append-only: rows are never changed or deleted."""
_TROUBLE_CHARS = 300
_EVENT: TypeAdapter[SolveEvent] = TypeAdapter(SolveEvent)
_M = TypeVar("_M", bound=Contract)
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A row of `runs`. `request` and `compiled` are None if they are not stored, or this version cannot read them."""

    run: Run
    epoch: int
    takeovers: int
    cancel_requested: bool
    fingerprint: str | None
    request: SolveRequest | None
    compiled: CompiledPlan | None
    traceparent: str | None
    """Trace context of the request that began the run."""


def run_row(run: Run) -> dict[str, object]:
    """The columns that a run's owner writes. Feedback has columns of its own, which the owner does not write."""
    document = run.model_dump_json(exclude={"feedback"})
    return {
        "id": run.id,
        "status": run.status.value,
        "query": run.query.replace("\x00", "\ufffd"),  # PostgreSQL stores no NUL in text; the document escapes it
        "created_at": run.created_at,
        "total_ms": run.timings.total_ms,
        "document": document,
        "shape": run_shape(document),
        "trouble": trouble_of(run)[:_TROUBLE_CHARS].replace("\x00", "\ufffd") or None,
    }


def trouble_of(run: Run) -> str:
    """Why a run that failed, or has no plan, has no answer; empty if it gives no reason or is in another state."""
    if run.status not in (RunStatus.FAILED, RunStatus.NO_PLAN):
        return ""
    if run.problem is not None:
        return f"{run.problem.title}. {run.problem.detail}".strip()
    failed = (f"{one.step}: {one.outcome.message}" for one in run.steps if isinstance(one.outcome, Failed))
    errors = (one.message for one in run.diagnostics if one.severity == "error")
    return run.reason or next(failed, "") or next(errors, "")


def feedback_row(feedback: Feedback) -> dict[str, object]:
    """The columns for a run's feedback."""
    return {"verdict": feedback.verdict.value, "feedback": feedback.model_dump_json()}


def run_of(document: str, feedback: str | None) -> Run:
    """A run with its feedback."""
    with no_collection():
        run = Run.model_validate_json(document)
    return run if feedback is None else run.model_copy(update={"feedback": _readable(Feedback, feedback)})


@cache
def _run_schema() -> str:
    """Hash of the schema of runs as this version writes them."""
    return content_hash(Run.model_json_schema(mode="serialization"))


def run_shape(document: str) -> str:
    """The mark of a document that this version has written.

    It covers the document, because a process of a version without this column may write another one and leave the mark.
    """
    return hashlib.sha256(f"{_run_schema()}\n{document}".encode()).hexdigest()


def run_json(document: str, feedback: str | None, shape: str | None) -> str:
    """The JSON of a run with its feedback.

    It is not parsed unless another version wrote it: to read and write a run of 8 MB takes half a second, in which the
    process does nothing else.
    """
    if shape != run_shape(document):
        return run_of(document, feedback).model_dump_json()
    judged = _readable(Feedback, feedback)
    return f'{document[:-1]},"feedback":{"null" if judged is None else judged.model_dump_json()}}}'


def event_rows(events: Sequence[RunEvent], run: Run, document: str) -> list[dict[str, object]]:
    """The rows of events, without writing the JSON of the run they end with a second time."""
    return [
        event_row(
            run.id,
            event,
            f'{{"kind":"finished","run":{document}}}'
            if isinstance(event.event, RunFinished)
            else event.event.model_dump_json(),
        )
        for event in events
    ]


def event_row(run_id: str, event: RunEvent, data: str) -> dict[str, object]:
    """The row of an event whose JSON is ``data``."""
    return {"run_id": run_id, "seq": event.id, "data": data}


def stored_run(row: sa.Row[tuple[object, ...]]) -> StoredRun:
    """A row of `runs`. Its compiled plan may be left out."""
    return StoredRun(
        run=run_of(row.document, row.feedback),
        epoch=row.epoch,
        takeovers=row.takeovers,
        cancel_requested=row.cancel_requested,
        fingerprint=row.fingerprint,
        request=_readable(SolveRequest, row.request),
        compiled=_readable(CompiledPlan, getattr(row, "compiled", None)),
        traceparent=row.traceparent,
    )


def run_event(seq: int, data: str) -> RunEvent:
    """The event of a row."""
    with no_collection():
        return RunEvent(id=seq, event=_EVENT.validate_json(data))


def taken_run(row: sa.Row[tuple[object, ...]]) -> StoredRun | None:
    """A row as it is after a takeover; None if this version cannot read it, so that another version can take it."""
    try:
        stored = stored_run(row)
    except ValidationError as error:
        _log.error("run cannot be read", run_id=row.id, errors=error.error_count())
        return None
    return replace(stored, epoch=stored.epoch + 1, takeovers=stored.takeovers + 1)


def _readable(model: type[_M], text: str | None) -> _M | None:
    try:
        return None if text is None else model.model_validate_json(text)
    except ValidationError:
        return None


def aware(moment: datetime) -> datetime:
    """The moment with its time zone. SQLite stores none, and all stored moments are UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
