"""The journal of the configured secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0005_secret_changes"
down_revision = "0004_call_seals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secret_changes",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("change", sa.String(10), nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("mark", sa.String(64), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("secret_changes")
