"""An index of the documents by the tenant that imported them, which pages of documents are read from.

Revision ID: 0009
"""

from alembic import op

revision = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_documents_owner", "documents", ["owner", "provider"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_documents_owner", "documents")
