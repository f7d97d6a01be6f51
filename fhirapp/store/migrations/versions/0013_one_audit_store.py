"""Replace the tables of the audit trail: one row is an entry, and seals prove them.

The lines of the earlier trail stay on PostgreSQL until a start imports them (audit/earlier.py). On
SQLite its tables were empty, since the trail was in files.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Drop the tables that were made of the lines; the models have their successors."""
    for name in ("audit_seen", "audit_entry", "audit_chain"):
        op.drop_table(name, if_exists=True)
    if op.get_bind().dialect.name == "sqlite":
        op.drop_table("audit_line", if_exists=True)
        op.drop_table("audit_file", if_exists=True)
