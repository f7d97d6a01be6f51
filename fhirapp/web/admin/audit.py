"""The page of the audit trail: its form, its list and its downloads."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from flask import Response, request, stream_with_context
from sqlalchemy import ColumnElement, false, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute
from werkzeug.exceptions import NotFound

from fhirapp.audit.entries import ADMINISTRATION, RECORDS, AuditEntry, entries
from fhirapp.auth.models import Client, User
from fhirapp.db import db
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import instant_of, local_interval
from fhirapp.resources.audit_event import resources_of
from fhirapp.rest import recorder
from fhirapp.search.values import escape
from fhirapp.web.admin import audit_descriptions as descriptions
from fhirapp.web.pages import PageError, blueprint_of, for_administrators, page, signed_in
from fhirapp.web.texts import _

_LONGEST = 200
_MOST_WORDS = 8
# Of those whom a name could mean, so many are offered.
_CHOICES = 8
_ID = re.compile(r"(?:Patient/)?([A-Za-z0-9.-]{1,64})")
FIELDS = ("kind", "user", "client", "patient", "status", "via", "since", "until")
# What the page calls them.
KINDS: Mapping[str, str] = {RECORDS: _("records"), ADMINISTRATION: _("administration")}
# What stands in the form for entries of no page of ours.
BY_APPS = "apps"


@dataclass
class AuditFilter:
    """The typed values, the arguments for entries(), and the faults of the values.

    choices are those whom a text could mean, by field: the text that means one of them alone, the
    name, and what distinguishes it. names are the names of the chosen records by field.
    """

    typed: Mapping[str, str]
    filters: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Sequence[tuple[str, str, str]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def is_clear(self) -> bool:
        return not (self.choices or self.faults)

    @property
    def is_empty(self) -> bool:
        return not any(self.typed.values())

    def found(self, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Return the newest entries; none where it is not clear which."""
        return entries(**self.filters, before=before, limit=limit) if self.is_clear else ()

    def query(self, **more: object) -> str:
        """Return the query of an address that asks for the same."""
        return urlencode({name: value for name, value in {**self.typed, **more}.items() if value})


def filter_of_form() -> AuditFilter:
    """Return what this request asks for."""
    typed = {name: _text(request.args.get(name, "")) for name in FIELDS}
    found = AuditFilter(typed)
    user, client = typed["user"], typed["client"]
    by_user = or_(User.username == user.lower(), User.id == user)
    _add_named(found, "user", (User.id, User.username, User.name), by_user, _("No matching user."))
    columns = (Client.client_id, Client.client_id, Client.name)
    by_id = Client.client_id == client
    _add_named(found, "client", columns, by_id, _("No matching app."))
    _add_patient(found, typed["patient"])
    if typed["via"]:
        found.filters["via"] = "" if typed["via"] == BY_APPS else typed["via"]
    found.filters["kind"] = typed["kind"] if typed["kind"] in KINDS else None
    if typed["via"] or typed["status"]:
        # Requests have these alone.
        found.filters["kind"] = RECORDS
    if re.fullmatch("[0-9]{3}", typed["status"]):
        found.filters["status"] = int(typed["status"])
    elif typed["status"]:
        found.faults.append(_("A status has three digits, such as 403."))
    _add_times(found, typed)
    return found


def before() -> int | None:
    """Return the number that the page begins before."""
    text = request.args.get("before", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None


def _text(text: str) -> str:
    text = text[:_LONGEST].strip()
    return text if text.isprintable() else ""


def _add_named(
    found: AuditFilter,
    field_name: str,
    columns: Sequence[InstrumentedAttribute[str]],
    exact: ColumnElement[bool],
    none: str,
) -> None:
    """Take a user or an app, of the columns id, short name and name, or offer those it could be."""
    text = found.typed[field_name]
    if not text:
        return
    rows: Sequence[Any] = db.session.execute(select(*columns).where(exact)).all()
    if not rows:
        like = select(*columns).where(*_words(text, *columns[1:])).order_by(columns[1])
        rows = db.session.execute(like.limit(_CHOICES + 1)).all()
    choices = [(row[1], row[2], row[1]) for row in rows]
    if _one_of(found, field_name, choices, none):
        found.filters[f"{field_name}_id"] = rows[0][0]


def _add_patient(found: AuditFilter, text: str) -> None:
    """Take a patient's id, also one of a record that is not here; or else a name."""
    if not text:
        return
    match, words = _ID.fullmatch(text), text.replace(",", " ").split()[:_MOST_WORDS]
    criteria = [("name", escape(word)) for word in words]
    people = descriptions.find_patients([("_id", match[1])]) if match else []
    if not people and criteria and not text.startswith("Patient/"):
        people = descriptions.find_patients([*criteria, ("_count", str(_CHOICES + 1))])
    choices = [(f"Patient/{one.id}", one.name, one.born or one.id) for one in people]
    if not people and match:
        found.filters["patient_id"] = match[1]
        found.names["patient"] = _("%(id)s (no record on this server)", id=match[1])
    elif _one_of(found, "patient", choices, _("No matching patient.")):
        found.filters["patient_id"] = people[0].id


def _one_of(
    found: AuditFilter, name: str, choices: Sequence[tuple[str, str, str]], none: str
) -> bool:
    """Say whether it is one; else note that there are several, or none."""
    if len(choices) == 1:
        found.names[name] = choices[0][1]
        return True
    if choices:
        found.choices[name] = choices[:_CHOICES]
    else:
        found.faults.append(none)
    return False


def _add_times(found: AuditFilter, typed: Mapping[str, str]) -> None:
    for name in ("since", "until"):
        if not typed[name]:
            continue
        try:
            covered = local_interval(typed[name])
        except ValueError:
            found.faults.append(_("Enter the date as 2024-03-05, 2024-03 or 2024."))
            continue
        # The whole of a day that is named last.
        found.filters[name] = instant_of(covered.low if name == "since" else covered.high)


def _words(text: str, *columns: Any) -> list[ColumnElement[bool]]:
    """Return the conditions that each word is in a column; without a word nothing matches."""
    return [
        or_(*(func.lower(column).contains(word, autoescape=True) for column in columns))
        for word in text.lower().replace(",", " ").split()[:_MOST_WORDS]
    ] or [false()]


blueprint = blueprint_of("admin_audit", __name__)
SHOWN = 50
# Entries of a download, and of one look at the trail for it.
MOST = 100_000
_AT_ONCE = 1_000
# How a spreadsheet's formula begins, which runs where somebody opens the file.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_COLUMNS = (
    *("number", "at", "user_id", "user_name", "client_id", "client_name", "via", "method"),
    *("path", "body", "status", "milliseconds", "records", "served", "request_id"),
    *("event", "about", "address"),
)
STATUSES: Mapping[str, str] = {
    "200": _("answered"),
    "304": _("not modified"),
    "400": _("invalid request"),
    "401": _("no valid token"),
    "403": _("refused"),
    "404": _("not found"),
    "410": _("deleted"),
    "429": _("too many requests"),
    "500": _("server error"),
    "503": _("server busy"),
}


