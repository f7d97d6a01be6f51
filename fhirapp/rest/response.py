"""Answers under /fhir: media type, layout, entity tags, caching.

Source: service.md 4; decisions 2.6, 2.14.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flask import Response, request
from werkzeug.http import http_date

from fhirapp.address import base_url
from fhirapp.fhir.bundle import compact
from fhirapp.fhir.outcome import NotAcceptable
from fhirapp.fhir.temporal import moment_of
from fhirapp.search.controls import parse_boolean

FHIR_JSON = "application/fhir+json"
# What a client may ask for and is answered in FHIR JSON.
_ACCEPTED = (FHIR_JSON, "application/json", "text/json", "json")
_CACHE = "no-cache, private"


class Form(NamedTuple):
    """How the answer is wanted."""

    pretty: bool = True


def wanted_form(arguments: Iterable[tuple[str, str]]) -> Form:
    """Read `_format`, `_pretty` and Accept. Raises NotAcceptable or InvalidParameter."""
    pretty, media = True, None
    for name, value in arguments:
        if name == "_pretty" and value:
            pretty = parse_boolean("_pretty", value)
        elif name == "_format" and value:
            media = value
    if media is not None:
        # A plus sign that the client did not escape arrives as a space.
        if media.partition(";")[0].strip().replace(" ", "+").lower() not in _ACCEPTED:
            raise NotAcceptable(
                f"_format: {media!r} is not supported; use {FHIR_JSON}", parameter="_format"
            )
    elif not accepts_json():
        raise NotAcceptable(f"The Accept header allows no JSON; this server answers {FHIR_JSON}.")
    return Form(pretty)


def accepts_json() -> bool:
    """Say whether the client's Accept header allows FHIR JSON."""
    accept = request.environ.get("HTTP_ACCEPT")
    if accept is None or accept in (FHIR_JSON, "*/*", ""):
        return True
    accepted = request.accept_mimetypes
    return any(
        accepted.quality(media) > 0 for media in (FHIR_JSON, "application/json", "text/json")
    )


def wants_json() -> bool:
    """Say whether FHIR JSON is asked for by name: in `_format` or Accept."""
    named = {media.lower() for media, _ in request.accept_mimetypes}
    return bool(request.args.get("_format")) or bool(named & {FHIR_JSON, "application/json"})


def arguments() -> list[tuple[str, str]]:
    """Return the parameters of the request's URL, repeated ones in their order."""
    return list(request.args.items(multi=True))


def is_strict() -> bool:
    """Say whether the client asks for strict handling (RFC 7240; FHIR R4 search §3.1.1.1)."""
    prefer = request.environ.get("HTTP_PREFER")
    if not prefer:
        return False
    return any(
        part.strip().replace('"', "").lower() == "handling=strict"
        for part in prefer.replace(";", ",").split(",")
    )


def respond(body: bytes, form: Form, *, etag: str, last_modified: str | None = None) -> Response:
    """Return a 200 with this JSON, or a 304 where the client already has it.

    last_modified is an instant.
    """
    headers = [("Cache-Control", _CACHE), ("ETag", etag), ("Vary", "Accept, Authorization")]
    if last_modified is not None:
        headers.append(("Last-Modified", http_date(moment_of(last_modified))))
    if _is_known(etag, last_modified):
        response = Response(status=304, headers=headers)
        del response.headers["Content-Type"]
        return response
    headers.append(("Content-Type", FHIR_JSON))
    return Response(body if form.pretty else compact(body), headers=headers)


def _is_known(etag: str, last_modified: str | None) -> bool:
    """Say whether the client's copy still holds; If-None-Match wins (decisions 2.14)."""
    environ = request.environ
    held = environ.get("HTTP_IF_NONE_MATCH")
    if held is not None:
        opaque = _opaque(etag)
        return held.strip() == "*" or opaque in map(_opaque, held.split(","))
    since = request.if_modified_since if "HTTP_IF_MODIFIED_SINCE" in environ else None
    if since is None or last_modified is None:
        return False
    return moment_of(last_modified).replace(microsecond=0) <= since


def _opaque(etag: str) -> str:
    """Return an entity tag without W/ and quotes: clients also send `W/3` (decisions 2.14)."""
    return etag.strip().removeprefix("W/").strip('"')


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
