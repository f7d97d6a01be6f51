"""Uploads lie in the folder of the server that takes them, and have no rows."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Drop the table of their pieces; a database older than 0004 has none."""
    op.execute("DROP TABLE IF EXISTS upload_piece")
