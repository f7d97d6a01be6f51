"""Check a whole database: the file, the versions of each resource, and the search index.

The check reads one snapshot, so the server goes on, and its memory does not grow with the
database. decisions §5 has the rules for versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, Table, func, inspect, select
from sqlalchemy.exc import DatabaseError

from fhirapp.db import is_busy
from fhirapp.db.sqlite_file import integrity_faults, key_faults
from fhirapp.definition import Definition
from fhirapp.search.fulltext import words_table

# Faults of one kind that are listed.
_LISTED = 5


class Faults:
    """Collects faults by kind: all are counted, the first of each are listed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._listed: list[tuple[str, str]] = []

    def add(self, kind: str, where: str = "") -> None:
        """Add a fault: `has no body`, of `Patient/one, version 2`."""
        self._counts[kind] += 1
        if self._counts[kind] <= _LISTED:
            self._listed.append((kind, f"{where} {kind}".strip()))

    def extend(self, kinds: Iterable[str]) -> None:
        """Add faults that are listed in full."""
        for kind in kinds:
            self.add(kind)

    def lines(self) -> list[str]:
        """Return a sentence for each listed fault, and for each kind how many more there are."""
        lines = []
        last = {kind: place for place, (kind, _) in enumerate(self._listed)}
        for place, (kind, line) in enumerate(self._listed):
            lines.append(line)
            more = self._counts[kind] - _LISTED
            if more > 0 and last[kind] == place:
                lines.append(f"… and {more} more {kind}")
        return lines


# Rows that are held at a time.
_BATCH = 1_000
_STREAMED = {"yield_per": _BATCH}


@dataclass(frozen=True)
class Checked:
    """How many versions of resources were looked at, and a sentence for each fault."""

    versions: int
    faults: list[str]


def check_database(
    engine: Engine, definitions: Mapping[str, Definition], *, quick: bool
) -> Checked:
    """Check everything; with quick neither the bodies nor SQLite's indexes against their rows."""
    faults = Faults()
    count = 0
    with one_snapshot(engine) as connection:
        if engine.dialect.name == "sqlite":
            _guarded(faults, "SQLite", _check_file, connection, quick)
        missing = _missing_tables(connection, definitions)
        for name, definition in definitions.items():
            if own := missing[name]:
                # A start makes the tables of a type that is new.
                if definition.table.name not in own:
                    faults.extend(f"the table {table} is missing" for table in own)
                continue
            count += _guarded(faults, name, _check_type, connection, definition, quick) or 0
            source = definition.view and definitions[definition.view.source]
            if source and not missing[source.name]:
                _guarded(faults, name, _check_view, connection, definition, source)
            if not missing["Binary"] and "attached" in definition.table.c:
                binary = definitions["Binary"]
                _guarded(faults, name, _check_attached, connection, definition, binary)
    return Checked(count, faults.lines())


def check_file(engine: Engine, *, quick: bool) -> list[str]:
    """Check what can be checked of a database of another release; return a sentence for a fault."""
    faults = Faults()
    if engine.dialect.name == "sqlite":
        with one_snapshot(engine) as connection:
            _guarded(faults, "SQLite", _check_file, connection, quick)
    return faults.lines()


@contextmanager
def one_snapshot(engine: Engine) -> Iterator[Connection]:
    """Open one snapshot for all that is read."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            yield connection.execution_options(isolation_level="REPEATABLE READ")
            return
        # Else the whole file counts as this process's memory in the end.
        mapped = connection.exec_driver_sql("PRAGMA mmap_size").scalar()
        connection.exec_driver_sql("PRAGMA mmap_size = 0")
        try:
            yield connection
        finally:
            connection.exec_driver_sql(f"PRAGMA mmap_size = {mapped}")


def _guarded(faults: Faults, name: str, check: Any, *arguments: Any) -> int | None:
    """Run a check; what the database cannot even read is a fault too. Raises where it is busy."""
    try:
        count: int | None = check(faults, *arguments)
    except (DatabaseError, ValueError, TypeError, AttributeError) as error:
        if is_busy(error):
            raise
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        faults.add(f"cannot be read to its end ({reason})", name)
        return None
    return count


def _check_file(faults: Faults, connection: Connection, quick: bool) -> None:
    faults.extend(integrity_faults(connection.exec_driver_sql, quick=quick))
    faults.extend(key_faults(connection.exec_driver_sql))


def _missing_tables(
    connection: Connection, definitions: Mapping[str, Definition]
) -> dict[str, list[str]]:
    """Return which of a type's tables are not there, by the type's name."""
    there = {*inspect(connection).get_table_names()}
    missing = {}
    for name, definition in definitions.items():
        tables = [definition.table.name, *(table.name for table in definition.tables)]
        if definition.has_words:
            tables.append(words_table(definition.tables).strip('"'))
        missing[name] = [table for table in tables if table not in there]
    return missing


def _check_type(faults: Faults, connection: Connection, definition: Definition, quick: bool) -> int:
    count = 0
    for row in _rows(connection, definition, quick):
        count += 1
        where = f"{definition.name}/{row.id}, version {row.version_id}"
        for kind in _faults_of_version(row, definition):
            faults.add(kind, where)
        if not quick and definition.stores_body:
            for kind in _faults_of_body(row, definition.name):
                faults.add(kind, where)
    for table in definition.tables:
        for pk in connection.execute(_strangers(table, definition.table)).scalars():
            faults.add("is of no version that is there", f"{table.name}: row {pk}")
    if definition.has_words:
        _check_words(faults, connection, definition)
    return count


def _rows(connection: Connection, definition: Definition, quick: bool) -> Iterator[Any]:
    """Yield each version in the order of the table, with its neighbours."""
    table = definition.table
    other = table.alias()
    same = other.c.id == table.c.id
    # Both are answered by the index on (id, version_id) alone.
    following = (
        select(other.c.pk)
        .where(same, other.c.version_id > table.c.version_id)
        .order_by(other.c.version_id)
        .limit(1)
        .scalar_subquery()
        .label("next_pk")
    )
    before = (
        select(func.max(other.c.version_id))
        .where(same, other.c.version_id < table.c.version_id)
        .scalar_subquery()
        .label("version_before")
    )
    names = ["pk", "id", "version_id", "last_updated", "is_current", "deleted", "replaced_pk"]
    if not quick and definition.stores_body:
        names.append("body")
    query = select(*(table.c[name] for name in names), following, before)
    if "data" in table.c:
        query = query.add_columns(
            table.c.size, func.coalesce(func.length(table.c.data), 0).label("length")
        )
    return iter(connection.execute(query.order_by(table.c.pk), execution_options=_STREAMED))


def _faults_of_version(row: Any, definition: Definition) -> Iterator[str]:
    """Yield what is wrong with a version's number, marks and successor."""
    # A view has the numbers of those versions of its source that are in it.
    if definition.view is None and row.version_id != (row.version_before or 0) + 1:
        yield f"follows version {row.version_before or 0}"
    if row.version_id < 1:
        yield "has a number below 1"
    if row.replaced_pk != row.next_pk:
        yield "does not point to the version after it"
    if row.is_current != (row.next_pk is None and not row.deleted):
        yield "is marked as current and is not" if row.is_current else "is not marked as current"
    if "size" in row._fields and not row.deleted and row.size != row.length:
        yield "has another size than it has bytes"


