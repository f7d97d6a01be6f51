"""Check a whole database: the file, the versions of each resource, and the search index.

The check reads one snapshot, so the server goes on, and its memory does not grow with the
database. decisions §5 has the rules for versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, Select, column, func, inspect, select
from sqlalchemy import table as table_named
from sqlalchemy.exc import DatabaseError

from fhirapp.config import settings
from fhirapp.db import is_busy
from fhirapp.db.sqlite_file import integrity_faults, key_faults
from fhirapp.definition import Definition
from fhirapp.search.fulltext import words_table
from fhirapp.search.index import DateRow, ReferenceRow, StringRow, TokenRow
from fhirapp.store import write
from fhirapp.store.prepare import digest_of, elements_of, sha1

# Faults of one kind that are listed.
_LISTED = 5
# Versions that are read at a time.
_BATCH = 500
# Raised by reading or rendering a row that has a value of the wrong kind in a column.
_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError)


class Depth(IntEnum):
    """How much is checked; each depth includes the one before."""

    # The pages of SQLite's file, and each version's number, marks, successor and attachments.
    QUICK = 1
    # SQLite's indexes against their rows, and whether each body is of its version.
    STRUCTURE = 2
    # Bodies, digests, index rows and words against those that the columns make.
    CONTENT = 3


_KEYS = ("pk", "id", "version_id", "last_updated", "is_current", "deleted", "replaced_pk")
# Columns that a depth reads, of those that a type has; all at the depth CONTENT.
_COLUMNS: Mapping[Depth, Sequence[str]] = {
    Depth.QUICK: (*_KEYS, "attached", "size"),
    Depth.STRUCTURE: (*_KEYS, "attached", "size", "body"),
}


class Faults:
    """Collects faults by kind: all are counted, the first of each are listed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, list[str]] = {}

    def add(self, kind: str, where: str = "") -> None:
        """Add a fault: `has no body`, of `Patient/one, version 2`."""
        self._counts[kind] += 1
        lines = self._lines.setdefault(kind, [])
        if len(lines) < _LISTED:
            lines.append(f"{where} {kind}".strip())

    def lines(self) -> list[str]:
        """Return a sentence for each listed fault, and for each kind how many more there are."""
        lines = []
        for kind, listed in self._lines.items():
            lines += listed
            if (more := self._counts[kind] - _LISTED) > 0:
                lines.append(f"… and {more} more: {kind}")
        return lines


@dataclass(frozen=True)
class Checked:
    """How many versions of resources were checked, and a sentence for each fault."""

    versions: int
    faults: list[str]


def check_database(
    engine: Engine, definitions: Mapping[str, Definition], depth: Depth, *, is_copy: bool = False
) -> Checked:
    """Check the file, and the versions of these types. Raises DatabaseError if it is busy.

    The full text of a copy, which may be written to, is also checked by FTS5 itself.
    """
    faults, count = Faults(), 0
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if not is_sqlite:
            connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            # A mapped file would count as memory of this process in the end.
            connection.exec_driver_sql("PRAGMA mmap_size = 0")
            run = connection.exec_driver_sql
            with _unreadable_added(faults, "SQLite"):
                for fault in integrity_faults(run, quick=depth is Depth.QUICK) + key_faults(run):
                    faults.add(fault)
        tables = {*inspect(connection).get_table_names()}
        for name, definition in definitions.items():
            if definition.table.name not in tables:
                # The type is new: the next start makes its tables.
                continue
            missing = [table for table in _index_tables(definition) if table not in tables]
            for table in missing:
                faults.add(f"the table {table} is missing")
            if not missing:
                # After an error PostgreSQL takes no other query until it is rolled back.
                savepoint = nullcontext() if is_sqlite else connection.begin_nested()
                with _unreadable_added(faults, name), savepoint:
                    checker = VersionChecker(connection, definition, definitions, depth, faults)
                    count += checker.check(is_copy=is_copy)
    return Checked(count, faults.lines())


@contextmanager
def _unreadable_added(faults: Faults, name: str) -> Iterator[None]:
    """Add a fault if the database cannot read something. Raises DatabaseError if it is busy."""
    try:
        yield
    except (DatabaseError, *_UNREADABLE) as error:
        if is_busy(error):
            raise
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        faults.add(f"cannot be read completely ({reason})", name)


def _index_tables(definition: Definition) -> list[str]:
    words = [words_table(definition.tables).strip('"')] if definition.has_words else []
    return [*(table.name for table in definition.tables), *words]


