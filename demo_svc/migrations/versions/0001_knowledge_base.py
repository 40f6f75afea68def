"""The knowledge base: demos, the APIs they use, vectors of their requests, and a version.

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
        "demos",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("level", sa.String(8), nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_demos_text_hash", "demos", ["text_hash"])
    op.create_table(
        "demo_apis",
        sa.Column("demo", sa.String(64), sa.ForeignKey("demos.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("api", sa.String(400), primary_key=True),
    )
    op.create_index("ix_demo_apis_api", "demo_apis", ["api"])
    op.create_table(
        "embeddings",
        sa.Column("text_hash", sa.String(64), primary_key=True),
        sa.Column("encoder", sa.String(400), primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    knowledge = op.create_table(
        "knowledge",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.bulk_insert(knowledge, [{"id": 1, "version": 0}])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("knowledge", "embeddings", "demo_apis", "demos"):
        op.drop_table(table)
