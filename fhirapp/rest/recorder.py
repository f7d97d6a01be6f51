"""Record each request under /fhir in the audit trail (audit/), before its answer leaves.

Where an entry cannot be written, because the disk is full, nothing of a record is answered but 503;
with `FHIRAPP_AUDIT=best-effort`, and in the demo, it is answered all the same, and the trail says
how many entries it lacks. Requests of unknown clients are recorded in short form, so that they
cannot fill the disk. A request that finds nothing is recorded with the patients that it names,
since that answer reveals something too. A resource that was filed wrongly and corrected belongs to
no patient.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from threading import Lock
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote_plus, unquote_plus

from flask import Flask, Response, current_app, g, request

from fhirapp.audit import Unwritable, append
from fhirapp.auth.clients.registration import PAGES
from fhirapp.auth.protector import BearerToken, request_key, used_token
from fhirapp.db import Reader, db, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.temporal import instant
from fhirapp.rest.middleware import milliseconds
from fhirapp.search.reference import Reference
from fhirapp.store.prepare import CARRIES

# What makes the answer to a request that cannot be recorded: rest/ puts it here.
REFUSE = "fhirapp.recorder.refuse"
# Where the environment of a request names the page of ours that sent it.
VIA = "fhirapp.via"
# Characters that are kept of an address, and of the form of a search by POST.
_LONGEST = 4_000
# The same, of a request without a known token.
_LONGEST_OF_STRANGER = 200
_LONGEST_METHOD = 16
_LONGEST_ADDRESS = 64
# Where the environment of a request says that a page is recorded too.
_BY_PAGE = "fhirapp.by_page"
# What JSON writes with six characters, an address with three.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_EXTENSION = "fhirapp.recorder"
_SERVED = "audit_served"
# Of a client's refused requests (429) each process records one a minute.
_THROTTLED_SECONDS = 60
# Patients of one request that are recorded: as many as $export takes.
_MOST_PATIENTS = 10_000
_OF_PATIENT = re.compile(rf"/(?:fhir|api)/Patient/({ID_PATTERN})(?:/|$)")
_SEARCH = re.compile(r"/(?:fhir|api)/([A-Z][A-Za-z]+)(?:/|/_search)?")
# Of a patient's by form, or of several types: the body of POST /fhir is a batch.
_SEVERAL = re.compile(r"/fhir/?|/fhir/(?:.*/)?_search|/fhir/Patient/[^/]+/[^/]+")
_OPERATION = re.compile(r"/fhir/(?:.*/)?\$[^/]+")
_REFERENCE = re.compile(rf"((?:.*/)?Patient/)?({ID_PATTERN})(?:/_history/{ID_PATTERN})?")
# Parameters in which an id without a type is a patient's.
_PATIENT_PARAMS = frozenset({"patient", "subject"})


class ServedVersion(Protocol):
    """A version as the database returns it."""

    @property
    def id(self) -> str: ...
    @property
    def version_id(self) -> int: ...
    @property
    def patient_id(self) -> str | None: ...


class _ByPage(NamedTuple):
    """The user who fetches or begins something on a page that is not under /fhir."""

    user_id: str
    via: str
    what: str


def init_app(app: Flask) -> None:
    """Record every request under /fhir, and under /api, which is the same."""
    app.extensions[_EXTENSION] = _Throttled()
    app.after_request(_note)


def note_served(type_name: str, resource_id: str, version_id: int, patient_id: str | None) -> None:
    """Record that a resource is in the answer to this request, and whose record it is."""
    patients: dict[str, str | None] = g.setdefault(_SERVED, {})
    patients[f"{type_name}/{resource_id}/{version_id}"] = patient_id


def note_all_served(type_name: str, versions: Iterable[ServedVersion]) -> None:
    """Record that resources of a type are in the answer to this request."""
    patients: dict[str, str | None] = g.setdefault(_SERVED, {})
    patients.update(
        {
            f"{type_name}/{version.id}/{version.version_id}": version.patient_id
            for version in versions
        }
    )


def count_served() -> int:
    """Return how many resources are in the answer to this request."""
    return len(g.get(_SERVED, ()))


def note(user_id: str, via: str, what: str = "") -> None:
    """Record this request of a page, by which records are fetched or a fetch begins.

    via names the page; what is recorded beside the path, as a form, without secrets.
    """
    request.environ[_BY_PAGE] = _ByPage(user_id, via, what)


def _note(response: Response) -> Response:
    environ = request.environ
    by_page: _ByPage | None = environ.get(_BY_PAGE)
    if by_page is None and not environ["PATH_INFO"].startswith(("/fhir", "/api/")):
        return response
    token, status = used_token(), response.status_code
    left_out: int | None = 0
    if status == 429:
        throttled: _Throttled = current_app.extensions[_EXTENSION]
        client_id = token.client_id if token else None
        left_out = throttled.count(client_id, time.monotonic())
        if left_out is None:
            return response
    answered: Mapping[str, str | None] = g.get(_SERVED, {})
    now, key = datetime.now(UTC), request_key()
    line: dict[str, Any] = {
        "at": instant(now),
        "request": key.shown,
        "via": environ.get(VIA, ""),
        "from": (request.remote_addr or "")[:_LONGEST_ADDRESS],
        "method": environ["REQUEST_METHOD"][:_LONGEST_METHOD],
        "status": status,
        "ms": round(milliseconds(), 2),
        "served": [*answered],
        "body": "",
    }
    if key.own != key.shown:
        line["id"] = key.own
    patients: Sequence[str] = ()
    if by_page is not None:
        _add_page(line, environ, by_page)
    elif token is not None:
        patients = _add_known(line, environ, token)
    else:
        _add_stranger(line, environ)
    line["patients"] = [*dict.fromkeys(filter(None, (*patients, *answered.values())))]
    if left_out:
        line["body"] = f"and {left_out} more since the last line of this kind"
    try:
        append(line)
    except Unwritable as error:
        if (by_page is not None or token is not None) and status < 400:
            refuse: Callable[[str], Response] = current_app.extensions[REFUSE]
            return refuse(str(error))
    return response


def _add_known(
    line: dict[str, Any], environ: Mapping[str, Any], token: BearerToken
) -> Sequence[str]:
    """Add what a known client requested; return the patients that the request names."""
    path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
    line["user"], line["client"] = token.user_id, token.client_id
    line["path"] = _text(_bytes(f"{path}?{query}" if query else path))
    body = request.get_data() if environ["REQUEST_METHOD"] == "POST" else b""
    if body:
        line["body"] = _text(body)
    # Of what came, not of what is kept of it.
    return patients_named(path, query, body) if line["status"] < 400 else ()


def _add_stranger(line: dict[str, Any], environ: Mapping[str, Any]) -> None:
    line["user"] = line["client"] = None
    line["path"] = _text(_bytes(environ["PATH_INFO"]), _LONGEST_OF_STRANGER)


def _add_page(line: dict[str, Any], environ: Mapping[str, Any], by: _ByPage) -> None:
    line["user"], line["client"], line["via"] = by.user_id, PAGES, by.via
    # Without its query and its form, where secrets may be.
    line["path"] = _text(_bytes(environ["PATH_INFO"]))
    line["body"] = _text(by.what.encode())


def _bytes(raw: str) -> bytes:
    """Return the bytes of an address, which WSGI has as Latin-1."""
    return raw.encode("latin-1", "replace")


def _text(raw: bytes, longest: int = _LONGEST) -> str:
    """Return what is kept of an address or a body; what is as long as longest may be cut off."""
    # No character has more bytes.
    return _CONTROL.sub(_escaped, raw[: 4 * longest].decode("utf-8", "replace"))[:longest]


def _escaped(sign: re.Match[str]) -> str:
    return f"%{ord(sign[0]):02X}"


def patients_named(path: str, query: str, body: str | bytes) -> list[str]:
    """Return the ids of the patients that an answered request names.

    body is a POST's: a form, or an operation's Parameters resource. Nothing may be cut off.
    """
    patients: dict[str, None] = {}
    if match := _OF_PATIENT.match(path):
        patients[match[1]] = None
    if query or body:
        for patient_id in _in_parameters(path, query, body):
            patients[patient_id] = None
            if len(patients) == _MOST_PATIENTS:
                break
    return [*patients]


def _in_parameters(path: str, query: str, body: str | bytes) -> Iterator[str]:
    if match := _SEARCH.fullmatch(path):
        definition = types().get(match[1])
        if definition is not None:
            for text in (query, _decoded(body)):
                yield from _in_search(definition, text)
    elif _OPERATION.fullmatch(path) or _SEVERAL.fullmatch(path):
        is_json = body.lstrip()[:1] in ("{", b"{")
        pairs = _parameters(body) if is_json else _pairs(_decoded(body))
        for name, value in (*_pairs(query), *pairs):
            if name == "patient":
                yield from _patients(value, of_patients=True)


def _decoded(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names, and the values as they are written, of a form."""
    # Not parse_qsl, which decodes values too: each request comes here, and few values are needed.
    for pair in text.split("&") if text else ():
        name, _, value = pair.partition("=")
        yield (unquote_plus(name) if "%" in name else name), value


