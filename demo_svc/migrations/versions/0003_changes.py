"""Which demos the newest versions added or removed.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make the table, without the changes of before."""
    op.create_table(
        "demo_changes",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("demo", sa.String(64), primary_key=True),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("demo_changes")
