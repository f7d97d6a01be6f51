"""Answers under /fhir: media type, entity tags, caching. service.md 4; decisions 2.14."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

from flask import Response, request
from werkzeug.http import http_date, parse_date

from fhirapp.address import base_url
from fhirapp.fhir.bundle import compact
from fhirapp.fhir.temporal import moment_of
from fhirapp.rest.negotiation import FHIR_JSON, handling

_CACHE = "no-cache, private"
# RFC 7240 §2: Prefer, for under strict handling another answer may come.
_VARY = "Accept, Authorization, Prefer"


def respond(
    body: bytes,
    pretty: bool,
    *,
    etag: str,
    last_modified: str | None = None,
    content_type: str = FHIR_JSON,
) -> Response:
    """Return a 200 with this body, or a 304 where the client already has it.

    last_modified is an instant.
    """
    headers = [("Cache-Control", _CACHE), ("ETag", etag), ("Vary", _VARY)]
    if preferred := handling():
        headers.append(("Preference-Applied", f"handling={preferred}"))
    if last_modified is not None:
        headers.append(("Last-Modified", http_date(moment_of(last_modified))))
    if _is_known(etag, last_modified):
        response = Response(status=304, headers=headers)
        del response.headers["Content-Type"]
        return response
    headers.append(("Content-Type", content_type))
    return Response(body if pretty else compact(body), headers=headers)


def fhir_address(path: str) -> str:
    """Return the absolute address of a path below /fhir."""
    return f"{base_url()}/fhir/{path}"


def with_addresses(body: bytes, attachments: str) -> bytes:
    """Make the attachments' addresses in a stored body absolute (decisions 2.18).

    The pattern cannot stand in text: there its quotes would be escaped.
    """
    if not attachments:
        return body
    return body.replace(b'"url": "Binary/', f'"url": "{base_url()}/fhir/Binary/'.encode())


def _is_known(etag: str, last_modified: str | None) -> bool:
    """Say whether the client's copy still holds; If-None-Match wins (decisions 2.14).

    RFC 9110 §13.1: of GET and HEAD only.
    """
    environ = request.environ
    if environ["REQUEST_METHOD"] == "POST":
        return False
    held = environ.get("HTTP_IF_NONE_MATCH")
    if held is not None:
        opaque = _opaque(etag)
        return held.strip() == "*" or opaque in map(_opaque, held.split(","))
    since = _date(environ.get("HTTP_IF_MODIFIED_SINCE"))
    if since is None or last_modified is None:
        return False
    return moment_of(last_modified).replace(microsecond=0) <= since


def _opaque(etag: str) -> str:
    """Return an entity tag without W/ and quotes: clients also send `W/3` (decisions 2.14)."""
    return etag.strip().removeprefix("W/").strip('"')


def _date(value: str | None) -> datetime | None:
    """Return the moment of an HTTP date; None for what is none (RFC 9110 §13.1.3: ignored)."""
    try:
        return parse_date(value)
    except OverflowError:
        return None


def document_etag(body: bytes) -> str:
    """Return the entity tag of what is made of the declarations and changes with its content."""
    return f'W/"{blake2b(body, digest_size=16).hexdigest()}"'
