"""A stamp of each API's row, by which replicas detect changes.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column. Rows get their proper stamp when they are next written; until then any value works."""
    op.add_column("apis", sa.Column("stamp", sa.String(32), nullable=False, server_default=""))
    op.execute("UPDATE apis SET stamp = substr(content_hash, 1, 32)")
    op.create_index("ix_apis_stamp", "apis", ["stamp"])


def downgrade() -> None:
    """Drop the column."""
    op.drop_index("ix_apis_stamp", "apis")
    with op.batch_alter_table("apis") as batch:
        batch.drop_column("stamp")
