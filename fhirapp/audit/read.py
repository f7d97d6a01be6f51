"""Ask the audit trail: its lines are loaded into tables first, when an administrator looks.

Of a trail in files the tables are a SQLite database beside them (index.py), of one in PostgreSQL
they are there (tables.py): one SELECT serves both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fhirapp.audit import index, tables
from fhirapp.audit.lines import COLUMNS, AuditEntry, patients_of
from fhirapp.config import settings
from fhirapp.trail import FOLDER
from fhirapp.trail.events import RequestKey

__all__ = [
    "ADMINISTRATION",
    "RECORDS",
    "AuditEntry",
    "entries",
    "entry_with",
    "patients_named_by",
    "patients_of",
]

# Which entries: requests for records, or what happened to the service.
RECORDS, ADMINISTRATION = "records", "administration"
_KINDS = {RECORDS: "e.event = ''", ADMINISTRATION: "e.event <> ''"}
_SERVED, _KEY = AuditEntry._fields.index("served"), AuditEntry._fields.index("request_id")


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
    limit: int = 50,
) -> Sequence[AuditEntry]:
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
        # What is not empty has an index.
        ("e.about <> '' AND e.about = ?", about),
    )
    conditions = [(sql, value) for sql, value in filters if value is not None]
    chosen = [sql for sql, _ in conditions] + ([_KINDS[kind]] if kind else [])
    where = " AND ".join(chosen) or "TRUE"
    source = "entry e" if patient_id is None else "seen s JOIN entry e ON e.number = s.number"
    return _select(source, where, [value for _, value in conditions], limit)


def entry_with(own_id: str) -> AuditEntry | None:
    """Return the entry with this id of ours, None without one.

    A first edition's line may have a proxy's id with _, which is shown with - instead.
    """
    for where, value in (
        ("e.request_id = ?", own_id),
        ("e.request_id LIKE ?", f"{own_id}/%"),
        ("REPLACE(e.request_id, '_', '-') = ?", own_id),
    ):
        for entry in _select("entry e", where, [value], 1):
            # LIKE of SQLite does not tell capitals from small letters.
            if entry.id.replace("_", "-") == own_id:
                return entry
    return None


def _select(source: str, where: str, values: Sequence[Any], limit: int) -> Sequence[AuditEntry]:
    columns = ", ".join(f"e.{name}" for name in COLUMNS)
    listed = _rows(
        f"SELECT {columns} FROM {source} WHERE {where} ORDER BY e.number DESC LIMIT ?",
        [*values, limit],
    )
    return [*map(_entry, listed)]


def _entry(row: Sequence[Any]) -> AuditEntry:
    entry, key = AuditEntry(*row), RequestKey.parse(row[_KEY])
    return entry._replace(served=tuple(row[_SERVED].split()), request_id=key.shown, id=key.own)


def patients_named_by(numbers: Collection[int]) -> dict[int, list[str]]:
    """Return the ids of the patients whom entries are about, by the entries' numbers."""
    named: dict[int, list[str]] = {}
    if numbers:
        marks = ", ".join("?" * len(numbers))
        for number, patient_id in _rows(
            f"SELECT number, patient_id FROM seen WHERE number IN ({marks}) ORDER BY patient_id",
            [*numbers],
        ):
            named.setdefault(number, []).append(patient_id)
    return named


def _rows(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return a query's rows, of all lines that were written until now."""
    if settings().is_postgresql:
        return tables.rows(sql, values)
    return index.rows(settings().instance / FOLDER, sql, values)
