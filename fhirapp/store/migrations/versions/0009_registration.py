"""Where a client's registration came from: a table that the start makes (upgrade())."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Change nothing: all tables of this schema that older ones lack are new."""
