"""The tenant of each demo.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column. Existing demos are everyone's: null."""
    op.add_column("demos", sa.Column("tenant", sa.String(100), nullable=True))


def downgrade() -> None:
    """Drop the column and the demos of tenants."""
    private = sa.table("demos", *map(sa.column, ("id", "tenant")))
    uses = sa.table("demo_apis", sa.column("demo"))
    theirs = sa.select(private.c.id).where(private.c.tenant.is_not(None))
    op.execute(sa.delete(uses).where(uses.c.demo.in_(theirs)))
    op.execute(sa.delete(private).where(private.c.tenant.is_not(None)))
    with op.batch_alter_table("demos") as batch:
        batch.drop_column("tenant")
