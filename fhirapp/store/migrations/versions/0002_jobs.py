"""One table of jobs in place of that of bulk exports, whose rows are carried over.

An export that was under way is queued again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NO_PROGRESS = {"phase": "begins", "done": 0, "total": None, "counts": {}, "notes": []}


def upgrade() -> None:
    """Make the table `job`, and move the exports there."""
    jobs = op.create_table(
        "job",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("id", _TEXT, nullable=False, unique=True),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("owner", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("created_at", sa.Integer(), nullable=False),
        sa.Column("ended_at", sa.Integer()),
        sa.Column("expires_at", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Integer()),
        sa.Column("stop_requests", sa.Integer(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("error", _TEXT),
    )
    op.create_index("ix_job_expires_at", "job", ["expires_at"])
    op.create_index("ix_job_kind_owner", "job", ["kind", "owner"])
    names = ("id", "client_id", "state", "created_at", "expires_at", "attempts", "error")
    exports = sa.table("bulk_export", *map(sa.column, names))
    rows = [
        {
            "id": row.id,
            "kind": "bulk-export",
            "owner": row.client_id,
            "state": "queued" if row.state == "running" else row.state,
            "created_at": row.created_at,
            "expires_at": row.expires_at,
            "attempts": row.attempts,
            "stop_requests": 0,
            "request": {},
            "progress": _NO_PROGRESS,
            "error": row.error,
        }
        for row in op.get_bind().execute(sa.select(exports).order_by(exports.c.created_at))
    ]
    op.bulk_insert(jobs, rows)
    op.drop_table("bulk_export")
