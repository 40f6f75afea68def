"""The trace that an execution belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0002_traces"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("traceparent", sa.String(55)))


def downgrade() -> None:
    op.drop_column("executions", "traceparent")
