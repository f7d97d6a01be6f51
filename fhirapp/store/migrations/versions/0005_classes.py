"""Classes of the lessons and their learners: tables that the start makes (upgrade())."""

from __future__ import annotations

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Change nothing: all tables of this schema that older ones lack are new."""
