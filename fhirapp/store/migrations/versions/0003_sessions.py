"""Where each session is and who proved it; people of an identity provider; recovery codes hashed.

What was stored of a code, its SHA-256, cannot be turned back: that is what is hashed, of new codes
too.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from argon2 import PasswordHasher

revision = "0003"
down_revision = "0002"

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Make `auth_session` anew with more columns, `auth_recovery_code`, and `auth_identity`."""
    _add_where()
    _make_identities()
    _hash_codes()


def _add_where() -> None:
    names = ("id", "digest", "user_id", "complete", "signed_in_at", "used_at", "ended_at")
    sessions = sa.table("auth_session", *map(sa.column, names))
    stored = op.get_bind().execute(sa.select(sessions)).mappings().all()
    op.drop_table("auth_session")
    made = op.create_table(
        "auth_session",
        sa.Column("id", _TEXT, primary_key=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False, unique=True),
        sa.Column("user_id", _TEXT, sa.ForeignKey("auth_user.id"), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("signed_in_at", sa.Integer(), nullable=False),
        sa.Column("used_at", sa.Integer(), nullable=False),
        sa.Column("ended_at", sa.Integer()),
        sa.Column("address", _TEXT),
        sa.Column("browser", _TEXT),
        sa.Column("issuer", _TEXT),
        sa.Column("several_factors", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_auth_session_user_id", "auth_session", ["user_id"])
    op.create_index("ix_auth_session_used_at", "auth_session", ["used_at"])
    rows = [{**one, "complete": bool(one["complete"]), "several_factors": False} for one in stored]
    op.bulk_insert(made, rows)


def _make_identities() -> None:
    op.create_table(
        "auth_identity",
        sa.Column("issuer", _TEXT, primary_key=True),
        sa.Column("subject", _TEXT, primary_key=True),
        sa.Column("user_id", _TEXT, sa.ForeignKey("auth_user.id")),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("username", _TEXT, nullable=False),
        sa.Column("seen_at", sa.Integer(), nullable=False),
    )
    op.create_index("ix_auth_identity_user_id", "auth_identity", ["user_id"])


def _hash_codes() -> None:
    codes = sa.table("auth_recovery_code", sa.column("digest"), sa.column("user_id"))
    stored = op.get_bind().execute(sa.select(codes)).all()
    op.drop_table("auth_recovery_code")
    made = op.create_table(
        "auth_recovery_code",
        sa.Column("hash", _TEXT, primary_key=True),
        sa.Column("user_id", _TEXT, sa.ForeignKey("auth_user.id"), nullable=False),
    )
    op.create_index("ix_auth_recovery_code_user_id", "auth_recovery_code", ["user_id"])
    hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
    rows = [
        {"hash": hasher.hash(bytes(one.digest).hex()), "user_id": one.user_id} for one in stored
    ]
    op.bulk_insert(made, rows)
