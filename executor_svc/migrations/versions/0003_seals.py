"""The seal of a request that the executor admitted."""

import sqlalchemy as sa
from alembic import op

revision = "0003_seals"
down_revision = "0002_traces"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("seal", sa.String(64)))


def downgrade() -> None:
    op.drop_column("executions", "seal")
