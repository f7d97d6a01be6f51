"""The first release: every table as the models declare it, made by create_all."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing lies before the first release."""
