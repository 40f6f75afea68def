"""Add a column that says why a run has no answer, so that lists need not read the whole run."""

import sqlalchemy as sa
from alembic import op

revision = "0006_trouble"
down_revision = "0005_traces"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("trouble", sa.String(300)))


def downgrade() -> None:
    op.drop_column("runs", "trouble")
