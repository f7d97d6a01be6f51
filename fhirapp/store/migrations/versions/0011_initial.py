"""The initial schema: every table as the models declare it (upgrade() in store/migrate.py)."""

from __future__ import annotations

revision = "0011"
down_revision = None


def upgrade() -> None:
    """Change nothing: a database has this schema from its creation."""