def _in_search(definition: Definition, text: str) -> Iterator[str]:
    for name, value in _pairs(text):
        base, _, modifier = name.partition(":")
        if name == "_id" and definition.name == "Patient":
            yield from _patients(value, of_patients=True)
        elif modifier in ("", "Patient") and isinstance(
            definition.params.by_name.get(base), Reference
        ):
            yield from _patients(value, of_patients=base in _PATIENT_PARAMS or bool(modifier))


def _patients(value: str, *, of_patients: bool) -> Iterator[str]:
    """Yield the ids of a value's patients; with of_patients an id without a type is one."""
    for reference in unquote_plus(value).split(","):
        match = _REFERENCE.fullmatch(reference)
        if match and (match[1] or of_patients):
            yield match[2]


def _parameters(body: str | bytes) -> Iterator[tuple[str, str]]:
    """Yield the names, and the texts and references as a form has them, of a Parameters."""
    try:
        for member in fhir_json.loads(body)["parameter"]:
            for name, value in member.items():
                text = value.get("reference") if isinstance(value, dict) else value
                if name.startswith("value") and isinstance(text, str):
                    yield member["name"], quote_plus(text)
    except (ValueError, LookupError, TypeError, AttributeError):
        # What was cut off, in a line that is read again.
        return


class _Throttled:
    """The refused requests (429) of clients that this process did not record."""

    def __init__(self) -> None:
        self._counts: dict[str | None, tuple[float, int]] = {}
        self._lock = Lock()

    def count(self, client_id: str | None, now: float) -> int | None:
        """Count a request of a client, or of strangers, that was refused as one of too many.

        now is in seconds of a clock. Return how many were left out since the last one that was
        noted; None where this is too.
        """
        with self._lock:
            noted_at, left_out = self._counts.get(client_id, (now - _THROTTLED_SECONDS, 0))
            if now - noted_at < _THROTTLED_SECONDS:
                self._counts[client_id] = noted_at, left_out + 1
                return None
            self._counts[client_id] = now, 0
            return left_out


