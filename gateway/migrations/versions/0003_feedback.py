"""Add feedback on runs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
_JUDGED = sa.text("verdict IS NOT NULL")


def upgrade() -> None:
    op.add_column("runs", sa.Column("verdict", sa.String(20)))
    op.add_column("runs", sa.Column("feedback", sa.Text))
    columns = ["tenant", "verdict", "id"]
    op.create_index("ix_runs_tenant_verdict_id", "runs", columns, sqlite_where=_JUDGED, postgresql_where=_JUDGED)


def downgrade() -> None:
    op.drop_index("ix_runs_tenant_verdict_id", "runs")
    op.drop_column("runs", "feedback")
    op.drop_column("runs", "verdict")