def _faults_of_body(row: Any, name: str) -> Iterator[str]:
    """Yield what is wrong with a version's body."""
    if row.deleted:
        if row.body is not None:
            yield "is deleted and has a body"
        return
    if row.body is None:
        yield "has no body"
        return
    try:
        resource = orjson.loads(row.body)
        stated = (resource["resourceType"], resource["id"], *_stated(resource["meta"]))
    except (ValueError, KeyError, TypeError):
        yield "has a body that cannot be read"
        return
    if stated != (name, row.id, str(row.version_id), row.last_updated):
        yield "has the body of another"


def _stated(meta: Mapping[str, Any]) -> tuple[Any, Any]:
    return meta["versionId"], meta["lastUpdated"]


def _strangers(table: Table, versions: Table) -> Any:
    """Return the SELECT of index rows whose version is not there, or is a deletion."""
    live = select(versions.c.pk).where(versions.c.pk == table.c.pk, ~versions.c.deleted)
    return select(table.c.pk).where(~live.exists()).order_by(table.c.pk)


def _check_words(faults: Faults, connection: Connection, definition: Definition) -> None:
    """Check that each version that is no deletion has its words, and nothing else has any."""
    name = words_table(definition.tables).strip('"')
    # FTS5 keeps a row for each document beside its index, which holds no content of its own.
    is_sqlite = connection.dialect.name == "sqlite"
    listed = f'SELECT id AS pk FROM "{name}_docsize"' if is_sqlite else f'SELECT pk FROM "{name}"'
    versions = definition.sql_table
    strangers = (
        f"SELECT k.pk FROM ({listed}) k WHERE NOT EXISTS"
        f" (SELECT 1 FROM {versions} r WHERE r.pk = k.pk AND NOT r.deleted)"
    )
    wordless = (
        f"SELECT r.pk FROM {versions} r WHERE NOT r.deleted AND NOT EXISTS"
        f" (SELECT 1 FROM ({listed}) k WHERE k.pk = r.pk)"
    )
    for pk in connection.exec_driver_sql(strangers).scalars():
        faults.add("is of no version that is there", f"{name}: row {pk}")
    for pk in connection.exec_driver_sql(wordless).scalars():
        faults.add("has no words", f"{definition.table.name}: row {pk}")


def _check_view(
    faults: Faults, connection: Connection, definition: Definition, source: Definition
) -> None:
    """Check that each version of a view has its source's number and time."""
    seen, table = definition.table.c, source.table.c
    same = (table.id == seen.id) & (table.version_id == seen.version_id)
    there = select(table.pk).where(same, table.last_updated == seen.last_updated)
    query = select(seen.id, seen.version_id).where(~there.exists())
    for id_, version_id in connection.execute(query, execution_options=_STREAMED):
        where = f"{definition.name}/{id_}, version {version_id}"
        faults.add(f"has no such version of {source.name} behind it", where)


def _check_attached(
    faults: Faults, connection: Connection, definition: Definition, binary: Definition
) -> None:
    """Check that the rows of Binary that versions point to are there, and are the right ones."""
    table = definition.table.c
    query = select(table.id, table.version_id, table.attached).where(table.attached.is_not(None))
    versions = connection.execute(query, execution_options=_STREAMED)
    for rows in versions.partitions(_BATCH):
        wanted = {pk for row in rows for pk in row.attached.values()}
        held = select(binary.table.c.pk, binary.table.c.id).where(
            binary.table.c.pk.in_(sorted(wanted)), ~binary.table.c.deleted
        )
        ids = {row.pk: row.id for row in connection.execute(held)}
        for row in rows:
            for binary_id, pk in row.attached.items():
                if ids.get(pk) != binary_id:
                    where = f"{definition.name}/{row.id}, version {row.version_id}"
                    faults.add("points to a Binary that is not there", where)
