"""Drop the tables of features that were removed: pieces of uploads, errors of other servers."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Drop the tables. A database that was made after they left the models lacks them."""
    for name in ("upload_piece", "log_line"):
        op.drop_table(name, if_exists=True)
