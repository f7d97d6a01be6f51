"""The stage of an import: all its records, in a temporary SQLite file, before any is published.

Contents of one id form a group, of which the last counts. The file lies in the instance folder and
is deleted with the import. Its tables are no models, and each record is written and read once:
hence the sqlite3 module and SQL by hand.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.disk import human_size
from fhirapp.features.imports.bundles import OnMatch
from fhirapp.features.imports.records import Faults, ImportRecord, Rejection
from fhirapp.fhir import json as fhir_json

# text and content are NULL where both are the same, content of a deletion too. key is what records
# of one resource share: its id, or the condition of an update; NULL of a conditional creation, of
# which the first counts. head is the number of the group's first record, negative where the group's
# last record is a deletion.
_TABLES = """
CREATE TABLE record (
    number INTEGER PRIMARY KEY, type TEXT, id TEXT, key TEXT, head INTEGER, kind TEXT, content BLOB,
    text BLOB, place TEXT, bundle INTEGER, grouped INTEGER, condition TEXT, on_match TEXT,
    bundle_type TEXT, table_kind TEXT, heading BLOB, defaults TEXT
);
CREATE TABLE address (
    bundle INTEGER, full_url TEXT, target TEXT, condition TEXT, PRIMARY KEY (bundle, full_url)
) WITHOUT ROWID;
CREATE TABLE rejection (
    number INTEGER, place TEXT, type TEXT, faults TEXT, follows INTEGER, line BLOB,
    table_kind TEXT, heading BLOB
);
CREATE TABLE seen (type TEXT, id TEXT, PRIMARY KEY (type, id)) WITHOUT ROWID;
"""
_GROUPS = """
CREATE INDEX record_key ON record (type, key);
UPDATE record SET head = (
    SELECT min(number) FROM record AS first
    WHERE first.type = record.type AND first.key = record.key
)
WHERE (type, key) IN (SELECT type, key FROM record GROUP BY type, key HAVING count(*) > 1);
CREATE INDEX record_turn ON record (type, head, number);
CREATE INDEX record_id ON record (id);
"""
_DELETED_GROUPS = """
UPDATE record SET head = -head WHERE (type, head) IN (
    SELECT type, head FROM (
        SELECT type, head, kind, max(number), sum(kind = 'history') AS histories
        FROM record GROUP BY type, head
    ) WHERE kind = 'deletion' AND NOT histories
)
"""
_COLUMNS = (
    "number, type, id, head, kind, content, text, place, bundle, grouped, condition, on_match,"
    " bundle_type, table_kind, heading, defaults"
)
RESOURCE, DELETION, HISTORY = "resource", "deletion", "history"
_PAGE_BYTES, _CACHE_KIB = 4_096, 16_384
# Stays free for the database, and for others on the disk.
_SPARE_BYTES = 64_000_000

Group = Iterator[ImportRecord]


class Stage(AbstractContextManager["Stage"]):
    """The records of one import. folder is where the file lies.

    Each method raises ConfigurationError where the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._room = shutil.disk_usage(folder).free - _SPARE_BYTES
        self._connection = sqlite3.connect(folder / "stage.db", isolation_level=None)
        self._connection.executescript(
            f"PRAGMA page_size = {_PAGE_BYTES}; PRAGMA cache_size = -{_CACHE_KIB};"
            f"PRAGMA max_page_count = {max(self._room // _PAGE_BYTES, 64)};"
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA locking_mode = EXCLUSIVE;"
            f"{_TABLES}"
        )
        # One transaction for all: nothing here outlives the import.
        self._connection.execute("BEGIN")
        self._records = self._bundles = 0
        self._consequence = "Nothing was imported."
        # Bytes of the resources that were staged.
        self.size = 0

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    @property
    def records(self) -> int:
        """The number of the last record that was staged or rejected."""
        return self._records

    def need_room(self, size: int) -> None:
        """Check that so many bytes can be staged. Raises ConfigurationError."""
        if size > self._room:
            raise self._full(f"{human_size(size)} are needed, {human_size(self._room)} are free")

    def _full(self, reason: str) -> ConfigurationError:
        return ConfigurationError(
            f"There is no room on the disk to read the records into {self._folder.parent}"
            f" ({reason}): make room, or import in parts. {self._consequence}"
        )

    # Filled as the inputs are read.

    def add(self, kind: str, name: str, record: ImportRecord, content: bytes | None) -> None:
        """Add a record of a resource, Type/id; content is its JSON, None of a deletion."""
        type_name, _, resource_id = name.partition("/")
        self.size += len(content or b"")
        self._records += 1
        values = (
            self._records,
            type_name,
            resource_id,
            _key(resource_id, record),
            self._records,
            kind,
            content if content != record.text else None,
            record.text,
            record.place,
            record.bundle,
            record.grouped,
            record.condition,
            record.on_match.value,
            record.bundle_type,
            record.table_kind,
            record.heading,
            " ".join(sorted(record.defaults)),
        )
        self._write(f"INSERT INTO record VALUES ({', '.join('?' * len(values))})", values)

    def new_bundle(self) -> int:
        """Return the number of a Bundle that begins: 1, 2, …"""
        self._bundles += 1
        return self._bundles

    def add_address(self, bundle: int, full_url: str, target: str, condition: str) -> None:
        """Note that a Bundle entry is the resource Type/id, or the one that its condition finds.

        For entries with the same address, the first counts.
        """
        self._write(
            "INSERT OR IGNORE INTO address VALUES (?, ?, ?, ?)",
            (bundle, _comparable(full_url), target, condition),
        )

    def arrange(self) -> None:
        """Form the groups: all records have been added."""
        for statement in _GROUPS.strip().rstrip(";").split(";\n"):
            self._write(statement)
        if self._connection.execute("SELECT 1 FROM record WHERE kind = 'deletion'").fetchone():
            self._write(_DELETED_GROUPS)
        self._consequence = "What was imported stays; import everything again."

    def _write(self, statement: str, values: Sequence[object] = ()) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise self._full(str(error)) from None

    # Read as they are published.

    def types(self) -> set[str]:
        """Return the types of the records."""
        return {row[0] for row in self._connection.execute("SELECT DISTINCT type FROM record")}

    def groups(self, type_name: str) -> Iterator[Group]:
        """Yield the groups of a type in the order of their first records; no deletions."""
        where = "WHERE type = ? AND head > 0 ORDER BY head, number"
        return _grouped(self._select(where, (type_name,)))

    def deletions(self, type_name: str) -> Iterator[Group]:
        """Yield the groups of a type that end in a deletion."""
        where = "WHERE type = ? AND head < 0 ORDER BY head DESC, number"
        return _grouped(self._select(where, (type_name,)))

    def group(self, type_name: str, head: int) -> Group:
        """Yield the records of a group."""
        return self._select("WHERE type = ? AND head = ? ORDER BY number", (type_name, head))

    def numbered(self, numbers: Iterable[int]) -> Iterator[ImportRecord]:
        """Yield the records with these numbers."""
        for number in numbers:
            yield from self._select("WHERE number = ?", (number,))

    def is_deleted_after(self, name: str, number: int) -> bool:
        """Say whether the last record of a resource, Type/id, is a later one that deletes it."""
        found = "SELECT 1 FROM record WHERE type = ? AND key = ? AND head < 0 AND number > ?"
        values = (*name.split("/", 1), number)
        return self._connection.execute(found, values).fetchone() is not None

    def _select(self, where: str, values: Sequence[object]) -> Iterator[ImportRecord]:
        for (
            number,
            type_name,
            resource_id,
            head,
            kind,
            content,
            text,
            place,
            bundle,
            grouped,
            condition,
            on_match,
            bundle_type,
            table_kind,
            heading,
            defaults,
        ) in self._connection.execute(f"SELECT {_COLUMNS} FROM record {where}", values):
            is_deletion = kind == DELETION
            content = text if content is None else content
            resource = None
            faults: Faults = ()
            try:
                resource = None if is_deletion else fhir_json.loads(content)
            except ValueError as error:
                # A member that stands twice: it is found now that all is read to the digit.
                faults = (("", f"is not JSON: {error}"),)
            yield ImportRecord(
                place,
                text,
                resource,
                faults=faults,
                deletes=f"{type_name}/{resource_id}" if is_deletion else "",
                bundle=bundle,
                grouped=bool(grouped),
                condition=condition,
                on_match=OnMatch(on_match),
                bundle_type=bundle_type,
                table_kind=table_kind,
                heading=heading,
                defaults=frozenset(defaults.split()),
                number=number,
                head=head,
                content=content or b"",
            )

    def has(self, name: str) -> bool:
        """Say whether a resource, Type/id, is among the records."""
        found = "SELECT 1 FROM record WHERE type = ?1 AND (key = ?2 OR id = ?2)"
        return self._connection.execute(found, name.split("/", 1)).fetchone() is not None

    def target(self, bundle: int, full_url: str) -> tuple[str, str] | None:
        """Return Type/id and the condition of the entry with this address."""
        entry: tuple[str, str] | None = self._connection.execute(
            "SELECT target, condition FROM address WHERE bundle = ? AND full_url = ?",
            (bundle, _comparable(full_url)),
        ).fetchone()
        return entry

    # Rejected records.

    def reject(self, number: int, rejection: Rejection) -> None:
        """Keep a rejected record; number is 0 for one that was not staged."""
        if not number:
            self._records += 1
        place, type_name, faults, *others = rejection
        values = (number or self._records, place, type_name, json.dumps(faults), *others)
        self._write("INSERT INTO rejection VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def rejections(self) -> Iterator[Rejection]:
        """Yield the rejected records in the order in which they came."""
        rows = self._connection.execute("SELECT * FROM rejection ORDER BY number")
        for _, place, type_name, faults, follows, *others in rows:
            pairs = [(path, message) for path, message in json.loads(faults)]
            yield Rejection(place, type_name, pairs, bool(follows), *others)

    # What the source still has, beside the records: what conditions found.

    def add_seen(self, name: str) -> None:
        """Note a resource, Type/id, that the source still has."""
        self._write("INSERT OR IGNORE INTO seen VALUES (?, ?)", name.split("/", 1))

    def unseen(self, type_name: str, ids: Sequence[str]) -> list[str]:
        """Return which of these the source does not have any more, in their order."""
        seen = (
            "SELECT 1 FROM seen WHERE type = ?1 AND id = ?2"
            " UNION ALL SELECT 1 FROM record WHERE type = ?1 AND key = ?2 LIMIT 1"
        )
        return [
            resource_id
            for resource_id in ids
            if not self._connection.execute(seen, (type_name, resource_id)).fetchone()
        ]


def _grouped(records: Iterator[ImportRecord]) -> Iterator[Group]:
    return (group for _, group in groupby(records, lambda record: record.head))


def _key(resource_id: str, record: ImportRecord) -> str | None:
    if not record.condition or record.grouped:
        return resource_id or None
    return record.condition if record.on_match is OnMatch.UPDATE else None


def _comparable(full_url: str) -> str:
    """Return an address as it is compared: UUIDs and OIDs in any case. RFC 8141 §3, RFC 9562 §4"""
    lower = full_url.lower()
    return lower if lower.startswith(("urn:uuid:", "urn:oid:")) else full_url
