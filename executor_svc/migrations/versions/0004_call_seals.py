"""The seal of a recorded call."""

import sqlalchemy as sa
from alembic import op

revision = "0004_call_seals"
down_revision = "0003_seals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("seal", sa.String(64)))


def downgrade() -> None:
    op.drop_column("calls", "seal")
