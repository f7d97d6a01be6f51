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
# which the first counts. group_number is the number of the group's first record, negative where its
# last record is a deletion.
_TABLES = """
CREATE TABLE record (
    number INTEGER PRIMARY KEY, type TEXT, id TEXT, key TEXT, group_number INTEGER, kind TEXT,
    content BLOB, text BLOB, place TEXT, container INTEGER, is_converted INTEGER, condition TEXT,
    on_match TEXT, bundle_type TEXT, table_kind TEXT, heading BLOB, defaults TEXT
);
CREATE TABLE address (
    container INTEGER, full_url TEXT, target TEXT, condition TEXT,
    PRIMARY KEY (container, full_url)
) WITHOUT ROWID;
CREATE TABLE rejection (
    number INTEGER, place TEXT, type TEXT, faults TEXT, with_patient INTEGER, line BLOB,
    table_kind TEXT, heading BLOB
);
CREATE TABLE present (type TEXT, id TEXT, PRIMARY KEY (type, id)) WITHOUT ROWID;
"""
_GROUPS = (
    "CREATE INDEX record_key ON record (type, key)",
    """
UPDATE record SET group_number = (
    SELECT min(number) FROM record AS first
    WHERE first.type = record.type AND first.key = record.key
)
WHERE (type, key) IN (SELECT type, key FROM record GROUP BY type, key HAVING count(*) > 1)
""",
    "CREATE INDEX record_group ON record (type, group_number, number)",
    "CREATE INDEX record_id ON record (id)",
)
_DELETED_GROUPS = """
UPDATE record SET group_number = -group_number WHERE (type, group_number) IN (
    SELECT type, group_number FROM (
        SELECT type, group_number, kind, max(number), sum(kind = 'history') AS histories
        FROM record GROUP BY type, group_number
    ) WHERE kind = 'deletion' AND NOT histories
)
"""
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
        self._records = self._containers = 0
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
            record.container,
            record.is_converted,
            record.condition,
            record.on_match.value,
            record.bundle_type,
            record.table_kind,
            record.heading,
            " ".join(sorted(record.defaults)),
        )
        self._write(f"INSERT INTO record VALUES ({', '.join('?' * len(values))})", values)

    def new_container(self) -> int:
        """Return the number of a Bundle, document or row that begins: 1, 2, …"""
        self._containers += 1
        return self._containers

    def add_address(self, container: int, full_url: str, target: str, condition: str) -> None:
        """Note that a Bundle entry is the resource Type/id, or the one that its condition finds.

        For entries with the same address, the first counts.
        """
        self._write(
            "INSERT OR IGNORE INTO address VALUES (?, ?, ?, ?)",
            (container, _comparable(full_url), target, condition),
        )

    def arrange(self) -> None:
        """Form the groups: all records have been added."""
        for statement in _GROUPS:
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
        where = "WHERE type = ? AND group_number > 0 ORDER BY group_number, number"
        return _grouped(self._select(where, (type_name,)))

    def deletions(self, type_name: str) -> Iterator[Group]:
        """Yield the groups of a type that end in a deletion."""
        where = "WHERE type = ? AND group_number < 0 ORDER BY group_number DESC, number"
        return _grouped(self._select(where, (type_name,)))

    def group(self, type_name: str, group_number: int) -> Group:
        """Yield the records of a group."""
        where = "WHERE type = ? AND group_number = ? ORDER BY number"
        return self._select(where, (type_name, group_number))

    def numbered(self, numbers: Iterable[int]) -> Iterator[ImportRecord]:
        """Yield the records with these numbers."""
        for number in numbers:
            yield from self._select("WHERE number = ?", (number,))

    def is_deleted_after(self, name: str, number: int) -> bool:
        """Say whether the last record of a resource, Type/id, is a later one that deletes it."""
        found = (
            "SELECT 1 FROM record WHERE type = ? AND key = ? AND group_number < 0 AND number > ?"
        )
        values = (*name.split("/", 1), number)
        return self._connection.execute(found, values).fetchone() is not None

    def _select(self, where: str, values: Sequence[object]) -> Iterator[ImportRecord]:
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        for row in cursor.execute(f"SELECT * FROM record {where}", values):
            name = f"{row['type']}/{row['id']}"
            content = row["text"] if row["content"] is None else row["content"]
            resource = None
            faults: Faults = ()
            if row["kind"] != DELETION:
                try:
                    resource = fhir_json.loads(content)
                except ValueError as error:
                    # A member that stands twice: it is found now that all is read to the digit.
                    faults = (("", f"is not JSON: {error}"),)
            yield ImportRecord(
                row["place"],
                row["text"],
                resource,
                faults=faults,
                deletes=name if row["kind"] == DELETION else "",
                container=row["container"],
                is_converted=bool(row["is_converted"]),
                condition=row["condition"],
                on_match=OnMatch(row["on_match"]),
                bundle_type=row["bundle_type"],
                table_kind=row["table_kind"],
                heading=row["heading"],
                defaults=frozenset(row["defaults"].split()),
                number=row["number"],
                group_number=row["group_number"],
                content=content or b"",
            )

    def has(self, name: str) -> bool:
        """Say whether a resource, Type/id, is among the records."""
        found = "SELECT 1 FROM record WHERE type = ?1 AND (key = ?2 OR id = ?2)"
        return self._connection.execute(found, name.split("/", 1)).fetchone() is not None

    def target(self, container: int, full_url: str) -> tuple[str, str] | None:
        """Return Type/id and the condition of the entry with this address."""
        entry: tuple[str, str] | None = self._connection.execute(
            "SELECT target, condition FROM address WHERE container = ? AND full_url = ?",
            (container, _comparable(full_url)),
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
        for _, place, type_name, faults, with_patient, *others in rows:
            pairs = [(path, message) for path, message in json.loads(faults)]
            yield Rejection(place, type_name, pairs, bool(with_patient), *others)

    # What the source still has, beside the records: what conditions found.

    def add_present(self, name: str) -> None:
        """Note a resource, Type/id, that the source still has."""
        self._write("INSERT OR IGNORE INTO present VALUES (?, ?)", name.split("/", 1))

    def absent(self, type_name: str, ids: Sequence[str]) -> list[str]:
        """Return which of these the source does not have any more, in their order."""
        present = (
            "SELECT 1 FROM present WHERE type = ?1 AND id = ?2"
            " UNION ALL SELECT 1 FROM record WHERE type = ?1 AND key = ?2 LIMIT 1"
        )
        return [
            resource_id
            for resource_id in ids
            if not self._connection.execute(present, (type_name, resource_id)).fetchone()
        ]


def _grouped(records: Iterator[ImportRecord]) -> Iterator[Group]:
    return (group for _, group in groupby(records, lambda record: record.group_number))


def _key(resource_id: str, record: ImportRecord) -> str | None:
    if not record.condition or record.is_converted:
        return resource_id or None
    return record.condition if record.on_match is OnMatch.UPDATE else None


def _comparable(full_url: str) -> str:
    """Return an address as it is compared: UUIDs and OIDs in any case. RFC 8141 §3, RFC 9562 §4"""
    lower = full_url.lower()
    return lower if lower.startswith(("urn:uuid:", "urn:oid:")) else full_url
