"""How each document was read, and which APIs are the same operation.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the columns. Without an importer's version each document is read again when it is next imported."""
    for name, size in (("operation_key", 32), ("content_key", 32), ("revision", 80)):
        op.add_column("apis", sa.Column(name, sa.String(size), nullable=False, server_default=""))
    op.create_index("ix_apis_operation_key", "apis", ["operation_key"])
    op.create_index("ix_apis_content_key", "apis", ["content_key"])
    op.add_column("documents", sa.Column("importer", sa.String(64), nullable=False, server_default=""))
    op.add_column("documents", sa.Column("server", sa.Text, nullable=True))
    op.add_column("documents", sa.Column("named", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("documents", sa.Column("version", sa.Text, nullable=False, server_default=""))
    op.add_column("documents", sa.Column("notes", sa.Text, nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drop the columns."""
    for name in ("operation_key", "content_key"):
        op.drop_index(f"ix_apis_{name}", "apis")
    for table, names in (
        ("apis", ("operation_key", "content_key", "revision")),
        ("documents", ("importer", "server", "named", "version", "notes")),
    ):
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
