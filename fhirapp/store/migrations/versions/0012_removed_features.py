"""Drop the tables of features that were removed.

These are pieces of uploads, errors of other servers, code systems and concept maps.
"""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Drop the tables. A database that was made after they left the models lacks them."""
    for name in ("upload_piece", "log_line", *_of_type("code_system"), *_of_type("concept_map")):
        op.drop_table(name, if_exists=True)


def _of_type(table: str) -> Iterator[str]:
    """Yield the table of a resource type, and those of its index rows."""
    yield from (table, *(f"{table}_{kind}" for kind in ("date", "reference", "string", "token")))
