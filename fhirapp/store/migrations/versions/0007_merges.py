"""Merges of patients: a table that the start makes (upgrade())."""

from __future__ import annotations

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Change nothing: all tables of this schema that older ones lack are new."""