@dataclass
class VersionChecker:
    """Checks the versions of one type, with their index rows and words."""

    connection: Connection
    definition: Definition
    definitions: Mapping[str, Definition]
    depth: Depth
    faults: Faults
    # False if some versions could not be rendered: then their words are not known.
    all_rendered: bool = True

    def __post_init__(self) -> None:
        self.table = self.definition.table
        self.binary = self.definitions["Binary"]
        view = self.definition.view
        self.source = self.definitions[view.source] if view else None
        stored = write.stored_rendering(self.connection)
        self.rendering = stored or write.Rendering.of(settings())
        # A start makes the index rows and words of an older release anew: they are no fault.
        self.is_outdated = write.is_outdated(self.connection)
        # The words that the versions should have: how many, and two sums over them.
        self.words = Counter(count=0, pks=0, letters=0)

    def check(self, *, is_copy: bool) -> int:
        """Check everything of the type; return how many of its versions could be read."""
        count = 0
        for rows in self._batches():
            count += len(rows)
            for row in rows:
                for kind in self._version_faults(row):
                    self._add(row, kind)
            if "attached" in self.table.c:
                self._check_attachments(rows)
            if self.depth is Depth.CONTENT:
                self._check_content([row for row in rows if not row["deleted"]])
        if not self.is_outdated:
            self._check_owners()
            is_fts5 = self.definition.has_words and self.connection.dialect.name == "sqlite"
            if self.depth is Depth.CONTENT and is_fts5 and self.all_rendered:
                self._check_words(is_copy=is_copy)
        return count

    def _add(self, row: Mapping[str, Any], kind: str) -> None:
        self.faults.add(kind, f"{self.definition.name}/{row['id']}, version {row['version_id']}")

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the versions that can be read, in the order of the table."""
        query, pk = self._query(), self.table.c.pk
        # The bytes of a Binary may be many: then one row at a time.
        limit = 1 if "data" in self.table.c and self.depth is Depth.CONTENT else _BATCH
        numbers = select(pk).order_by(pk).limit(limit)
        last = 0
        while pks := self.connection.scalars(numbers.where(pk > last)).all():
            last = pks[-1]
            yield self._read(query, pks)

    def _read(self, query: Select[Any], pks: Sequence[int]) -> list[dict[str, Any]]:
        """Return the versions in these rows that can be read, and add a fault for the others."""
        pk = self.table.c.pk
        try:
            rows = self.connection.execute(query.where(pk.between(pks[0], pks[-1])))
            return [dict(row) for row in rows.mappings()]
        except _UNREADABLE:
            if len(pks) > 1:
                return [row for number in pks for row in self._read(query, [number])]
            self.faults.add("has a column that is not JSON", f"{self.table.name}: row {pks[0]}")
            self.all_rendered = False
            return []

    def _query(self) -> Select[Any]:
        """Return the SELECT of the versions, each with its neighbours."""
        table, other = self.table, self.table.alias().c
        same = other.id == table.c.id
        # Both are answered by the index on (id, version_id) alone.
        following = select(other.pk).where(same, other.version_id > table.c.version_id)
        following = following.order_by(other.version_id).limit(1)
        before = select(func.max(other.version_id))
        before = before.where(same, other.version_id < table.c.version_id)
        names = _COLUMNS.get(self.depth, table.c.keys())
        query = select(
            *(table.c[name] for name in names if name in table.c),
            following.scalar_subquery().label("next_pk"),
            before.scalar_subquery().label("version_before"),
        )
        if "data" in table.c:
            query = query.add_columns(func.coalesce(func.length(table.c.data), 0).label("length"))
        if self.source:
            source = self.source.table.c
            keys = ("id", "version_id", "last_updated")
            origin = select(source.pk).where(*(source[key] == table.c[key] for key in keys))
            query = query.add_columns(origin.exists().label("has_source"))
        return query.order_by(table.c.pk)

    def _version_faults(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a version's number, marks, successor, size and body."""
        # A view has the numbers of those versions of its source that are in it.
        if self.source is None and row["version_id"] != (row["version_before"] or 0) + 1:
            yield f"follows version {row['version_before'] or 0}"
        if row["version_id"] < 1:
            yield "has a number below 1"
        if row["replaced_pk"] != row["next_pk"]:
            yield "does not point to the version after it"
        should_be_current = row["next_pk"] is None and not row["deleted"]
        if row["is_current"] and not should_be_current:
            yield "is wrongly marked as current"
        if should_be_current and not row["is_current"]:
            yield "is not marked as current"
        if "data" in self.table.c and not row["deleted"] and row["size"] != row["length"]:
            yield "has a size that differs from its data"
        if self.source and not row["has_source"]:
            yield f"has no matching version of {self.source.name}"
        if self.depth >= Depth.STRUCTURE and self.definition.stores_body:
            yield from self._body_faults(row)

    def _body_faults(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a version's body, without rendering it."""
        body = row["body"]
        if row["deleted"]:
            if body is not None:
                yield "is deleted and has a body"
            return
        if body is None:
            yield "has no body"
            return
        try:
            resource = orjson.loads(body)
            name, meta = resource["resourceType"], resource["meta"]
            stated = (name, resource["id"], meta["versionId"], meta["lastUpdated"])
        except _UNREADABLE:
            yield "has a body that cannot be read"
            return
        own = (row["id"], str(row["version_id"]), row["last_updated"])
        if stated != (self.definition.name, *own):
            yield "has the body of another version"

    def _check_attachments(self, rows: Sequence[dict[str, Any]]) -> None:
        """Check that each attachment's row is of a Binary with the attachment's id."""
        attached = [(row, row["attached"]) for row in rows if row["attached"]]
        pks = sorted({pk for _, rows_by_id in attached for pk in rows_by_id.values()})
        binary = self.binary.table.c
        query = select(binary.pk, binary.id).where(binary.pk.in_(pks), ~binary.deleted)
        ids = {row.pk: row.id for row in self.connection.execute(query)} if pks else {}
        for row, rows_by_id in attached:
            for binary_id, pk in rows_by_id.items():
                if ids.get(pk) != binary_id:
                    self._add(row, "points to a Binary that does not exist")

    def _check_content(self, rows: Sequence[dict[str, Any]]) -> None:
        """Render versions, none a deletion, again, and compare them with what is stored."""
        documents = write.documents_of(self.connection, self.rendering, rows)
        index = write.IndexBatch(self.definition)
        rendered_pks = []
        for row in rows:
            rendered = dict(row)
            try:
                write.render(self.definition, rendered, self.rendering, documents, index)
            except _UNREADABLE as error:
                self._add(row, f"cannot be rendered ({type(error).__name__})")
                self.all_rendered = False
                continue
            rendered_pks.append(row["pk"])
            if self.definition.stores_body and row["body"] != rendered["body"]:
                self._add(row, "has a body that differs from its columns")
            if self.definition is self.binary:
                if row["hash"] != sha1(row["data"] or b""):
                    self._add(row, "has a hash that differs from its data")
                continue
            if row["digest"] != digest_of(self.definition, elements_of(self.definition, row)):
                self._add(row, "has a digest that differs from its columns")
        if rendered_pks and not self.is_outdated:
            self._compare_index(index, rendered_pks)
        for pk, *texts in index.words:
            words = " ".join(texts).split()
            letters = sum(map(len, words))
            self.words.update(count=len(words), pks=pk * len(words), letters=letters)

    def _compare_index(self, index: write.IndexBatch, pks: Sequence[int]) -> None:
        """Compare the stored index rows of versions with those that their columns make."""
        for kind in (TokenRow, DateRow, ReferenceRow, StringRow):
            table = self.definition.tables.of(kind)
            query = select(table).where(table.c.pk.between(pks[0], pks[-1]))
            stored = {(*values, pk) for pk, *values in self.connection.execute(query)}
            differing = {pk for *_, pk in stored ^ {*index.rows[kind]}}
            for pk in sorted(differing.intersection(pks)):
                where = f"{table.name}: row {pk}"
                self.faults.add("has index rows that differ from its columns", where)

    def _check_owners(self) -> None:
        """Check that index rows and words are of versions, and that no version lacks words.

        Deletions have neither.
        """
        versions = self.table.c
        owned: list[tuple[str, ColumnElement[int]]]
        owned = [(table.name, table.c.pk) for table in self.definition.tables]
        if self.definition.has_words:
            name = words_table(self.definition.tables).strip('"')
            pk: ColumnElement[int] = table_named(name, column("pk")).c.pk
            if self.connection.dialect.name == "sqlite":
                # FTS5 has a row for each document beside its index, which has no content.
                pk = table_named(f"{name}_docsize", column("id")).c.id
            owned.append((name, pk))
            words = select(pk).where(pk == versions.pk)
            wordless = select(versions.pk).where(~versions.deleted, ~words.exists())
            for number in self.connection.scalars(wordless):
                self.faults.add("has no words", f"{self.table.name}: row {number}")
        for name, pk in owned:
            owner = select(versions.pk).where(versions.pk == pk, ~versions.deleted)
            for number in self.connection.scalars(select(pk).where(~owner.exists()).order_by(pk)):
                self.faults.add("belongs to no version", f"{name}: row {number}")

    def _check_words(self, *, is_copy: bool) -> None:
        """Check that FTS5's index is whole, and has the words that the versions should have."""
        name = words_table(self.definition.tables)
        shown = name.strip('"')
        run = self.connection.exec_driver_sql
        try:
            if is_copy:
                run(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
            # The end of the transaction, which is rolled back, drops it.
            run(f"CREATE VIRTUAL TABLE temp.{shown}_seen USING fts5vocab(main, {name}, instance)")
            stored = run(
                "SELECT count(*), coalesce(sum(doc), 0), coalesce(sum(length(term)), 0)"
                f" FROM temp.{shown}_seen"
            ).one()
        except DatabaseError:
            self.faults.add("is damaged; `fhirapp db reindex` rebuilds it", shown)
            return
        if [*stored] != [*self.words.values()]:
            self.faults.add(
                "has words that differ from the records; `fhirapp db reindex` rebuilds it", shown
            )
