"""The address under which clients reach this server.

It comes from FHIRAPP_BASE_URL; without it the server listens on loopback only, and there the
request's own Host is believed when it names loopback too. Source: decisions §1.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from flask import has_app_context, has_request_context, request

from fhirapp.config import is_loopback, settings

_KNOWN = "fhirapp.base_url"


def base_url() -> str:
    """Return the address of the server, without a trailing slash and without /fhir."""
    configured = settings().base_url
    if configured:
        return configured
    if not has_request_context():
        return _listening()
    # An answer asks for it with each of its entries.
    environ = request.environ
    found: str | None = environ.get(_KNOWN)
    if found is None:
        found = f"http://{request.host}" if is_loopback(request.host) else _listening()
        environ[_KNOWN] = found
    return found


def own_prefix() -> str:
    """Return what the absolute addresses of this server's resources begin with, empty if unset."""
    configured = settings().base_url if has_app_context() else ""
    return f"{configured}/fhir/" if configured else ""


def fhir_url() -> str:
    """Return the FHIR base address, which is also the audience (`aud`) that apps must name."""
    return f"{base_url()}/fhir"


def token_url() -> str:
    """Return the address of the token endpoint, which is also the audience of assertions."""
    return f"{base_url()}/oauth/token"


def with_parameters(uri: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return an address of somebody else's with parameters added; its own query stays as it is.

    RFC 6749 §3.1.2. It has no fragment.
    """
    between = "?" if "?" not in uri else "" if uri.endswith(("?", "&")) else "&"
    return f"{uri}{between}{urlencode(parameters)}"


def _listening() -> str:
    configured = settings()
    return f"http://{configured.host}:{configured.port}"
