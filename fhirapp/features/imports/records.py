"""Records: what the inputs hold, one resource or deletion each, and what a run keeps of them.

What is kept is on disk beyond a few megabytes, and deleted with the run. Its tables are no models
and most lookups are made for every resource: hence the sqlite3 module and SQL by hand.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from fhirapp.features.imports.bundles import OnMatch
from fhirapp.fhir import json as fhir_json

# (path of the element, what is expected); the path is empty for the whole.
Faults = list[tuple[str, str]]
_TABLES = """
CREATE TABLE deferred (
    number INTEGER PRIMARY KEY, reason TEXT, name TEXT, place TEXT, content BLOB, bundle INTEGER,
    condition TEXT, on_match TEXT, references_checked INTEGER, grouped INTEGER, text BLOB,
    bundle_type TEXT, table_kind TEXT, heading BLOB, defaults TEXT
);
CREATE INDEX deferred_name ON deferred (name);
CREATE TABLE address (
    bundle INTEGER, full_url TEXT, target TEXT, condition TEXT, PRIMARY KEY (bundle, full_url)
) WITHOUT ROWID;
CREATE TABLE patient_of (name TEXT PRIMARY KEY, patient TEXT) WITHOUT ROWID;
CREATE TABLE published (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE seen (type TEXT, id TEXT, PRIMARY KEY (type, id)) WITHOUT ROWID;
"""
_COLUMNS = (
    "name, place, content, bundle, condition, on_match, references_checked, grouped, text,"
    " bundle_type, table_kind, heading, defaults"
)
_CACHE_KIB = 4_096
# Why a record is deferred: for a reference, or because an earlier version has its content.
REFERENCE, OLDER = "reference", "older"


class Rejected(Exception):
    """A record that is not imported; faults are (element path, what is expected)."""

    def __init__(
        self, message: str = "", path: str = "", *, faults: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.faults = faults or [(path, message)]


class PatientRejected(Rejected):
    """A record that is rejected because its patient is."""


@dataclass
class ImportRecord:
    """What an input holds at one place: a resource, a deletion, or faults.

    text is what came, resource its content, where parsed or made from another format. bundle is the
    number of its Bundle, entry_id the id that it gets there, condition and on_match as in
    BundleEntry.
    """

    place: str
    text: bytes = b""
    resource: Any = None
    # Type/id of a deletion.
    deletes: str = ""
    faults: Faults = field(default_factory=list)
    bundle: int = 0
    entry_id: str | None = None
    # It was made, with others, from one document or row: without its patient none is imported.
    grouped: bool = False
    condition: str = ""
    on_match: OnMatch = OnMatch.UPDATE
    # The type of the Bundle that text is an entry of.
    bundle_type: str = ""
    has_prefix: bool = False
    # The kind of table that text is a row of, and its heading.
    table_kind: str = ""
    heading: bytes = b""
    # Elements of the resource that no cell of the row states.
    defaults: frozenset[str] = frozenset()
    # Remarks for the report: (place, text).
    remarks: Faults = field(default_factory=list)
    # Its id here is assigned.
    is_identified: bool = False
    was_deferred: bool = False
    # It was deferred because an earlier version has its content, and its turn has come.
    is_older: bool = False
    # Its references are known not to lead to another source's records.
    references_checked: bool = False
    # Type/id of the resource whose history it is.
    history_of: str = ""

    def size(self) -> int:
        """Return about how many bytes it takes."""
        if self.text and not self.table_kind:
            return len(self.text)
        return len(dumps(self.resource))

    def rejected_line(self) -> bytes:
        """Return it as one line of the file of rejects; an entry as a Bundle of its own."""
        text = self.text
        if self.bundle_type:
            if self.resource is not None:
                with suppress(TypeError, ValueError):
                    text = fhir_json.dumps({**fhir_json.loads(text), "resource": self.resource})
            kind = fhir_json.dumps(self.bundle_type)
            text = b'{"resourceType":"Bundle","type":%s,"entry":[%s]}' % (kind, text)
        return text.strip().replace(b"\n", b" ").replace(b"\r", b" ")

    def is_unicode(self) -> bool:
        """Say whether all its text is Unicode: neither a database nor a file takes other."""
        # JSON in UTF-8 can hold other text only by an escape.
        if not (self.table_kind or self.grouped or b"\\u" in self.text):
            return True
        try:
            fhir_json.dumps((self.resource, self.condition))
        except TypeError:
            return False
        return True

    @property
    def subject(self) -> str:
        """Type/id of what it is about."""
        return self.deletes or self.history_of or name_of(self.resource)

    @property
    def type_name(self) -> str | None:
        """The type of its resource, None where it has none."""
        type_name = self.resource.get("resourceType") if type(self.resource) is dict else None
        return type_name if type(type_name) is str else None


def name_of(resource: Mapping[str, Any]) -> str:
    """Return Type/id."""
    return f"{resource['resourceType']}/{resource.get('id')}"


def _is_bundle(resource: Any) -> bool:
    return type(resource) is dict and resource.get("resourceType") == "Bundle"


def dumps(content: Any) -> bytes:
    """Return JSON, also of what is rejected when its turn comes."""
    try:
        return fhir_json.dumps(content)
    except TypeError:
        return json.dumps(content, default=str).encode()


def _comparable(full_url: str) -> str:
    """Return an address as it is compared: UUIDs and OIDs in any case. RFC 8141 §3, RFC 9562 §4"""
    lower = full_url.lower()
    return lower if lower.startswith(("urn:uuid:", "urn:oid:")) else full_url


class Scratch(AbstractContextManager["Scratch"]):
    """The tables of one run, in a temporary database."""

    def __init__(self) -> None:
        # An empty name is a temporary file, which SQLite creates when its cache is full.
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(f"PRAGMA journal_mode = OFF; {_TABLES}")
        # One transaction for all: nothing here outlives the run.
        self._connection.execute("BEGIN")
        self._deferred = 0
        self._bundles = 0

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    # Records that wait: for a reference, or because an earlier version has their content.

    def defer(self, reason: str, name: str, content: bytes, record: ImportRecord) -> None:
        """Keep a record of a resource, Type/id, for later; of a deletion there is no content."""
        self._deferred += 1
        self._connection.execute(
            f"INSERT INTO deferred (reason, {_COLUMNS})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                reason,
                name,
                record.place,
                content,
                record.bundle,
                record.condition,
                record.on_match.value,
                # A document's ids are our own.
                record.references_checked or (record.grouped and not record.table_kind),
                record.grouped,
                # What is rejected later is kept as it came: an entry of a Bundle, or a row.
                record.text if record.bundle_type or record.table_kind else b"",
                record.bundle_type,
                record.table_kind,
                record.heading,
                " ".join(sorted(record.defaults)),
            ),
        )

    def deferral(self, name: str) -> str | None:
        """Return why the newest record of this name was deferred, None where none was."""
        if not self._deferred:
            return None
        row = self._connection.execute(
            "SELECT reason FROM deferred WHERE name = ? ORDER BY number DESC LIMIT 1", (name,)
        ).fetchone()
        return str(row[0]) if row else None

    def take_deferred(
        self, reason: str, by_name: bool = False, type_name: str = ""
    ) -> Iterator[ImportRecord]:
        """Yield what is deferred for this reason now, and forget it; with by_name, grouped.

        Of one type only where type_name has it.
        """
        last = self._connection.execute("SELECT max(number) FROM deferred").fetchone()[0] or 0
        chosen = "FROM deferred WHERE reason = ? AND number <= ? AND name LIKE ?"
        values = (reason, last, f"{type_name}/%" if type_name else "%")
        order = "name, number" if by_name else "number"
        for (
            name,
            place,
            content,
            bundle,
            condition,
            on_match,
            references_checked,
            grouped,
            text,
            bundle_type,
            table_kind,
            heading,
            defaults,
        ) in self._connection.execute(f"SELECT {_COLUMNS} {chosen} ORDER BY {order}", values):
            resource = fhir_json.loads(content) if content else None
            yield ImportRecord(
                place,
                text or content,
                resource,
                deletes="" if content else name,
                history_of=name if _is_bundle(resource) else "",
                grouped=bool(grouped),
                bundle_type=bundle_type,
                table_kind=table_kind,
                heading=heading,
                defaults=frozenset(defaults.split()),
                bundle=bundle,
                condition=condition,
                on_match=OnMatch(on_match),
                was_deferred=True,
                is_older=reason == OLDER,
                references_checked=bool(references_checked),
            )
        self._deferred -= self._connection.execute(f"DELETE {chosen}", values).rowcount

    def has_older(self, type_name: str) -> bool:
        """Say whether a record of a type waits because an earlier version has its content."""
        if not self._deferred:
            return False
        row = self._connection.execute(
            "SELECT 1 FROM deferred WHERE name >= ? AND name < ? AND reason = ? LIMIT 1",
            # "0" is the character after "/".
            (f"{type_name}/", f"{type_name}0", OLDER),
        ).fetchone()
        return row is not None

    def has_older_record(self, name: str) -> bool:
        """Say whether an earlier record of this name waits because of an earlier version."""
        row = self._connection.execute(
            "SELECT 1 FROM deferred WHERE name = ? AND reason = ? LIMIT 1", (name, OLDER)
        ).fetchone()
        return row is not None

    def count_deferred(self, reason: str) -> int:
        """Return how many wait for this reason."""
        counted = "SELECT count(*) FROM deferred WHERE reason = ?"
        return int(self._connection.execute(counted, (reason,)).fetchone()[0])

    def deferred_types(self) -> set[str]:
        """Return the types of the records that wait."""
        types = "SELECT DISTINCT substr(name, 1, instr(name, '/') - 1) FROM deferred"
        return {row[0] for row in self._connection.execute(types)}

    # Where the addresses within a Bundle lead.

    def new_bundle(self) -> int:
        """Return the number of a Bundle that begins: 1, 2, …"""
        self._bundles += 1
        return self._bundles

    def add_address(self, bundle: int, full_url: str, target: str, condition: str) -> None:
        """Note that a Bundle entry is the resource Type/id, or the one that its condition finds.

        For entries with the same address, the first counts.
        """
        self._connection.execute(
            "INSERT OR IGNORE INTO address VALUES (?, ?, ?, ?)",
            (bundle, _comparable(full_url), target, condition),
        )

    def target(self, bundle: int, full_url: str) -> tuple[str, str] | None:
        """Return Type/id and the condition of the entry with this address."""
        entry: tuple[str, str] | None = self._connection.execute(
            "SELECT target, condition FROM address WHERE bundle = ? AND full_url = ?",
            (bundle, _comparable(full_url)),
        ).fetchone()
        return entry

    # The patients of resources.

    def first_patient(self, name: str, patient_id: str) -> str:
        """Note the patient of a resource, Type/id; return the one that it came with first."""
        self._connection.execute(
            "INSERT OR IGNORE INTO patient_of VALUES (?, ?)", (name, patient_id)
        )
        first = "SELECT patient FROM patient_of WHERE name = ?"
        return str(self._connection.execute(first, (name,)).fetchone()[0])

    # The resources that the run published.

    def add_published(self, name: str) -> bool:
        """Note that a resource, Type/id, is published; False where it was already."""
        added = self._connection.execute("INSERT OR IGNORE INTO published VALUES (?)", (name,))
        return added.rowcount > 0

    def is_published(self, name: str) -> bool:
        """Say whether the run published a resource, Type/id."""
        published = "SELECT 1 FROM published WHERE name = ?"
        return self._connection.execute(published, (name,)).fetchone() is not None

    # The resources that the source still has.

    def add_seen(self, names: Sequence[tuple[str, str]]) -> None:
        """Note (type, id) of resources that came."""
        self._connection.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", names)

    def unseen(self, type_name: str, ids: Sequence[str]) -> list[str]:
        """Return which of these did not come, in their order."""
        seen = "SELECT 1 FROM seen WHERE type = ? AND id = ?"
        return [
            resource_id
            for resource_id in ids
            if not self._connection.execute(seen, (type_name, resource_id)).fetchone()
        ]
