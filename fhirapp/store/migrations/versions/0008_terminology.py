"""Value sets, code systems and concept maps: tables that the start makes (upgrade())."""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Change nothing: all tables of this schema that older ones lack are new."""
