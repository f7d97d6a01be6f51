"""RelatedPerson, whose tables the start makes; and links of users that depend on one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column, empty: no link depends on one yet."""
    op.add_column("auth_user_patient", sa.Column("related_person", _TEXT))
