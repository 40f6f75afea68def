"""Columns that searches are filtered by, and the tenants of each API.

Revision ID: 0004
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

_AT_ONCE = 500
_LISTS = (("apis", "tags"), ("apis", "tenants"), ("documents", "tenants"))


def upgrade() -> None:
    """Add the columns. Tags and deprecation are read from the stored documents; every tenant sees every API."""
    for table, name in _LISTS:
        op.add_column(table, sa.Column(name, sa.Text, nullable=False, server_default="[]"))
    op.add_column("apis", sa.Column("deprecated", sa.Boolean, nullable=False, server_default=sa.false()))
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    apis = sa.table("apis", *map(sa.column, ("number", "document", "tags")), sa.column("deprecated", sa.Boolean))
    last = -1
    query = sa.select(apis.c.number, apis.c.document).order_by(apis.c.number).limit(_AT_ONCE)
    while rows := connection.execute(query.where(apis.c.number > last)).all():
        last = rows[-1].number
        for number, text in rows:
            api = json.loads(text)
            tags, deprecated = api.get("tags") or [], api.get("deprecated") is True
            if tags or deprecated:
                values = {"tags": json.dumps(tags), "deprecated": deprecated}
                connection.execute(sa.update(apis).where(apis.c.number == number).values(values))


def downgrade() -> None:
    """Drop the columns."""
    with op.batch_alter_table("apis") as batch:
        for name in ("tags", "deprecated", "tenants"):
            batch.drop_column(name)
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("tenants")