@blueprint.get("/admin/audit")
@for_administrators
def index() -> Response:
    """Tell who looked at what, the newest first."""
    which = filter_of_form()
    found = which.found(before(), SHOWN + 1)
    more = len(found) > SHOWN
    return page(
        "admin/audit.html",
        400 if which.faults else 200,
        which=which,
        groups=descriptions.grouped(descriptions.described(found[:SHOWN])),
        older=which.query(before=found[SHOWN - 1].number) if more else "",
        is_later=before() is not None,
        statuses=STATUSES,
        kinds=KINDS,
        places={
            BY_APPS: _("an app or a script"),
            **{code: via.label for code, via in descriptions.vias().items()},
        },
        most=MOST,
    )


@blueprint.get("/admin/audit/download/<kind>")
@for_administrators
def download(kind: str) -> Response:
    """Send what is filtered: as csv, as ndjson, or as AuditEvents (fhir)."""
    if kind not in _FORMATS:
        raise NotFound
    which = filter_of_form()
    if not which.is_clear:
        raise PageError(
            400,
            _(
                "The filter matches more than one user, app or patient, or none. Search first, "
                "then download."
            ),
        )
    recorder.note(signed_in().user.id, descriptions.VIA, which.query())
    media_type, name, written = _FORMATS[kind]
    # For HEAD nothing is read.
    body = () if request.method == "HEAD" else stream_with_context(written(which))
    response = Response(body, mimetype=media_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


def _ndjson(which: AuditFilter) -> Iterator[bytes]:
    for row in _rows(which):
        yield fhir_json.dumps(row) + b"\n"


def _csv(which: AuditFilter) -> Iterator[bytes]:
    # writerow() returns what write() does.
    writer: Any = csv.writer(SimpleNamespace(write=str), quoting=csv.QUOTE_ALL)
    # The byte order mark makes spreadsheets take it for UTF-8.
    yield f"\ufeff{writer.writerow(_COLUMNS)}".encode()
    for row in _rows(which):
        cells = [*row.values()]
        if "more" not in row:
            shown = {**row, "served": " ".join(row["served"])}
            cells = [guarded(shown[name]) for name in _COLUMNS]
        yield writer.writerow(cells).encode()


def _fhir(which: AuditFilter) -> Iterator[bytes]:
    for found in _found(which):
        if isinstance(found, str):
            # What every reader of FHIR shows, and none takes for an event.
            issue = {"severity": "information", "code": "incomplete", "diagnostics": found}
            yield fhir_json.dumps({"resourceType": "OperationOutcome", "issue": [issue]}) + b"\n"
        else:
            yield from (fhir_json.dumps(event) + b"\n" for event in resources_of(found))


# By the kind: its media type, the file's name, and what writes it.
_FORMATS: Mapping[str, tuple[str, str, Callable[[AuditFilter], Iterator[bytes]]]] = {
    "csv": ("text/csv", "audit.csv", _csv),
    "ndjson": ("application/x-ndjson", "audit.ndjson", _ndjson),
    "fhir": ("application/fhir+ndjson", "AuditEvent.ndjson", _fhir),
}


def guarded(value: Any) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _found(which: AuditFilter) -> Iterator[Sequence[AuditEntry] | str]:
    """Yield what is filtered, the newest first; at the end a sentence where there is more."""
    last: int | None = None
    left = MOST
    while left > 0:
        size = min(_AT_ONCE, left)
        found = which.found(last, size)
        yield found
        left -= len(found)
        if len(found) < size:
            return
        last = found[-1].number
    if which.found(last, 1):
        yield _(
            "There are more than %(most)s entries. To get the rest, filter for entries until "
            "%(at)s.",
            most=MOST,
            at=found[-1].at,
        )


def _rows(which: AuditFilter) -> Iterator[dict[str, Any]]:
    for found in _found(which):
        if isinstance(found, str):
            yield {"more": found}
            continue
        users = descriptions.names_of(User.id, User.name, (entry.user_id for entry in found))
        client_ids = (entry.client_id for entry in found)
        clients = descriptions.names_of(Client.client_id, Client.name, client_ids)
        for entry in found:
            row = {
                **entry._asdict(),
                "user_name": users.get(entry.user_id or ""),
                "client_name": clients.get(entry.client_id or ""),
                "records": len(entry.served),
            }
            yield {name: row[name] for name in _COLUMNS}
