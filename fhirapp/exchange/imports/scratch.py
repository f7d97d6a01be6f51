"""What an import keeps aside while it runs: on disk beyond a few megabytes, and gone with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple

_TABLES = """
CREATE TABLE aside (
    number INTEGER PRIMARY KEY, why TEXT, name TEXT, place TEXT, content BLOB, bundle INTEGER,
    condition TEXT, when_found TEXT, is_apart INTEGER
);
CREATE INDEX aside_name ON aside (name);
CREATE TABLE address (
    bundle INTEGER, full_url TEXT, target TEXT, condition TEXT, PRIMARY KEY (bundle, full_url)
) WITHOUT ROWID;
CREATE TABLE filed (name TEXT PRIMARY KEY, patient TEXT) WITHOUT ROWID;
CREATE TABLE seen (type TEXT, id TEXT, PRIMARY KEY (type, id)) WITHOUT ROWID;
"""
_CACHE_KIB = 4_096


class Aside(NamedTuple):
    """A unit that was put aside; name is Type/id, a deletion has no content.

    is_apart of one whose references are known not to lead to another source's records.
    """

    name: str
    place: str
    content: bytes
    bundle: int
    condition: str
    when_found: str
    is_apart: bool


class Scratch:
    """Tables of one run, in a temporary database of its own."""

    def __init__(self) -> None:
        # An empty name is a temporary file, which SQLite makes when its cache is full.
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(f"PRAGMA journal_mode = OFF; {_TABLES}")
        # One transaction for all: nothing here outlives the run.
        self._connection.execute("BEGIN")
        self._asides = 0
        self._bundles = 0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    # What waits: for a reference (why "reference"), or because it is older content ("older").

    def put_aside(self, why: str, one: Aside) -> None:
        """Keep a unit for later."""
        self._asides += 1
        self._connection.execute(
            f"INSERT INTO aside (why, {', '.join(Aside._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (why, *one),
        )

    def waits(self, name: str) -> str | None:
        """Return why a resource of this name was put aside, None where none was."""
        if not self._asides:
            return None
        asked = "SELECT why FROM aside WHERE name = ? ORDER BY number DESC LIMIT 1"
        found = self._connection.execute(asked, (name,)).fetchone()
        return str(found[0]) if found else None

    def take_aside(self, why: str, by_name: bool = False) -> Iterator[Aside]:
        """Yield what was put aside so far for this reason, and forget it; or, grouped by name."""
        last = self._connection.execute("SELECT max(number) FROM aside").fetchone()[0] or 0
        order = "name, number" if by_name else "number"
        asked = (
            f"SELECT {', '.join(Aside._fields)} FROM aside "
            f"WHERE why = ? AND number <= ? ORDER BY {order}"
        )
        for row in self._connection.execute(asked, (why, last)):
            yield Aside(*row)
        forget = "DELETE FROM aside WHERE why = ? AND number <= ?"
        self._asides -= self._connection.execute(forget, (why, last)).rowcount

    def waiting(self, why: str) -> int:
        """Return how many wait for this reason."""
        asked = "SELECT count(*) FROM aside WHERE why = ?"
        return int(self._connection.execute(asked, (why,)).fetchone()[0])

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
        asked = "SELECT target, condition FROM address WHERE bundle = ? AND full_url = ?"
        found = self._connection.execute(asked, (bundle, full_url)).fetchone()
        return (found[0], found[1]) if found else None

    # Whose records came.

    def file(self, name: str, patient_id: str) -> str:
        """Note whose record a resource, Type/id, is; return whose it was when it came first."""
        row = (name, patient_id)
        self._connection.execute("INSERT OR IGNORE INTO filed VALUES (?, ?)", row)
        asked = "SELECT patient FROM filed WHERE name = ?"
        return str(self._connection.execute(asked, (name,)).fetchone()[0])

    # What the source still holds.

    def saw(self, names: Sequence[tuple[str, str]]) -> None:
        """Note (type, id) of resources that came."""
        self._connection.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", names)

    def unseen(self, type_name: str, ids: Sequence[str]) -> list[str]:
        """Return which of these did not come, in their order."""
        asked = "SELECT 1 FROM seen WHERE type = ? AND id = ?"
        return [
            one for one in ids if not self._connection.execute(asked, (type_name, one)).fetchone()
        ]
