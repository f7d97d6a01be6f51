"""The address under which clients reach this server.

It comes from FHIRAPP_BASE_URL; without it the server listens on loopback only, and there the
request's own Host is believed when it names loopback too. Source: decisions §1.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import request

from fhirapp.config import LOOPBACK, settings


def base_url() -> str:
    """Return the address of the server, without a trailing slash and without /fhir."""
    configured = settings()
    if configured.base_url:
        return configured.base_url
    host = request.host
    if urlsplit(f"//{host}").hostname in LOOPBACK:
        return f"http://{host}"
    return f"http://{configured.host}:{configured.port}"


def token_url() -> str:
    """Return the address of the token endpoint, which is also the audience of assertions."""
    return f"{base_url()}/oauth/token"
