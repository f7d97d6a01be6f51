"""What administrators did with patients' records, and an index of whom the trail is about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the index; all tables that older schemas lack are made by the start."""
    if "audit_entry" in sa.inspect(op.get_bind()).get_table_names():
        is_about = sa.text("about <> ''")
        op.create_index(
            "ix_audit_entry_about",
            "audit_entry",
            ["about", "number"],
            postgresql_where=is_about,
            if_not_exists=True,
        )
