"""The audit trail: who looked at what."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flask import Response, request, stream_with_context
from werkzeug.exceptions import NotFound

from fhirapp.audit import trail
from fhirapp.audit.index import Entry
from fhirapp.fhir import json as fhir_json
from fhirapp.web.admin.names import VIA, clients_named, users_named
from fhirapp.web.admin.told import PLACES, told
from fhirapp.web.admin.trail import BY_APPS, Asked, asked, before
from fhirapp.web.pages import PageError, blueprint_of, for_administrators, page, somebody
from fhirapp.web.texts import _

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
)
STATUSES: Mapping[str, str] = {
    "200": "answered",
    "304": "known already",
    "400": "not understood",
    "401": "without a valid token",
    "403": "refused",
    "404": "not found",
    "410": "deleted",
    "429": "asked too often",
    "500": "the server failed",
    "503": "the server was busy",
}


@blueprint.get("/admin/audit")
@for_administrators
def every() -> Response:
    """Tell who looked at what, the newest first."""
    which = asked()
    found = which.found(before(), SHOWN + 1)
    more = len(found) > SHOWN
    return page(
        "admin/audit.html",
        400 if which.faults else 200,
        which=which,
        listed=told(found[:SHOWN]),
        older=which.query(before=found[SHOWN - 1].number) if more else "",
        is_later=before() is not None,
        statuses=STATUSES,
        places={BY_APPS: "an app or a script", **PLACES},
        most=MOST,
    )


@blueprint.get("/admin/audit/download/<kind>")
@for_administrators
def download(kind: str) -> Response:
    """Send what is filtered, as csv or ndjson."""
    if kind not in ("csv", "ndjson"):
        raise NotFound
    which = asked()
    if not which.is_clear:
        raise PageError(400, _("Look first whom the filter finds, and download then."))
    trail.note(somebody().user.id, VIA, which.query())
    written = _csv(which) if kind == "csv" else _ndjson(which)
    # Asked for with HEAD, nothing is read.
    body = () if request.method == "HEAD" else stream_with_context(written)
    response = Response(body, mimetype="text/csv" if kind == "csv" else "application/x-ndjson")
    response.headers["Content-Disposition"] = f'attachment; filename="audit.{kind}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


def _ndjson(which: Asked) -> Iterator[bytes]:
    for row in _rows(which):
        yield fhir_json.dumps(row) + b"\n"


def _csv(which: Asked) -> Iterator[bytes]:
    line = io.StringIO()
    writer = csv.writer(line, quoting=csv.QUOTE_ALL)
    # So that spreadsheets take it for UTF-8.
    yield "\ufeff".encode()
    writer.writerow(_COLUMNS)
    for row in _rows(which):
        if "more" in row:
            writer.writerow([row["more"]])
        else:
            cells = {**row, "served": " ".join(row["served"])}
            writer.writerow([guarded(cells[name]) for name in _COLUMNS])
        yield line.getvalue().encode()
        line.seek(0)
        line.truncate()
    yield line.getvalue().encode()


def guarded(value: Any) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _rows(which: Asked) -> Iterator[dict[str, Any]]:
    """Yield what is filtered, the newest first; at the end a line that says so if there is more."""
    last: int | None = None
    left = MOST
    while left > 0:
        size = min(_AT_ONCE, left)
        found = which.found(last, size)
        yield from _named(found)
        left -= len(found)
        if len(found) < size:
            return
        last = found[-1].number
    if which.found(last, 1):
        told = _(
            "There are more than %(most)s entries: ask for those until %(at)s.",
            most=MOST,
            at=found[-1].at,
        )
        yield {"more": told}


def _named(found: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    users = users_named(one.user_id for one in found)
    clients = clients_named(one.client_id for one in found)
    for one in found:
        row = {
            **one._asdict(),
            "user_name": users.get(one.user_id or ""),
            "client_name": clients.get(one.client_id or ""),
            "records": len(one.served),
        }
        yield {name: row[name] for name in _COLUMNS}
