"""When an execution ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006_ends"
down_revision = "0005_secret_changes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("ended_at", sa.Float))


def downgrade() -> None:
    op.drop_column("executions", "ended_at")
