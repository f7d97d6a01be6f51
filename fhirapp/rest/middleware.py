"""What every request and every answer passes: limits of size, and CORS for browser apps.

Discovery, and how an app should look, may be read from any origin. Tokens and records may be read
from the origins of the registered clients' redirect URIs; no cookie is ever honoured there, so
nothing is allowed with credentials. Source: decisions §4; the Fetch standard §CORS protocol.
"""

from __future__ import annotations

import json
import re
import time

from flask import Flask, Response, current_app, g, request

from fhirapp.auth.models import ANY_LOOPBACK
from fhirapp.auth.protector import REQUEST_ID_HEADER, request_id
from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.fhir.outcome import BodyTooLong, HeadersTooLong, UrlTooLong
from fhirapp.rest.response import POLICY, VerbatimResponse
from fhirapp.url_syntax import PORTS, is_loopback, split_address

# In bytes. Waitress is told more (server/serve.py), so that these answers are ours.
MAX_URL = 8 * 1024
MAX_HEADERS = 32 * 1024
MAX_BODY = 1024 * 1024
# Of pages that take an address of ours as a parameter, its signs escaped; how theirs begin is in
# the extension, where web/ puts it.
MAX_LONG_URL = 4 * MAX_URL
LONG_URLS = "fhirapp.long_urls"
# Where web/ lists how the paths begin whose requests may take seconds: server/fair.py.
SLOW_PATHS = "fhirapp.slow_paths"
# Where features/health lists its paths, which have threads of their own.
HEALTH_PATHS = "fhirapp.health_paths"
# In the extensions, the address of a proxy that seems to be one and is not named:
# server/connections.py.
UNNAMED_PROXY = "fhirapp.unnamed_proxy"
_PUBLIC = re.compile(
    r"(?:/fhir)?/\.well-known/.*|/fhir/metadata|/oauth/jwks\.json|/smart-style\.json"
)
_REGISTERED = re.compile(r"/oauth/(?:token|revoke|userinfo)|/(?:fhir|api)(?:/.*)?", re.DOTALL)
_METHODS = "GET, HEAD, POST, OPTIONS"
_TAKES = "Authorization, Accept, Content-Type, If-None-Match, If-Modified-Since, Prefer, Range"
_SHOWS = (
    "ETag, Last-Modified, Location, Content-Location, Content-Range, Retry-After, WWW-Authenticate,"
    " X-Request-Id, Preference-Applied"
)
_MAX_AGE_SECONDS = 600
# A year. Not of subdomains, which may be other programs'.
_HSTS = "max-age=31536000"
_CLIENTS = (
    "SELECT redirect_uris FROM oauth_client"
    " WHERE redirect_uris IS NOT NULL AND NOT disabled AND approved_at IS NOT NULL"
)


def init_app(app: Flask) -> None:
    """Register the limits, the answer to preflights, and who may read each answer."""
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.before_request(_begin)
    app.after_request(_allow)


def _begin() -> Response | None:
    """Note when the request began, and answer a preflight. Raises as _check_size does."""
    g.began = time.perf_counter()
    if request.environ["REQUEST_METHOD"] == "OPTIONS" and (response := _preflight()):
        return response
    _check_size()
    return None


def milliseconds() -> float:
    """Return how long the request has taken until now."""
    now = time.perf_counter()
    return float(1_000 * (now - g.get("began", now)))


def _check_size() -> None:
    """Refuse what is too long to be meant. Raises UrlTooLong, HeadersTooLong or BodyTooLong."""
    environ = request.environ
    length = len(environ["PATH_INFO"]) + len(environ.get("QUERY_STRING", ""))
    if length > MAX_URL:
        is_long = environ["PATH_INFO"].startswith(current_app.extensions.get(LONG_URLS, ()))
        most = MAX_LONG_URL if is_long else MAX_URL
        if length > most:
            raise UrlTooLong(f"The address is longer than {most} bytes; send a POST to _search.")
    if sum(len(name) + len(value) for name, value in environ.items() if name[:5] == "HTTP_") > (
        MAX_HEADERS
    ):
        raise HeadersTooLong(f"The headers are longer than {MAX_HEADERS} bytes.")
    if (request.content_length or 0) > MAX_BODY:
        raise BodyTooLong(f"The body is longer than {MAX_BODY} bytes.")


def _preflight() -> Response | None:
    is_preflight = "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.environ
    if not is_preflight or not (_is_public() or _is_for_registered()):
        return None
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def _allow(response: Response) -> Response:
    added = {"X-Content-Type-Options": "nosniff", REQUEST_ID_HEADER: request_id()}
    if settings().base_url.startswith("https:"):
        added["Strict-Transport-Security"] = _HSTS
    if isinstance(response, VerbatimResponse):
        response.headers.more(added.items())
    else:
        response.headers.update(added)
        response.headers.setdefault("Content-Security-Policy", POLICY)
    if "HTTP_ORIGIN" not in request.environ:
        return response
    if _is_public():
        allowed = "*"
    elif _is_for_registered():
        # Whether it is allowed or not: what is kept of the answer is for this origin.
        response.vary.add("Origin")
        allowed = _registered_origin()
    else:
        return response
    if allowed:
        response.headers["Access-Control-Allow-Origin"] = allowed
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = _METHODS
            response.headers["Access-Control-Allow-Headers"] = _TAKES
            response.headers["Access-Control-Max-Age"] = str(_MAX_AGE_SECONDS)
        else:
            response.headers["Access-Control-Expose-Headers"] = _SHOWS
    return response


def _is_public() -> bool:
    return _PUBLIC.fullmatch(request.path) is not None


def _is_for_registered() -> bool:
    return _REGISTERED.fullmatch(request.path) is not None


def _registered_origin() -> str:
    """Return the request's origin where a client is registered there, else nothing."""
    origin = request.headers["Origin"]
    if origin != _origin_of(origin):
        return ""
    for (stored,) in reader().all(_CLIENTS):
        uris = json.loads(stored) if isinstance(stored, str) else stored
        if any(_is_at(uri, origin) for uri in uris):
            return origin
    return ""


def _is_at(uri: str, origin: str) -> bool:
    if uri == ANY_LOOPBACK:
        scheme, _, authority = origin.partition("://")
        return scheme == "http" and is_loopback(authority)
    return _origin_of(uri) == origin


def _origin_of(uri: str) -> str:
    """Return the origin of an address as browsers write it: without the scheme's default port.

    Empty for an address without an origin: an app's own scheme, `null`.
    """
    parts = split_address(uri)
    scheme, host, port = parts.scheme, parts.hostname, parts.port
    if scheme not in PORTS or not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" + ("" if port in (None, PORTS[scheme]) else f":{port}")
