"""What several servers share, schedules and settings: tables that the start makes (upgrade())."""

from __future__ import annotations

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Change nothing: all tables of this schema that older ones lack are new."""
