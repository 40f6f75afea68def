"""Where the calls of a provider go and went.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column. The next import fills it from the provider's stored APIs."""
    op.add_column("documents", sa.Column("places", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("places")
