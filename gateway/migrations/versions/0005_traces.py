"""Add the trace context of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0005_traces"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("traceparent", sa.String(55)))


def downgrade() -> None:
    op.drop_column("runs", "traceparent")
