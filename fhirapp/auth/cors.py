"""Browser apps of other origins: which may read our answers. The Fetch standard §CORS protocol.

Discovery is for all. Tokens and records are for the origins of the registered clients' redirect
URIs; no cookie is ever honoured there, so nothing is allowed with credentials.
"""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from flask import Flask, Response, request

from fhirapp.auth.models.client import ANY_LOOPBACK
from fhirapp.config import LOOPBACK
from fhirapp.db import reader

_PUBLIC = ("/.well-known/", "/fhir/.well-known/", "/fhir/metadata", "/oauth/jwks.json")
_REGISTERED = ("/oauth/token", "/oauth/revoke", "/fhir", "/api")
_METHODS = "GET, HEAD, POST, OPTIONS"
_TAKES = "Authorization, Accept, Content-Type, If-None-Match, If-Modified-Since, Prefer, Range"
_SHOWS = (
    "ETag, Last-Modified, Location, Content-Location, Content-Range, Retry-After, WWW-Authenticate,"
    " X-Request-Id, Preference-Applied"
)
_MAX_AGE_SECONDS = 600
_CLIENTS = (
    "SELECT redirect_uris FROM oauth_client"
    " WHERE redirect_uris IS NOT NULL AND NOT disabled AND approved_at IS NOT NULL"
)


def init_app(app: Flask) -> None:
    """Answer preflights, and say with each answer who may read it."""
    app.before_request(_preflight)
    app.after_request(_allow)


def _preflight() -> Response | None:
    is_preflight = request.method == "OPTIONS" and (
        "Access-Control-Request-Method" in request.headers
    )
    if not is_preflight or not request.path.startswith((*_PUBLIC, *_REGISTERED)):
        return None
    response = Response(status=204)
    del response.headers["Content-Type"]
    if _allowed():
        response.headers["Access-Control-Allow-Methods"] = _METHODS
        response.headers["Access-Control-Allow-Headers"] = _TAKES
        response.headers["Access-Control-Max-Age"] = str(_MAX_AGE_SECONDS)
    return response


def _allow(response: Response) -> Response:
    if "HTTP_ORIGIN" in request.environ and (allowed := _allowed()):
        response.headers["Access-Control-Allow-Origin"] = allowed
        if request.method != "OPTIONS":
            response.headers["Access-Control-Expose-Headers"] = _SHOWS
        if allowed != "*":
            response.vary.add("Origin")
    return response


def _allowed() -> str:
    """Return the origin that may read the answer, * for all, or nothing."""
    if request.path.startswith(_PUBLIC):
        return "*"
    origin = request.headers.get("Origin", "")
    if request.path.startswith(_REGISTERED) and origin and _is_registered(origin):
        return origin
    return ""


def _is_registered(origin: str) -> bool:
    for (stored,) in reader().all(_CLIENTS):
        uris = json.loads(stored) if isinstance(stored, str) else stored
        for uri in uris:
            if uri == ANY_LOOPBACK:
                if _host_of(origin) in LOOPBACK:
                    return True
            elif _origin_of(uri) == origin:
                return True
    return False


def _host_of(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.scheme == "http" else ""


def _origin_of(uri: str) -> str:
    """Return the origin of an address as browsers write it: without the scheme's own port."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    own = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, own) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"
