"""Add tenants, owners and events of runs, and the data needed to continue them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _added() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("tenant", sa.String(100), nullable=False, server_default="default"),
        sa.Column("owner", sa.String(100), nullable=False, server_default=""),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("takeovers", sa.Integer, nullable=False, server_default="0"),
        sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("fingerprint", sa.String(64)),
        sa.Column("request", sa.Text),
        sa.Column("compiled", sa.Text),
    )


def upgrade() -> None:
    for column in _added():
        op.add_column("runs", column)
    op.create_index("ix_runs_tenant_id", "runs", ["tenant", "id"])
    op.create_index("uq_runs_tenant_idempotency_key", "runs", ["tenant", "idempotency_key"], unique=True)
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "members",
        sa.Column("id", sa.String(100), primary_key=True),
        sa.Column("seen_at", sa.Float, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("members")
    op.drop_table("run_events")
    op.drop_index("uq_runs_tenant_idempotency_key", "runs")
    op.drop_index("ix_runs_tenant_id", "runs")
    for column in _added():
        op.drop_column("runs", column.name)
