"""Queries of the audit trail. An entry is read from its line; the columns only select."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from flask import current_app

from fhirapp.audit import store_of
from fhirapp.audit.seals import seal_all
from fhirapp.audit.store import patients_of

# Which entries: requests for records, or what happened to the service.
RECORDS, ADMINISTRATION = "records", "administration"
_KINDS = {RECORDS: "e.event = ''", ADMINISTRATION: "e.event <> ''"}


class AuditEntry(NamedTuple):
    """A request under /fhir, or to a page that fetches records, and its answer; or an event.

    served has Type/id/version of each resource in the answer; via is which of our pages asked,
    empty for an app; user_id and client_id are None where no known token came with it. Of an event
    (events.py) event is its name, about whom it is about, body what more it says, and method and
    path are empty. request_id is the X-Request-Id of the answer, id one of ours.
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
    id: str = ""


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
    source, n = "audit_entry e", "e.n"
    if patient_id is not None:
        # Patients are listed when entries are sealed. If sealing fails, earlier entries are found.
        with suppress(OSError):
            seal_all(current_app)
        source, n = "audit_seen s JOIN audit_entry e ON e.n = s.n", "s.n"
    filters = (
        ("s.patient_id = ?", patient_id),
        ("e.user_id = ?", user_id),
        ("e.client_id = ?", client_id),
        ("e.via = ?", via),
        ("e.status = ?", status),
        ("e.at >= ?", since),
        ("e.at < ?", until),
        (f"{n} < ?", before),
        # What is not empty has an index.
        ("e.event <> '' AND e.event = ?", event),
        ("e.about <> '' AND e.about = ?", about),
    )
    conditions = [(sql, value) for sql, value in filters if value is not None]
    chosen = [sql for sql, _ in conditions] + ([_KINDS[kind]] if kind else [])
    where = " AND ".join(chosen) or "TRUE"
    return _select(
        f"{source} WHERE {where} ORDER BY {n} DESC", [value for _, value in conditions], limit
    )


def entry_with(own_id: str) -> AuditEntry | None:
    """Return the entry with this id of ours, None without one."""
    return next(iter(_select("audit_entry e WHERE e.request_id = ?", [own_id], 1)), None)


def _select(source: str, values: Sequence[Any], limit: int) -> Sequence[AuditEntry]:
    results = []
    for n, line in _rows(f"SELECT e.n, e.line FROM {source} LIMIT ?", [*values, limit]):
        # An invalid line hides no other; verify.py reports it.
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            results.append(_entry(n, line))
    return results


def _entry(n: int, line: str) -> AuditEntry:
    content = json.loads(line)
    shown, event = content.get("request", ""), content.get("event", "")
    own = content.get("id", shown)
    return AuditEntry(
        number=n,
        at=content["at"],
        user_id=content.get("user"),
        client_id=content.get("client"),
        via=content.get("via", ""),
        method=content.get("method", ""),
        path=content.get("path", ""),
        body=content.get("what" if event else "body", ""),
        status=content.get("status", 0),
        milliseconds=float(content.get("ms", 0)),
        served=tuple(content.get("served", ())),
        request_id=shown,
        event=event,
        about=content.get("about", ""),
        address=content.get("from", ""),
        id=own,
    )


def patients_named_by(numbers: Collection[int]) -> dict[int, list[str]]:
    """Return the ids of the patients whom entries are about, by the entries' numbers."""
    if not numbers:
        return {}
    marks = ", ".join("?" * len(numbers))
    rows = _rows(f"SELECT n, line, attachment FROM audit_entry WHERE n IN ({marks})", [*numbers])
    by_number = {n: sorted(patients_of(*entry)) for n, *entry in rows}
    return {n: patients for n, patients in by_number.items() if patients}


def _rows(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with store_of(current_app).reading() as run:
        return run(sql, values)
