"""The text of documents that OCR read, which marks them as machine-read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column, empty: nothing was read so before."""
    op.add_column("binary", sa.Column("machine_read", _TEXT))
