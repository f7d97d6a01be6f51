"""What an import keeps while it runs, on disk beyond a few megabytes, and deleted with the run.

The sqlite3 module and its SQL by hand: these tables are no models, and most of the lookups are made
for every resource.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from fhirapp.exchange.imports.bundles import OnMatch
from fhirapp.exchange.imports.records import Record
from fhirapp.fhir import json as fhir_json

_TABLES = """
CREATE TABLE deferred (
    number INTEGER PRIMARY KEY, reason TEXT, name TEXT, place TEXT, content BLOB, bundle INTEGER,
    condition TEXT, on_match TEXT, references_checked INTEGER
);
CREATE INDEX deferred_name ON deferred (name);
CREATE TABLE address (
    bundle INTEGER, full_url TEXT, target TEXT, condition TEXT, PRIMARY KEY (bundle, full_url)
) WITHOUT ROWID;
CREATE TABLE patient_of (name TEXT PRIMARY KEY, patient TEXT) WITHOUT ROWID;
CREATE TABLE seen (type TEXT, id TEXT, PRIMARY KEY (type, id)) WITHOUT ROWID;
"""
_COLUMNS = "name, place, content, bundle, condition, on_match, references_checked"
_CACHE_KIB = 4_096


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

    def defer(self, reason: str, name: str, content: bytes, record: Record) -> None:
        """Keep a record of a resource, Type/id, for later; of a deletion there is no content."""
        self._deferred += 1
        self._connection.execute(
            f"INSERT INTO deferred (reason, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                reason,
                name,
                record.place,
                content,
                record.bundle,
                record.condition,
                record.on_match.value,
                # What was made from a document or a row has ids of our own.
                record.grouped or record.references_checked,
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

    def take_deferred(self, reason: str, by_name: bool = False) -> Iterator[Record]:
        """Yield what is deferred for this reason now, and forget it; with by_name, grouped."""
        last = self._connection.execute("SELECT max(number) FROM deferred").fetchone()[0] or 0
        chosen = "FROM deferred WHERE reason = ? AND number <= ?"
        order = "name, number" if by_name else "number"
        for (
            name,
            place,
            content,
            bundle,
            condition,
            on_match,
            references_checked,
        ) in self._connection.execute(
            f"SELECT {_COLUMNS} {chosen} ORDER BY {order}", (reason, last)
        ):
            yield Record(
                place,
                content,
                fhir_json.loads(content) if content else None,
                deletes="" if content else name,
                bundle=bundle,
                condition=condition,
                on_match=OnMatch(on_match),
                was_deferred=True,
                references_checked=bool(references_checked),
            )
        self._deferred -= self._connection.execute(f"DELETE {chosen}", (reason, last)).rowcount

    def count_deferred(self, reason: str) -> int:
        """Return how many wait for this reason."""
        counted = "SELECT count(*) FROM deferred WHERE reason = ?"
        return int(self._connection.execute(counted, (reason,)).fetchone()[0])

    # Where the addresses within a Bundle lead.

    def new_bundle(self) -> int:
        """Return the number of a Bundle that begins: 1, 2, …"""
        self._bundles += 1
        return self._bundles

    def add_address(self, bundle: int, full_url: str, target: str, condition: str) -> None:
        """Note that an entry of a Bundle is the resource Type/id, or the one that condition finds.

        The first of several entries with one address counts.
        """
        self._connection.execute(
            "INSERT OR IGNORE INTO address VALUES (?, ?, ?, ?)",
            (bundle, full_url, target, condition),
        )

    def target(self, bundle: int, full_url: str) -> tuple[str, str] | None:
        """Return Type/id and the condition of the entry with this address."""
        entry: tuple[str, str] | None = self._connection.execute(
            "SELECT target, condition FROM address WHERE bundle = ? AND full_url = ?",
            (bundle, full_url),
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

    # What the source still holds.

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
