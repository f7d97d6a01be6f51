"""Read the audit trail: its lines are loaded into a database when an administrator looks.

The lines are authoritative. The database beside them can be deleted, and is rebuilt when it is
missing or damaged. Whose record a resource is comes from its version as it is known now: a
resource that was filed wrongly and corrected belongs to no patient.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from fhirapp.audit.write import patients_named
from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.definition import types
from fhirapp.disk import take
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import CARRIES
from fhirapp.trail import FOLDER
from fhirapp.trail.chain import HEAD, files, opened, size_of

_log = logging.getLogger(__name__)

_INDEX = "index.db"
# Of the tables; those of another release are made anew from the lines.
_VERSION = 2
_TABLES = (
    """CREATE TABLE file (name TEXT PRIMARY KEY, done INTEGER NOT NULL)""",
    """CREATE TABLE entry (
      number INTEGER PRIMARY KEY, at TEXT NOT NULL, user_id TEXT, client_id TEXT, via TEXT NOT NULL,
      method TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL, status INTEGER NOT NULL,
      milliseconds REAL NOT NULL, served TEXT NOT NULL, request_id TEXT NOT NULL,
      event TEXT NOT NULL, about TEXT NOT NULL, address TEXT NOT NULL)""",
    """CREATE INDEX entry_of_user ON entry (user_id, number)""",
    """CREATE INDEX entry_of_client ON entry (client_id, number)""",
    """CREATE INDEX entry_of_event ON entry (event, number) WHERE event <> ''""",
    """CREATE INDEX entry_of_request ON entry (request_id)""",
    """CREATE TABLE seen (
      patient_id TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (patient_id, number)
    ) WITHOUT ROWID""",
    """CREATE INDEX seen_of_entry ON seen (number)""",
)
# How long a page waits for another that loads lines, and how often it looks.
_PATIENCE_SECONDS = 10
_LOOK_SECONDS = 0.01
# Errors that a new database would raise too, or that pass by themselves.
_NO_DAMAGE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
    }
)

# Lines that are loaded at once, and values of one SELECT.
_AT_ONCE = 2_000
_MOST_VALUES = 500
# The beginning of a line; text within it has its quotes escaped.
_BEGINS = b'{"at":"'
_NEEDED = frozenset(
    {
        *("at", "user", "client", "via", "method", "path", "body", "status", "ms", "served"),
        "request",
    }
)
# Of an event: what it needs, and what the others are.
_NEEDED_OF_EVENT = frozenset({"at", "event", "what"})
_OF_EVENT: Mapping[str, Any] = {
    **dict.fromkeys(("user", "client"), None),
    **dict.fromkeys(("via", "method", "path", "about", "from", "request"), ""),
    "status": 0,
    "ms": 0,
    "served": (),
    "named": (),
}

Bring = Callable[[sqlite3.Connection], None]
Rows = list[tuple[Any, ...]]


def rows(folder: Path, bring: Bring, sql: str, values: Sequence[Any]) -> Rows:
    """Return a query's rows from a folder's database, after bring loaded what is new into it.

    A damaged database is made anew, once. Raises sqlite3.Error.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _held(folder, alone=False):
            return _query(folder, bring, sql, values)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    # SQLite's files may not be removed while another process has them open.
    with _held(folder, alone=True):
        try:
            # Another may have been first.
            return _query(folder, bring, sql, values)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            _log.error("the index of the audit trail is damaged (%s); it is made anew", error)
            for file in folder.glob(f"{_INDEX}*"):
                file.unlink(missing_ok=True)
    with _held(folder, alone=False):
        return _query(folder, bring, sql, values)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # An extended code has the plain one in its last byte; a mistake of ours has none.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _NO_DAMAGE


@contextmanager
def _held(folder: Path, *, alone: bool) -> Iterator[None]:
    """Lock the folder: shared to query, alone to remove. Raises OperationalError after a while."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + _PATIENCE_SECONDS
        while take(descriptor, alone=alone) is False:
            if time.monotonic() > until:
                raise sqlite3.OperationalError("the index of the audit trail is locked")
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _query(folder: Path, bring: Bring, sql: str, values: Sequence[Any]) -> Rows:
    path = folder / _INDEX
    if not path.exists():
        # Nobody else may read it, from the first moment on.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(
        sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
    ) as connection:
        _use_log(connection)
        # After a power cut it may lack the last lines, but none that it counts as brought in.
        connection.execute("PRAGMA synchronous = NORMAL")
        _make_tables(connection)
        bring(connection)
        return connection.execute(sql, values).fetchall()


def _use_log(connection: sqlite3.Connection) -> None:
    """Have the file write ahead. Where several make it at once, SQLite itself waits for none."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_LOOK_SECONDS)


