"""Clients that register themselves, and wait until an administrator approves them.

Absent unless FHIRAPP_DYNAMIC_REGISTRATION turns it on. What a stranger names is checked and stored:
none of it is fetched or used before the approval. Metadata that this server does not know is
ignored. Instead of a client configuration endpoint (RFC 7592) there is the owner's page.
Source: RFC 7591.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, jsonify, request

from fhirapp import config, urls
from fhirapp.auth.clients.administration import PendingClient, TooManyWaiting, apply, find_client
from fhirapp.auth.clients.public_keys import has_private_part
from fhirapp.auth.clients.registration import Registration, check_redirect_uris
from fhirapp.auth.models import BASIC, NONE, SIGNED
from fhirapp.auth.throttle import TooOften
from fhirapp.fhir import json as fhir_json

MOST_BYTES = 64 * 1024
# RFC 7591 §3.2.2.
_METADATA, _REDIRECT_URI = "invalid_client_metadata", "invalid_redirect_uri"
_STATEMENT = "unapproved_software_statement"
_LATER = "temporarily_unavailable"
_CODE, _REFRESH, _BACKEND = "authorization_code", "refresh_token", "client_credentials"
_UNPRINTABLE = re.compile(r"[^ -~]")
_FULL_SECONDS = 3600


class _Refused(Exception):
    """A registration that is refused: why, the error of the RFC, the status."""

    def __init__(self, why: str, error: str = _METADATA, status: int = 400) -> None:
        super().__init__(why)
        self.error, self.status = error, status


def init_app(app: Flask) -> None:
    """Register the endpoint where the settings let clients register themselves."""
    if config.settings_of(app).dynamic_registration:
        app.add_url_rule("/oauth/register", "register_client", register_client, methods=["POST"])


def register_client() -> Response:
    """Register the client that the request describes (RFC 7591 §3)."""
    try:
        metadata = _metadata()
        applied = apply(_registration(metadata), request.remote_addr or "", by_itself=True)
    except _Refused as error:
        return _error(error.error, str(error), error.status)
    except TooManyWaiting as error:
        return _error(_LATER, str(error), 503, wait=_FULL_SECONDS)
    except config.RefusedCommand as error:
        return _error(_METADATA, str(error), 400)
    except TooOften as error:
        return _error(_LATER, "Too many registrations from your address.", 429, wait=error.seconds)
    return _answer(_registration_answer(applied, metadata), 201)


def _metadata() -> dict[str, Any]:
    """Return the metadata that the body has. Raises _Refused."""
    # Any page could have a browser send a form here; before it sends JSON, it asks.
    if request.mimetype != "application/json":
        raise _Refused("Send a JSON object, with Content-Type: application/json.")
    body = request.get_data()
    if len(body) > MOST_BYTES:
        raise _Refused(f"The body must have at most {MOST_BYTES} bytes.", status=413)
    try:
        metadata = fhir_json.loads(body)
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise _Refused("The body is not a JSON object with each member once.")
    if metadata.get("software_statement") is not None:
        raise _Refused("This server trusts no issuer of software statements.", _STATEMENT)
    return metadata


def _registration(metadata: Mapping[str, Any]) -> Registration:
    """Return what the metadata registers. Raises _Refused, RefusedCommand."""
    kind, method = _kind(metadata)
    try:
        uris = _texts(metadata, "redirect_uris")
        check_redirect_uris(kind, uris)
    except (_Refused, config.RefusedCommand) as error:
        raise _Refused(str(error), _REDIRECT_URI) from None
    name = _text(metadata, "client_name")
    if name is None:
        raise _Refused("client_name is missing: people see it before they allow access.")
    if has_private_part(metadata.get("jwks")):
        raise _Refused(
            "jwks contains a private key, which must stay secret. It was not stored. Create a new "
            "key pair and send only the public key."
        )
    return Registration(
        name=name,
        kind=kind,
        auth_method=method,
        scope=_text(metadata, "scope") or "",
        redirect_uris=uris,
        # OpenID Connect's word, by which apps register the address of SMART's EHR launch.
        launch_uri=_text(metadata, "initiate_login_uri"),
        jwks=metadata.get("jwks"),
        jwks_uri=_text(metadata, "jwks_uri"),
        contact=", ".join(_texts(metadata, "contacts")) or None,
    )


def _kind(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of client, and how it authenticates. Raises _Refused."""
    method = _text(metadata, "token_endpoint_auth_method") or BASIC
    if method not in (NONE, BASIC, SIGNED):
        raise _Refused(f"token_endpoint_auth_method must be {NONE}, {BASIC} or {SIGNED}.")
    grants = {*_texts(metadata, "grant_types", default=(_CODE,))}
    is_backend = grants == {_BACKEND}
    if not is_backend and not {_CODE} <= grants <= {_CODE, _REFRESH}:
        raise _Refused(
            f"grant_types must be {_CODE}, also with {_REFRESH}, for an app; or {_BACKEND} alone, "
            "for a system without a user."
        )
    usual = () if is_backend else ("code",)
    if {*_texts(metadata, "response_types", default=usual)} != {*usual}:
        raise _Refused(f"response_types must be {list(usual)} with these grant_types.")
    return "backend" if is_backend else "public" if method == NONE else "confidential", method


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    if value is not None and not isinstance(value, str):
        raise _Refused(f"{name} must be a string.")
    return value


def _texts(
    metadata: Mapping[str, Any], name: str, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    value = metadata.get(name)
    if value is None:
        return default
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _Refused(f"{name} must be a list of strings.")
    return tuple(value)


def _registration_answer(applied: PendingClient, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was registered (RFC 7591 §3.2.1), and that it waits for approval."""
    client = find_client(applied.client_id)
    assert client is not None
    is_backend = client.kind == "backend"
    optional = {
        "client_secret": applied.secret,
        "redirect_uris": client.redirect_uris,
        "initiate_login_uri": client.launch_uri,
        "jwks": client.jwks,
        "jwks_uri": client.jwks_uri,
        "contacts": metadata.get("contacts"),
    }
    return {
        "client_id": client.client_id,
        "client_id_issued_at": client.registered_at,
        **{name: value for name, value in optional.items() if value},
        **({"client_secret_expires_at": 0} if applied.secret else {}),
        "client_name": client.name,
        "token_endpoint_auth_method": client.auth_method,
        "grant_types": [_BACKEND] if is_backend else [_CODE, _REFRESH],
        "response_types": [] if is_backend else ["code"],
        "scope": client.scope,
        "approval_status": "waiting",
        "approval_description": "An administrator of this server must approve this client before it"
        " can be used. Its state is shown at approval_page: keep that address secret, for whoever"
        " has it can manage the client.",
        "approval_page": f"{urls.base_url()}/apps/{applied.owner_code}",
    }


def _error(error: str, why: str, status: int, *, wait: int = 0) -> Response:
    """Return the error (RFC 7591 §3.2.2); its description is ASCII, whatever it quotes."""
    text = _UNPRINTABLE.sub("?", why)
    response = _answer({"error": error, "error_description": text}, status)
    if wait:
        response.headers["Retry-After"] = str(wait)
    return response


def _answer(content: Mapping[str, Any], status: int) -> Response:
    response = jsonify(content)
    response.status_code = status
    response.headers["Cache-Control"] = "no-store"
    return response
