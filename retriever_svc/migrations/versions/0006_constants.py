"""Values that a provider's calls send unless a plan gives others.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column. No provider has any yet."""
    op.add_column("documents", sa.Column("constants", sa.JSON, nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drop the column. APIs that have a constant can be read only after their document is imported again."""
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("constants")