def patients_named_by(numbers: Collection[int]) -> dict[int, list[str]]:
    """Return the ids of the patients whom entries are about, by the entries' numbers."""
    named: dict[int, list[str]] = {}
    if numbers:
        marks = ", ".join("?" * len(numbers))
        for number, patient_id in rows(
            settings().instance / FOLDER,
            _bring_all,
            f"SELECT number, patient_id FROM seen WHERE number IN ({marks}) ORDER BY patient_id",
            [*numbers],
        ):
            named.setdefault(number, []).append(patient_id)
    return named


def _make_tables(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another may have been first, and have brought lines in.
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        for table in ("seen", "entry", "file"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


class Entry(NamedTuple):
    """A request under /fhir, or to a page that fetches records, and its answer; or an event.

    served has Type/id/version of each resource in the answer; via is which of our pages asked,
    empty for an app; user_id and client_id are None where no known token came with it. Of an event
    (trail/events.py) event is its name, about whom it is about, body what more it says, and method
    and path are empty.
    """

    number: int
    at: str
    user_id: str | None
    client_id: str | None
    via: str
    method: str
    path: str
    body: str
    status: int
    milliseconds: float
    served: tuple[str, ...]
    request_id: str
    event: str = ""
    about: str = ""
    address: str = ""


# Which entries: requests for records, or what happened to the service.
RECORDS, ADMINISTRATION = "records", "administration"
_KINDS = {RECORDS: "e.event = ''", ADMINISTRATION: "e.event <> ''"}
_SERVED = Entry._fields.index("served")


def entries(
    *,
    user_id: str | None = None,
    patient_id: str | None = None,
    client_id: str | None = None,
    via: str | None = None,
    status: int | None = None,
    since: str | None = None,
    until: str | None = None,
    before: int | None = None,
    kind: str | None = RECORDS,
    event: str | None = None,
    about: str | None = None,
    request_id: str | None = None,
    limit: int = 50,
) -> Sequence[Entry]:
    """Return the entries that meet all conditions, the newest first.

    since and until are instants as FHIR writes them; before is an entry's number: older ones only;
    kind is RECORDS, ADMINISTRATION, or None for both.
    """
    filters = (
        ("s.patient_id = ?", patient_id),
        ("e.user_id = ?", user_id),
        ("e.client_id = ?", client_id),
        ("e.via = ?", via),
        ("e.status = ?", status),
        ("e.at >= ?", since),
        ("e.at < ?", until),
        ("e.number < ?", before),
        ("e.event = ?", event),
        ("e.about = ?", about),
        ("e.request_id = ?", request_id),
    )
    conditions = [(sql, value) for sql, value in filters if value is not None]
    chosen = [sql for sql, _ in conditions] + ([_KINDS[kind]] if kind else [])
    where = " AND ".join(chosen) or "1"
    source = "entry e" if patient_id is None else "seen s JOIN entry e ON e.number = s.number"
    columns = ", ".join(f"e.{name}" for name in Entry._fields)
    listed = rows(
        settings().instance / FOLDER,
        _bring_all,
        f"SELECT {columns} FROM {source} WHERE {where} ORDER BY e.number DESC LIMIT ?",
        [*(value for _, value in conditions), limit],
    )
    return [Entry(*row)._replace(served=tuple(row[_SERVED].split())) for row in listed]


def _bring_all(connection: sqlite3.Connection) -> None:
    """Bring every line into the index that has been written until now; forget what was removed."""
    listed = files(settings().instance / FOLDER)
    for file in listed:
        # One that is packed meanwhile was brought in, but for what the next look brings.
        with suppress(FileNotFoundError):
            _bring(connection, file)
    names = {_day(file) for file in listed}
    gone = [name for (name,) in connection.execute("SELECT name FROM file") if name not in names]
    if gone:
        _forget(connection, gone, min(names, default="9"))


def _day(file: Path) -> str:
    return file.name.removesuffix(".gz")


def _done(connection: sqlite3.Connection, name: str) -> int:
    """Return how many bytes of a file were brought in."""
    row = connection.execute("SELECT done FROM file WHERE name = ?", (name,)).fetchone()
    return row[0] if row else 0


def _bring(connection: sqlite3.Connection, file: Path) -> None:
    """Bring a file's new lines into the index, some at a time."""
    name = _day(file)
    if _done(connection, name) >= size_of(file):
        return
    with opened(file) as content:
        size = _AT_ONCE
        while size == _AT_ONCE:
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Another may have been first.
                done = _done(connection, name)
                lines, end = _lines(content, done)
                size = len(lines)
                _add(connection, [entry for line in lines if (entry := _parsed(line)) is not None])
                connection.execute(
                    "INSERT INTO file VALUES (?, ?)"
                    " ON CONFLICT (name) DO UPDATE SET done = excluded.done",
                    (name, end),
                )
                connection.execute("COMMIT")
            except BaseException:
                # Some errors have done so already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _forget(connection: sqlite3.Connection, gone: Sequence[str], oldest: str) -> None:
    """Remove the entries of days that are kept no longer; oldest is the first file that is."""
    day = oldest.removesuffix(".ndjson")
    connection.execute("BEGIN IMMEDIATE")
    old = "SELECT number FROM entry WHERE at < ?"
    connection.execute(f"DELETE FROM seen WHERE number IN ({old})", (day,))
    connection.execute("DELETE FROM entry WHERE at < ?", (day,))
    connection.executemany("DELETE FROM file WHERE name = ?", [(name,) for name in gone])
    connection.execute("COMMIT")


def _lines(content: IO[bytes], start: int) -> tuple[list[bytes], int]:
    """Return whole lines from a place on, and the place where they end."""
    lines: list[bytes] = []
    if content.tell() != start:
        content.seek(start)
    while len(lines) < _AT_ONCE:
        line = content.readline()
        if not line.endswith(b"\n"):
            # It is being written.
            break
        lines.append(line)
        start += len(line)
    return lines, start


def _parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return what a line says; None for what a full disk cut off.

    In the first edition's files another process may have written a whole one behind that.
    """
    try:
        content = fhir_json.loads(line)
    except ValueError:
        begin = line.rfind(_BEGINS)
        return _parsed(line[begin:]) if begin > 0 else None
    if not isinstance(content, dict):
        return None
    if content.keys() >= _NEEDED:
        return content
    if content.keys() >= _NEEDED_OF_EVENT and content["event"] != HEAD:
        return {**_OF_EVENT, **content, "body": content["what"]}
    return None


def _add(connection: sqlite3.Connection, lines: Sequence[Mapping[str, Any]]) -> None:
    patients = patients_of({name for line in lines for name in line["served"]})
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()
    values, seen = [], set()
    for number, line in enumerate(lines, last + 1):
        milliseconds, served = float(line["ms"]), " ".join(line["served"])
        values.append(
            (
                *(number, line["at"], line["user"], line["client"], line["via"], line["method"]),
                *(line["path"], line["body"], line["status"], milliseconds, served),
                *(line["request"], line.get("event", ""), line.get("about", "")),
                line.get("from", ""),
            )
        )
        whose = {patients.get(name) for name in line["served"]} | _named(line) | _listed(line)
        seen |= {(patient_id, number) for patient_id in whose if patient_id is not None}
    connection.executemany(f"INSERT INTO entry VALUES ({', '.join('?' * 15)})", values)
    connection.executemany("INSERT INTO seen VALUES (?, ?)", sorted(seen))


def _named(line: Mapping[str, Any]) -> set[str]:
    """Return the patients that a request named, as it was noted; of older lines by their text."""
    if "named" in line:
        return {*line["named"]}
    path, _, query = line["path"].partition("?")
    return {*patients_named(path, query, line["body"])} if line["status"] < 400 else set()


def _listed(line: Mapping[str, Any]) -> set[str]:
    """Return the patients whose records an export held, from the file beside the trail."""
    name = line.get("listed", "")
    if not name:
        return set()
    try:
        return {*(settings().instance / FOLDER / Path(name).name).read_text().split()}
    except OSError:
        return set()


def patients_of(names: set[str]) -> dict[str, str | None]:
    """Return whose record each resource is, by Type/id/version."""
    by_type: dict[str, set[str]] = {}
    for name in names:
        type_name, _, rest = name.partition("/")
        by_type.setdefault(type_name, set()).add(rest.rpartition("/")[0])
    patients: dict[str, str | None] = {}
    for type_name, ids in by_type.items():
        definition = types().get(type_name)
        if definition is None:
            continue
        for resource_id, version_id, patient_id in _rows_of(
            f"SELECT id, version_id, patient_id FROM {definition.sql_table} WHERE id IN", ids
        ):
            patients[f"{type_name}/{resource_id}/{version_id}"] = patient_id
    # Bytes are the record of whom the documents are of that carry them.
    carried = dict(_carried(by_type.get("Binary", set())))
    for name in names:
        if name.startswith("Binary/") and patients.get(name) is None:
            patients[name] = carried.get(name.split("/")[1])
    return patients


def _carried(binary_ids: set[str]) -> Iterator[tuple[str, str]]:
    """Yield ids of Binaries and of the patients whose documents carry them."""
    for definition in types().values():
        if definition.attachments and not definition.view and binary_ids:
            carried = definition.tables.reference.name
            yield from _rows_of(
                f"SELECT c.target_id, d.patient_id FROM {carried} c"
                f" JOIN {definition.sql_table} d ON d.pk = c.pk AND d.is_current"
                f" WHERE c.param = '{CARRIES}' AND d.patient_id IS NOT NULL AND c.target_id IN",
                binary_ids,
            )


def _rows_of(sql: str, ids: set[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a SELECT that ends with a list of ids."""
    ordered = sorted(ids)
    for at in range(0, len(ordered), _MOST_VALUES):
        some = ordered[at : at + _MOST_VALUES]
        yield from reader().all(f"{sql} ({', '.join('?' * len(some))})", some)
