"""The index tables of a resource type: what its search parameters find resources by.

One table for each kind of value, with a row for each value of each version. Versions are immutable,
and so are their index rows: they are written once, when the version is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, text

from fhirapp.db import Ascii, RowNumber

# Characters of a key: PostgreSQL's indexes take 2,700 bytes in all.
KEY_LENGTH = 200
_DIGEST_LENGTH = 32
# Milliseconds: a date without a day, and many a period, covers more. Few do.
LONG = 86_400_000


class TokenRow(NamedTuple):
    """A code as a parameter finds it; system is empty where the source has none."""

    param: str
    code: str
    system: str


class DateRow(NamedTuple):
    """An interval of time, [low, high) in milliseconds since 1970 in UTC."""

    param: str
    low: int
    high: int


class ReferenceRow(NamedTuple):
    """Where a reference points: type and id, or no type and an address elsewhere."""

    param: str
    target_id: str
    target_type: str


class StringRow(NamedTuple):
    """A text: folded for a search without case and accents, and as written."""

    param: str
    folded: str
    exact: str


IndexRow = TokenRow | DateRow | ReferenceRow | StringRow


class IndexTables(NamedTuple):
    """The index tables of one type."""

    token: Table
    date: Table
    reference: Table
    string: Table

    def of(self, row: type[IndexRow]) -> Table:
        """Return the table of a kind of row."""
        return self[_ROWS.index(row)]


# In the order of IndexTables.
_ROWS: Sequence[type[IndexRow]] = (TokenRow, DateRow, ReferenceRow, StringRow)
_TYPES: Mapping[str, Any] = {"low": BigInteger(), "high": BigInteger()}


def key(value: str) -> str:
    """Return a value as index rows hold it: a long one ends in a digest of the whole."""
    if len(value) <= KEY_LENGTH:
        return value
    digest = blake2b(value.encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return value[: KEY_LENGTH - _DIGEST_LENGTH] + digest


def index_tables(table: Table) -> IndexTables:
    """Return the index tables of a resource table, declaring them at the first call."""
    known = table.metadata.tables
    names = [f"{table.name}_{kind}" for kind in IndexTables._fields]
    if names[0] in known:
        return IndexTables(*(known[name] for name in names))
    tables = IndexTables(
        *(
            _index_table(table.metadata, name, row._fields)
            for name, row in zip(names, _ROWS, strict=True)
        )
    )
    date = tables.date
    is_long = text(f"high - low > {LONG}")
    columns = (date.c.param, date.c.high, date.c.pk, date.c.low)
    Index(f"ix_{date.name}_long", *columns, sqlite_where=is_long, postgresql_where=is_long)
    return tables


def _index_table(metadata: MetaData, name: str, fields: tuple[str, str, str]) -> Table:
    """Declare a table with two orders: which values has this row, and which rows this value."""
    columns = [
        Column(column, _TYPES.get(column, Ascii), primary_key=True, autoincrement=False)
        for column in fields
    ]
    number = Column("pk", RowNumber, primary_key=True, autoincrement=False)
    table = Table(name, metadata, number, *columns, sqlite_with_rowid=False)
    param, value, beside = columns
    Index(f"ix_{name}", param, value, number, beside)
    return table
