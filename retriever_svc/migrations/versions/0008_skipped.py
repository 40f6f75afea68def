"""The skipped operations that a page of documents shows, beside the notes, which may be large.

Revision ID: 0008
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None

_SHOWN = 20
_KEPT = 500
_CHARS = 300
_MAX_NOTES = 100_000_000
_DOCUMENTS = sa.table(
    "documents",
    sa.column("provider", sa.String),
    sa.column("notes", sa.Text),
    sa.column("skipped", sa.Text),
    sa.column("skipped_total", sa.Integer),
)


def upgrade() -> None:
    """Add the columns and fill them from the notes, which are cut as those of new imports are.

    Notes of more than 100 MB are left out: only a document that was made for it has them.
    """
    op.add_column("documents", sa.Column("skipped", sa.Text, nullable=False, server_default="[]"))
    op.add_column("documents", sa.Column("skipped_total", sa.Integer, nullable=False, server_default="0"))
    connection, columns = op.get_bind(), _DOCUMENTS.c
    sizes = sa.select(columns.provider, sa.func.length(columns.notes))
    for provider, size in connection.execute(sizes).all():
        same = columns.provider == provider
        stored = sa.select(columns.notes).where(same)
        notes = str(connection.scalar(stored)) if size <= _MAX_NOTES else "[[], []]"
        if notes.startswith("["):  # "{}" of early versions
            skipped, warnings = json.loads(notes)
            kept = [{name: text[:_CHARS] for name, text in one.items()} for one in skipped[:_KEPT]]
            values = {
                "notes": json.dumps([kept, warnings]),
                "skipped": json.dumps(kept[:_SHOWN]),
                "skipped_total": len(skipped),
            }
            connection.execute(sa.update(_DOCUMENTS).where(same).values(values))


def downgrade() -> None:
    """Drop the columns."""
    with op.batch_alter_table("documents") as batch:
        batch.drop_column("skipped")
        batch.drop_column("skipped_total")
