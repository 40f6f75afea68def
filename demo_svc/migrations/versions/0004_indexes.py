"""Indexes that hold all by which demos are found, so that their documents are not read for it.

Revision ID: 0004
"""

from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make the indexes, and drop the one that the first replaces."""
    op.create_index("ix_demos_text_hash_tenant", "demos", ["text_hash", "tenant"])
    op.create_index("ix_demos_tenant_id", "demos", ["tenant", "id"])
    op.drop_index("ix_demos_text_hash", "demos")


def downgrade() -> None:
    """Put the earlier index back."""
    op.create_index("ix_demos_text_hash", "demos", ["text_hash"])
    op.drop_index("ix_demos_tenant_id", "demos")
    op.drop_index("ix_demos_text_hash_tenant", "demos")
