"""POST /fhir: a Bundle of reads and searches, each answered as if it were asked by itself.

Each entry has its own status, its own access and its own line in the audit trail. Nothing is
written: an entry that would is refused, and so is a transaction that has one. So is one that would
begin an export, by its own view: what an address means is decided in one place.
Source: FHIR R4 http §3.1.0.11, bundle §2.36; decisions §1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from flask import Blueprint, Response, request
from werkzeug.http import http_date

from fhirapp.auth.protector import require_oauth
from fhirapp.db.reader import forget_reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import Entry, beside, bundle
from fhirapp.fhir.outcome import (
    BodyTooLong,
    FhirError,
    InvalidParameter,
    MethodNotAllowed,
    Unavailable,
    UnsupportedMediaType,
    issue,
    operation_outcome,
)
from fhirapp.fhir.temporal import moment_of
from fhirapp.rest.bundle_answer import bundle_id
from fhirapp.rest.internal import InternalResponse, ask
from fhirapp.rest.recorder import VIA
from fhirapp.rest.response import (
    FHIR_JSON,
    FHIR_XML,
    FORM_PARAMETERS,
    JSON_NAMES,
    XML_NAMES,
    arguments,
    check_known,
    fhir_address,
    negotiate,
    parse_resource,
    rendered,
    respond,
)

MAX_ENTRIES = 100
# What the answers may take in all; an entry beyond that is refused.
MAX_BYTES, MAX_SECONDS = 32_000_000, 20.0
KINDS = ("batch", "transaction")

blueprint = Blueprint("batch", __name__)


@blueprint.post("/fhir")
@blueprint.post("/fhir/")
@require_oauth()
def answer_batch() -> Response:
    """Return the answers of a Bundle's requests, in their order. Raises FhirError."""
    parameters = arguments()
    check_known(parameters, FORM_PARAMETERS)
    layout = negotiate(parameters)
    kind, entries = _read_bundle()
    # Each entry takes a snapshot of its own.
    forget_reader()
    try:
        answers = [*_answers(entries, is_transaction=kind == "transaction")]
    except _Failed as failed:
        # To HEAD there is no body.
        outcome = failed.answer.body or fhir_json.dumps_indented(
            operation_outcome([issue("error", "processing", f"An entry failed: {failed}.")])
        )
        content, media = rendered(outcome, layout)
        response = Response(content, failed.answer.status, content_type=media)
    else:
        digest = blake2b(digest_size=16)
        for _, body, members in answers:
            digest.update((body or b"") + members)
        tag = digest.hexdigest()
        answered = bundle(bundle_id(tag), f"{kind}-response", None, (), answers)
        response = respond(answered, layout, etag=f'W/"{tag}"')
    response.headers["Cache-Control"] = "no-store"
    return response


class _Failed(Exception):
    """An entry of a transaction that failed: its answer is the whole's."""

    def __init__(self, answer: InternalResponse) -> None:
        super().__init__(answer.line)
        self.answer = answer


class _Request(NamedTuple):
    """What an entry asks for."""

    method: str
    path: str
    headers: Mapping[str, str]


