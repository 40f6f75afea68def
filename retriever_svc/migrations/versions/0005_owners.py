"""Which tenant imported each provider.

Revision ID: 0005
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column. A document with exactly one tenant belongs to it; all others belong to the operator (null)."""
    op.add_column("documents", sa.Column("owner", sa.String(100), nullable=True))
    documents = sa.table("documents", *map(sa.column, ("provider", "tenants", "owner")))
    connection = op.get_bind()
    for provider, text in connection.execute(sa.select(documents.c.provider, documents.c.tenants)).all():
        tenants = json.loads(text)
        if len(tenants) == 1:
            mine = documents.c.provider == provider
            connection.execute(sa.update(documents).where(mine).values(owner=tenants[0]))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("owner")
