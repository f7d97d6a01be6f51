"""Addresses of the server: below the base URL or, without one, the request's (decisions §1)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import has_app_context, has_request_context, request

from fhirapp.config import settings
from fhirapp.url_syntax import is_loopback, normalise_authority

_ALL_INTERFACES = frozenset({"0.0.0.0", "::", ""})
# Key of the WSGI environment: an answer needs the address for each of its entries.
_CACHED = "fhirapp.base_url"


def base_url() -> str:
    """Return the address of the server, without a trailing slash and without /fhir."""
    configured = settings().base_url
    if configured:
        return configured
    if not has_request_context():
        return _listening_url()
    environ = request.environ
    url: str | None = environ.get(_CACHED)
    if url is None:
        host = normalise_authority(request.host, "http")
        url = f"http://{host}" if is_loopback(host) else _listening_url()
        environ[_CACHED] = url
    return url


def path_of_service() -> str:
    """Return the path of the base URL, such as /records; empty if it has none."""
    return urlsplit(settings().base_url).path


def own_prefix() -> str:
    """Return the prefix of absolute URLs of this server's resources; empty without a base URL."""
    configured = settings().base_url if has_app_context() else ""
    return f"{configured}/fhir/" if configured else ""


def fhir_url() -> str:
    """Return the FHIR base address, which is also the audience (`aud`) that apps must name."""
    return f"{base_url()}/fhir"


def token_url() -> str:
    """Return the address of the token endpoint, which is also the audience of assertions."""
    return f"{base_url()}/oauth/token"


def _listening_url() -> str:
    """Return the address at which commands on this machine reach the server."""
    configured = settings()
    host = "localhost" if configured.host in _ALL_INTERFACES else configured.host
    return f"http://{host}:{configured.port}"