def _read_bundle() -> tuple[str, list[Any]]:
    """Return the Bundle's type and entries. Raises FhirError."""
    if request.mimetype not in JSON_NAMES | XML_NAMES:
        raise UnsupportedMediaType(f"A batch takes a body of type {FHIR_JSON} or {FHIR_XML}.")
    try:
        content = parse_resource("Bundle")
    except ValueError as error:
        raise InvalidParameter("Bundle", f"is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("resourceType") != "Bundle":
        raise InvalidParameter("Bundle", "is asked for here; resources are imported, not posted")
    kind, entries = content.get("type"), content.get("entry", [])
    if kind not in KINDS:
        raise InvalidParameter("Bundle.type", f"has to be {' or '.join(KINDS)}")
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise InvalidParameter("Bundle.entry", f"has to be a list of at most {MAX_ENTRIES}")
    return kind, entries


def _answers(entries: list[Any], *, is_transaction: bool) -> Iterator[Entry]:
    """Yield the answer of each entry; of a transaction all or none. Raises FhirError or _Failed."""
    parsed = [_read(entry, f"Bundle.entry[{place}].request") for place, entry in enumerate(entries)]
    # Before anything is read.
    for item in parsed if is_transaction else ():
        if isinstance(item, FhirError):
            raise item
    size, until = 0, time.monotonic() + MAX_SECONDS
    for item in parsed:
        answer = _answer(item, size, until)
        if isinstance(answer, FhirError):
            if is_transaction:
                raise answer
            yield _error_entry(answer.status, answer.outcome())
        elif answer.status >= HTTPStatus.BAD_REQUEST:
            if is_transaction:
                raise _Failed(answer)
            # To HEAD there is no body.
            yield _error_entry(answer.status, answer.json() if answer.body else None)
        else:
            size += answer.size
            yield _success_entry(answer)


def _read(entry: Any, place: str) -> _Request | FhirError:
    """Read an entry; return why it is refused where it is."""
    try:
        return _request(entry, place)
    except FhirError as error:
        return error


def _request(entry: Any, place: str) -> _Request:
    """Return what an entry asks for. Raises FhirError."""
    fields = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(fields, dict):
        raise InvalidParameter(place, "is missing")
    method, url = fields.get("method"), fields.get("url")
    if not (isinstance(method, str) and isinstance(url, str) and url):
        raise InvalidParameter(place, "needs a method and a url")
    if method not in ("GET", "HEAD"):
        raise MethodNotAllowed(f"{method[:20]} is not supported here; this server only reads.")
    path = url.removeprefix(fhir_address("")).lstrip("/")
    if ":" in path.partition("?")[0].partition("/")[0] or not path.isprintable() or "#" in path:
        raise InvalidParameter(f"{place}.url", "is no address here; use Patient/p1, without a host")
    headers = {"Accept": FHIR_JSON}
    if prefer := request.headers.get("Prefer"):
        headers["Prefer"] = prefer
    if isinstance(etag := fields.get("ifNoneMatch"), str) and etag.isprintable():
        headers["If-None-Match"] = etag
    if isinstance(since := fields.get("ifModifiedSince"), str):
        try:
            headers["If-Modified-Since"] = http_date(moment_of(since))
        except ValueError:
            raise InvalidParameter(f"{place}.ifModifiedSince", "is not an instant") from None
    # Each answer is in the format of the whole.
    path, mark, query = path.partition("?")
    query = "&".join(part for part in query.split("&") if _name_of(part) != "_format")
    return _Request(method, f"/fhir/{path}{mark}{query}", headers)


def _name_of(part: str) -> str:
    """Return the name of a parameter in a query, whatever its encoding."""
    return unquote_plus(part.partition("=")[0])


def _answer(item: _Request | FhirError, size: int, until: float) -> InternalResponse | FhirError:
    """Answer an entry; return why it is refused where it is. size is that of those before."""
    if isinstance(item, FhirError):
        return item
    if size > MAX_BYTES:
        return BodyTooLong(f"The answers before this one are longer than {MAX_BYTES} bytes.")
    if time.monotonic() > until:
        return Unavailable(f"The answers before this one took {MAX_SECONDS:g} seconds.")
    method, path, headers = item
    via, authorization = request.environ.get(VIA, ""), request.headers["Authorization"]
    answer = ask(path, authorization, method=method, headers=headers, via=via, in_batch=True)
    is_empty = method == "HEAD" or answer.status == HTTPStatus.NOT_MODIFIED
    if not is_empty and answer.headers.get("Content-Type") != FHIR_JSON:
        return InvalidParameter("url", "leads to what is no resource; ask for it by itself")
    return answer


def _success_entry(answer: InternalResponse) -> Entry:
    """Return the entry of an answer that is no refusal."""
    fields = {"status": _status(answer.status)}
    if etag := answer.headers.get("ETag"):
        fields["etag"] = etag
    if not answer.body:
        return Entry("", None, beside(response=fields)[1:])
    content = answer.json()
    changed = content.get("meta", {}).get("lastUpdated")
    if changed:
        fields["lastModified"] = changed
    path = f"{content['resourceType']}/{content['id']}" if changed and "id" in content else ""
    return Entry(fhir_address(path) if path else "", answer.body, beside(response=fields))


def _error_entry(status: int, outcome: Any) -> Entry:
    fields = {"status": _status(status)} | ({"outcome": outcome} if outcome else {})
    return Entry("", None, beside(response=fields)[1:])


def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"
