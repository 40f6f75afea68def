"""No vectors of texts that no demo has: imports that did not end left them, and nothing removed them.

Revision ID: 0005
"""

from alembic import op

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Delete them."""
    op.execute(
        "DELETE FROM embeddings WHERE NOT EXISTS (SELECT 1 FROM demos WHERE demos.text_hash = embeddings.text_hash)"
    )


def downgrade() -> None:
    """Leave all as it is: a missing vector is made again."""
