"""Add a column that says how a run was written, so that one of this version can be shown without parsing it."""

import sqlalchemy as sa
from alembic import op

revision = "0007_shape"
down_revision = "0006_trouble"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("shape", sa.String(64)))


def downgrade() -> None:
    op.drop_column("runs", "shape")
