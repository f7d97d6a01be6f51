"""What a line of the audit trail tells: who requested what, or did what, and whose records it was.

Whose record a resource is comes from its version as it is known now: a resource that was filed
wrongly and corrected belongs to no patient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from flask import current_app

from fhirapp.audit.write import patients_named
from fhirapp.db import Reader, db, reader
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import CARRIES
from fhirapp.trail import trail_of
from fhirapp.trail.chain import HEAD
from fhirapp.trail.events import RequestKey

# Values of one SELECT.
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


class AuditEntry(NamedTuple):
    """A request under /fhir, or to a page that fetches records, and its answer; or an event.

    served has Type/id/version of each resource in the answer; via is which of our pages asked,
    empty for an app; user_id and client_id are None where no known token came with it. Of an event
    (trail/events.py) event is its name, about whom it is about, body what more it says, and method
    and path are empty. request_id is the X-Request-Id of the answer, id one of ours.
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


# Of an entry's row, whose request_id is a RequestKey as text.
COLUMNS = AuditEntry._fields[:-1]


def parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return what a line says; None for what a full disk cut off.

    In the first edition's files another process may have written a whole one behind that.
    """
    try:
        content = fhir_json.loads(line)
    except ValueError:
        begin = line.rfind(_BEGINS)
        return parsed(line[begin:]) if begin > 0 else None
    if not isinstance(content, dict):
        return None
    if content.keys() >= _NEEDED:
        return content
    if content.keys() >= _NEEDED_OF_EVENT and content["event"] != HEAD:
        return {**_OF_EVENT, **content, "body": content["what"]}
    return None


def rows_of(
    lines: Sequence[tuple[int, Mapping[str, Any]]],
) -> tuple[list[tuple[Any, ...]], list[tuple[str, int]]]:
    """Return the rows of entries, in the order of COLUMNS, and the patients whom each is about.

    lines have their numbers.
    """
    # Not the request's snapshot: lines may tell of versions that were written since it was taken.
    with closing(Reader(db.engine)) as snapshot:
        patients = patients_of({name for _, line in lines for name in line["served"]}, snapshot)
    seen = set[tuple[str, int]]()
    for number, line in lines:
        whose = {patients.get(name) for name in line["served"]} | _named(line) | _listed(line)
        seen |= {(patient_id, number) for patient_id in whose if patient_id is not None}
    return [values_of(number, line) for number, line in lines], sorted(seen)


def values_of(number: int, line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row of an entry."""
    milliseconds, served = float(line["ms"]), " ".join(line["served"])
    key = str(RequestKey(line.get("id", line["request"]), line["request"]))
    values = (
        *(number, line["at"], line["user"], line["client"], line["via"], line["method"]),
        *(line["path"], line["body"], line["status"], milliseconds, served),
        *(key, line.get("event", ""), line.get("about", ""), line.get("from", "")),
    )
    # PostgreSQL takes no NUL in a text, and one line must not keep all others from being shown.
    return tuple(one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in values)


def _named(line: Mapping[str, Any]) -> set[str]:
    """Return the patients that a request named, as it was noted; of older lines by their text."""
    if "named" in line:
        return {*line["named"]}
    path, _, query = line["path"].partition("?")
    return {*patients_named(path, query, line["body"])} if line["status"] < 400 else set()


def _listed(line: Mapping[str, Any]) -> set[str]:
    """Return the patients whose records an export held, from the file beside the trail."""
    name = line.get("listed", "")
    content = trail_of(current_app).get(name) if name else None
    return {*(content or b"").decode().split()}


def patients_of(names: set[str], snapshot: Reader | None = None) -> dict[str, str | None]:
    """Return whose record each is, by Type/id/version; as the request sees it by default."""
    snapshot = snapshot or reader()
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
            snapshot,
            f"SELECT id, version_id, patient_id FROM {definition.sql_table} WHERE id IN",
            ids,
        ):
            patients[f"{type_name}/{resource_id}/{version_id}"] = patient_id
    # Bytes are the record of whom the documents are of that carry them.
    carried = dict(_carried(snapshot, by_type.get("Binary", set())))
    for name in names:
        if name.startswith("Binary/") and patients.get(name) is None:
            patients[name] = carried.get(name.split("/")[1])
    return patients


def _carried(snapshot: Reader, binary_ids: set[str]) -> Iterator[tuple[str, str]]:
    """Yield ids of Binaries and of the patients whose documents carry them."""
    for definition in types().values():
        if definition.attachments and not definition.view and binary_ids:
            carried = definition.tables.reference.name
            yield from _rows_of(
                snapshot,
                f"SELECT c.target_id, d.patient_id FROM {carried} c"
                f" JOIN {definition.sql_table} d ON d.pk = c.pk AND d.is_current"
                f" WHERE c.param = '{CARRIES}' AND d.patient_id IS NOT NULL AND c.target_id IN",
                binary_ids,
            )


def _rows_of(snapshot: Reader, sql: str, ids: set[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a SELECT that ends with a list of ids."""
    ordered = sorted(ids)
    for at in range(0, len(ordered), _MOST_VALUES):
        some = ordered[at : at + _MOST_VALUES]
        yield from snapshot.all(f"{sql} ({', '.join('?' * len(some))})", some)
