"""The index tables of a resource type: what its search parameters find resources by.

One table for each kind of value, with a row for each value of each version. Versions are immutable,
and so are their index rows: they are written once, when the version is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Column, Index, MetaData, Table

from fhirapp.db import Ascii, RowNumber


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


IndexRow = TokenRow | DateRow | ReferenceRow


class IndexTables(NamedTuple):
    """The index tables of one type."""

    token: Table
    date: Table
    reference: Table


_TABLE_OF: Mapping[type, int] = {TokenRow: 0, DateRow: 1, ReferenceRow: 2}


def index_tables(table: Table) -> IndexTables:
    """Return the index tables of a resource table, declaring them at the first call."""
    name, metadata = table.name, table.metadata
    if f"{name}_token" in metadata.tables:
        return IndexTables(
            *(metadata.tables[f"{name}_{kind}"] for kind in ("token", "date", "reference"))
        )
    # The key's order serves both uses: which rows have this code, and has this row this code.
    return IndexTables(
        _index_table(
            metadata, f"{name}_token", param=Ascii, code=Ascii, pk=RowNumber, system=Ascii
        ),
        _index_table(
            metadata, f"{name}_date", param=Ascii, pk=RowNumber, low=BigInteger(), high=BigInteger()
        ),
        _index_table(
            metadata,
            f"{name}_reference",
            param=Ascii,
            target_id=Ascii,
            pk=RowNumber,
            target_type=Ascii,
        ),
    )


def _index_table(metadata: MetaData, name: str, **columns: Any) -> Table:
    key = [
        Column(column, kind, primary_key=True, autoincrement=False)
        for column, kind in columns.items()
    ]
    table = Table(name, metadata, *key, sqlite_with_rowid=False)
    if "low" in columns:
        Index(f"ix_{name}_range", table.c.param, table.c.low, table.c.high, table.c.pk)
    return table


def by_table(
    rows: Iterable[IndexRow], tables: IndexTables, pk: int
) -> dict[Table, list[tuple[Any, ...]]]:
    """Sort a version's index rows, which are all different, by table, each as (values…, pk)."""
    found: tuple[list[tuple[Any, ...]], ...] = ([], [], [])
    for row in rows:
        found[_TABLE_OF[type(row)]].append((*row, pk))
    return {table: values for table, values in zip(tables, found, strict=True) if values}
