"""The address under which clients reach this server.

It comes from FHIRAPP_BASE_URL; without it the server listens on loopback only, and there the
request's own Host is believed when it names loopback too. Source: decisions §1.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import has_app_context, has_request_context, request

from fhirapp.config import LOOPBACK, settings


def base_url() -> str:
    """Return the address of the server, without a trailing slash and without /fhir."""
    configured = settings()
    if configured.base_url:
        return configured.base_url
    if has_request_context() and _is_loopback(request.host):
        return f"http://{request.host}"
    return f"http://{configured.host}:{configured.port}"


def own_prefix() -> str:
    """Return what the absolute addresses of this server's resources begin with, empty if unset."""
    configured = settings().base_url if has_app_context() else ""
    return f"{configured}/fhir/" if configured else ""


def token_url() -> str:
    """Return the address of the token endpoint, which is also the audience of assertions."""
    return f"{base_url()}/oauth/token"


def _is_loopback(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False
