"""Read the audit trail: its lines are brought into a database of its own when somebody looks.

The lines are what counts; the database beside them can be deleted and is made anew, as is one that
is damaged. Whose record a resource is, is asked of its version as it is now known: one that was
filed wrongly is nobody's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.audit.database import rows
from fhirapp.audit.named import patients_named
from fhirapp.audit.trail import FOLDER
from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.store.attachments import CARRIES
from fhirapp.store.definition import types

# How many lines are brought in at once; and values of one SELECT.
_AT_ONCE = 2_000
_MOST_VALUES = 500
# How a line begins; text in it has its quotes escaped.
_BEGINS = b'{"at":"'
_NEEDED = frozenset(
    {
        *("at", "user", "client", "via", "method", "path", "body", "status", "ms", "served"),
        "request",
    }
)


class Entry(NamedTuple):
    """A request under /fhir, or to a page by which records are fetched, and its answer.

    served has Type/id/version of each resource in the answer; via is which of our pages asked,
    empty for an app; user_id and client_id are None where no known token came with it.
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
    limit: int = 50,
) -> Sequence[Entry]:
    """Return the requests that meet all of these, the newest first.

    since and until are instants as they are served; before is a number: what is older than it.
    """
    given = (
        ("s.patient_id = ?", patient_id),
        ("e.user_id = ?", user_id),
        ("e.client_id = ?", client_id),
        ("e.via = ?", via),
        ("e.status = ?", status),
        ("e.at >= ?", since),
        ("e.at < ?", until),
        ("e.number < ?", before),
    )
    asked = [(condition, value) for condition, value in given if value is not None]
    where = " AND ".join(condition for condition, _ in asked) or "1"
    source = "entry e" if patient_id is None else "seen s JOIN entry e ON e.number = s.number"
    columns = ", ".join(f"e.{name}" for name in Entry._fields)
    found = rows(
        settings().instance / FOLDER,
        _bring_all,
        f"SELECT {columns} FROM {source} WHERE {where} ORDER BY e.number DESC LIMIT ?",
        [*(value for _, value in asked), limit],
    )
    return [Entry(*row)._replace(served=tuple(row[_SERVED].split())) for row in found]


def _bring_all(connection: sqlite3.Connection) -> None:
    """Bring every line into the index that has been written until now."""
    for file in sorted((settings().instance / FOLDER).glob("*.ndjson")):
        while _bring(connection, file):
            pass


def _bring(connection: sqlite3.Connection, file: Path) -> bool:
    """Bring some lines of a file into the index; say whether there may be more."""
    known = connection.execute("SELECT done FROM file WHERE name = ?", (file.name,)).fetchone()
    if known is not None and known[0] >= file.stat().st_size:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another may have been first.
        known = connection.execute("SELECT done FROM file WHERE name = ?", (file.name,)).fetchone()
        done = known[0] if known else 0
        lines, end = _lines(file, done)
        _add(connection, [found for line in lines if (found := _parsed(line)) is not None])
        connection.execute(
            "INSERT INTO file VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET done = excluded.done",
            (file.name, end),
        )
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have done so already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return len(lines) == _AT_ONCE


def _lines(file: Path, start: int) -> tuple[list[bytes], int]:
    """Return whole lines from a place on, and the place where they end."""
    lines: list[bytes] = []
    with file.open("rb") as content:
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

    Behind that, another process may have written a whole one.
    """
    try:
        content = fhir_json.loads(line)
    except ValueError:
        begin = line.rfind(_BEGINS)
        return _parsed(line[begin:]) if begin > 0 else None
    return content if isinstance(content, dict) and content.keys() >= _NEEDED else None


def _add(connection: sqlite3.Connection, lines: Sequence[Mapping[str, Any]]) -> None:
    patients = patients_of({name for line in lines for name in line["served"]})
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()
    noted, seen = [], set()
    for number, line in enumerate(lines, last + 1):
        milliseconds, served = float(line["ms"]), " ".join(line["served"])
        noted.append(
            (
                *(number, line["at"], line["user"], line["client"], line["via"], line["method"]),
                *(line["path"], line["body"], line["status"], milliseconds, served),
                line["request"],
            )
        )
        whose = {patients.get(name) for name in line["served"]} | _named(line)
        seen |= {(patient_id, number) for patient_id in whose if patient_id is not None}
    connection.executemany(f"INSERT INTO entry VALUES ({', '.join('?' * 12)})", noted)
    connection.executemany("INSERT INTO seen VALUES (?, ?)", sorted(seen))


def _named(line: Mapping[str, Any]) -> set[str]:
    """Return the patients that a request named, as it was noted; of older lines by their text."""
    if "named" in line:
        return {*line["named"]}
    path, _, query = line["path"].partition("?")
    return {*patients_named(path, query, line["body"])} if line["status"] < 400 else set()


def patients_of(names: set[str]) -> dict[str, str | None]:
    """Return whose record each resource is, by Type/id/version."""
    by_type: dict[str, set[str]] = {}
    for name in names:
        type_name, _, rest = name.partition("/")
        by_type.setdefault(type_name, set()).add(rest.rpartition("/")[0])
    found: dict[str, str | None] = {}
    for type_name, ids in by_type.items():
        definition = types().get(type_name)
        if definition is None:
            continue
        for resource_id, version_id, patient_id in _asked(
            f"SELECT id, version_id, patient_id FROM {definition.sql_table} WHERE id IN", ids
        ):
            found[f"{type_name}/{resource_id}/{version_id}"] = patient_id
    # Bytes are the record of whom the documents are of that carry them.
    carried = dict(_carried(by_type.get("Binary", set())))
    for name in names:
        if name.startswith("Binary/") and found.get(name) is None:
            found[name] = carried.get(name.split("/")[1])
    return found


def _carried(binary_ids: set[str]) -> Iterator[tuple[str, str]]:
    """Yield ids of Binaries and of the patients whose documents carry them."""
    for definition in types().values():
        if definition.attachments and not definition.view and binary_ids:
            carried = definition.tables.reference.name
            yield from _asked(
                f"SELECT c.target_id, d.patient_id FROM {carried} c"
                f" JOIN {definition.sql_table} d ON d.pk = c.pk AND d.is_current"
                f" WHERE c.param = '{CARRIES}' AND d.patient_id IS NOT NULL AND c.target_id IN",
                binary_ids,
            )


def _asked(sql: str, ids: set[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a SELECT that ends with a list of ids."""
    ordered = sorted(ids)
    for at in range(0, len(ordered), _MOST_VALUES):
        some = ordered[at : at + _MOST_VALUES]
        yield from reader().all(f"{sql} ({', '.join('?' * len(some))})", some)
