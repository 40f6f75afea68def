"""Add a column with the details of an audit entry. Older processes write entries without it."""

import sqlalchemy as sa
from alembic import op

revision = "0008_detail"
down_revision = "0007_shape"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("detail", sa.Text))


def downgrade() -> None:
    op.drop_column("audit", "detail")
