"""The catalogue: APIs, vectors of their texts, the documents they come from, and a version.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make the tables; the version starts at 0."""
    op.create_table(
        "apis",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(400), nullable=False, unique=True),
        sa.Column("provider", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("lexical", sa.Text, nullable=False),
        sa.Column("inputs", sa.Text, nullable=False),
        sa.Column("outputs", sa.Text, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_apis_provider", "apis", ["provider"])
    op.create_index("ix_apis_text_hash", "apis", ["text_hash"])
    op.create_table(
        "embeddings",
        sa.Column("text_hash", sa.String(64), primary_key=True),
        sa.Column("encoder", sa.String(400), primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("provider", sa.String(200), primary_key=True),
        sa.Column("document_hash", sa.String(64), nullable=False),
        sa.Column("format", sa.String(40), nullable=False),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
    )
    catalogue = op.create_table(
        "catalogue",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.bulk_insert(catalogue, [{"id": 1, "version": 0}])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("catalogue", "documents", "embeddings", "apis"):
        op.drop_table(table)