# Values of one SELECT.
_MOST_VALUES = 500


def patients_of(names: set[str], snapshot: Reader | None = None) -> dict[str, str | None]:
    """Return whose record each is now, by Type/id/version; as the request sees it by default."""
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
    carried = dict(patients_with(snapshot, by_type.get("Binary", set())))
    for name in names:
        if name.startswith("Binary/") and patients.get(name) is None:
            patients[name] = carried.get(name.split("/")[1])
    return patients


def patients_with(snapshot: Reader, binary_ids: set[str]) -> Iterator[tuple[str, str]]:
    """Yield ids of Binaries, and of the patients whose documents carry them."""
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
        batch = ordered[at : at + _MOST_VALUES]
        yield from snapshot.all(f"{sql} ({', '.join('?' * len(batch))})", batch)


def patients_of_earlier(lines: Sequence[Mapping[str, Any]]) -> list[set[str]]:
    """Return whose records entries of an earlier release are about, one after the other."""
    with closing(Reader(db.engine)) as snapshot:
        whose = patients_of({name for line in lines for name in line.get("served", ())}, snapshot)
    return [
        {*filter(None, (*map(whose.get, line.get("served", ())), *_named_by(line)))}
        for line in lines
    ]


def _named_by(line: Mapping[str, Any]) -> Sequence[str]:
    """Return the patients that were noted; of the first edition's entries by their text."""
    if "named" in line or "event" in line:
        patients: Sequence[str] = line.get("named", ())
        return patients
    path, _, query = line["path"].partition("?")
    return patients_named(path, query, line["body"]) if line["status"] < 400 else ()
