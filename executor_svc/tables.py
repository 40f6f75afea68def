"""The tables of the executor: executions, their calls, large values, and changes of secrets."""

import sqlalchemy as sa

from services.ownership.members import members_table

METADATA = sa.MetaData()
MEMBERS = members_table(METADATA)
EXECUTIONS = sa.Table(
    "executions",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("plan_id", sa.String(64), nullable=False),
    sa.Column("status", sa.String(20), nullable=False, index=True),
    sa.Column("owner", sa.String(100), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("takeovers", sa.Integer, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("traceparent", sa.String(55)),
    sa.Column("seal", sa.String(64)),
    sa.Column("ended_at", sa.Float),
)
"""``created_at`` is by the clock of the process that wrote it, ``ended_at`` by the database's."""
CALLS = sa.Table(
    "calls",
    METADATA,
    sa.Column("run_id", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(100), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("sent_at", sa.Float, nullable=False),
    sa.Column("seal", sa.String(64)),
)
VALUES = sa.Table(
    "stored_values",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
)
SECRET_CHANGES = sa.Table(
    "secret_changes",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("change", sa.String(10), nullable=False),
    sa.Column("secret", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("mark", sa.String(64), nullable=False),
)
"""Append-only: rows are never changed or deleted."""
