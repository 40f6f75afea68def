"""Add an index of a tenant's runs by status, so that few rows are read for a page of runs of a rare status."""

from alembic import op

revision = "0009_status_index"
down_revision = "0008_detail"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_runs_tenant_status_id", "runs", ["tenant", "status", "id"])


def downgrade() -> None:
    op.drop_index("ix_runs_tenant_status_id", "runs")
