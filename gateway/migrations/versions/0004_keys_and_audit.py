"""Add keys of apps and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("roles", sa.String(100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(100), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_keys_tenant_id", "keys", ["tenant", "id"])
    op.create_table(
        "audit",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        sa.Column("principal", sa.String(100), nullable=False),
        sa.Column("key", sa.String(20), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("target", sa.String(400), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("begun_by", sa.String(40), nullable=False),
    )
    op.create_index("ix_audit_tenant_id", "audit", ["tenant", "id"])
    op.create_index("ix_audit_action_id", "audit", ["action", "id"])


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("keys")
