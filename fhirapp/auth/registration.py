"""Register clients: what they may say of themselves, checked as the shell and the page need it.

Source: RFC 7591 §2 for the words, RFC 8252 §7 for the addresses of native apps; decisions §6.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import Connection, insert, select

from fhirapp.auth.enforce import enforceable
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import Client, digest
from fhirapp.auth.scopes import CONTEXTS_OF_KIND, SESSION_SCOPES, parse_scope
from fhirapp.auth.tokens import new_token
from fhirapp.config import LOOPBACK

KINDS = tuple(CONTEXTS_OF_KIND)
BASIC, SIGNED, NONE = "client_secret_basic", "private_key_jwt", "none"
METHODS: Mapping[str, tuple[str, ...]] = {
    "public": (NONE,),
    "confidential": (BASIC, SIGNED),
    "backend": (SIGNED,),
}
_MOST_URIS, _LONGEST_URI = 10, 1000
_CLIENT_ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")
_URI = re.compile(r"[!#-;=?-\[\]_a-z~]+")


@dataclass(frozen=True, kw_only=True)
class Registration:
    """What a client says of itself. auth_method is one of METHODS of its kind."""

    name: str
    kind: str
    auth_method: str
    scope: str
    redirect_uris: tuple[str, ...] = ()
    launch_uri: str | None = None
    jwks: Any = None
    jwks_uri: str | None = None
    developer: str | None = None
    contact: str | None = None


def register(
    connection: Connection,
    registration: Registration,
    *,
    client_id: str | None = None,
    approved: bool = True,
) -> str:
    """Register a client; return its id. Raises RefusedCommand with the first fault found.

    One that is not approved yet gets no tokens.
    """
    if client_id is None:
        client_id = f"app-{secrets.token_hex(8)}"
    if not _CLIENT_ID.fullmatch(client_id):
        raise RefusedCommand("A client id has 1 to 64 letters, digits and . _ ~ -")
    known = select(Client.client_id).where(Client.client_id == client_id)
    if connection.execute(known).first():
        raise RefusedCommand(f"The client {client_id} is registered already.")
    row = columns(registration)
    now = int(time.time())
    row |= {
        "client_id": client_id,
        "secret_digest": None,
        "registered_at": now,
        "approved_at": now if approved else None,
        "owner_digest": None,
        "disabled": False,
    }
    connection.execute(insert(Client), [row])
    return client_id


def columns(registration: Registration) -> dict[str, Any]:
    """Return what a registration stores. Raises RefusedCommand."""
    one = registration
    _check_together(one)
    for uri in one.redirect_uris:
        check_redirect_uri(uri)
    if one.launch_uri:
        _check_web(one.launch_uri, "launch URI")
    if one.jwks_uri:
        _check_web(one.jwks_uri, "address of the keys")
    return {
        "name": _text(one.name, "name", 100),
        "kind": one.kind,
        "auth_method": one.auth_method,
        "scope": _scope(one.scope, one.kind),
        "redirect_uris": list(dict.fromkeys(one.redirect_uris)) or None,
        "launch_uri": one.launch_uri or None,
        "jwks": public_keys(one.jwks) if one.jwks else None,
        "jwks_uri": one.jwks_uri or None,
        "developer": _text(one.developer, "developer", 100) if one.developer else None,
        "contact": _text(one.contact, "contact", 200) if one.contact else None,
    }


def _check_together(one: Registration) -> None:
    """Raise RefusedCommand for parts that do not go together."""
    if one.kind not in KINDS:
        raise RefusedCommand(f"A client is one of {', '.join(KINDS)}.")
    if one.auth_method not in METHODS[one.kind]:
        raise RefusedCommand(
            f"A {one.kind} client proves who it is by {' or '.join(METHODS[one.kind])}."
        )
    is_backend, is_signed = one.kind == "backend", one.auth_method == SIGNED
    if not is_backend and not one.redirect_uris:
        raise RefusedCommand("An app needs at least one redirect URI.")
    if is_backend and (one.redirect_uris or one.launch_uri):
        raise RefusedCommand("A backend client has no users: leave out the redirect URIs.")
    if is_signed and bool(one.jwks) == bool(one.jwks_uri):
        raise RefusedCommand("Give its public keys: a JSON Web Key Set, or the address of one.")
    if not is_signed and (one.jwks or one.jwks_uri):
        raise RefusedCommand(f"Keys go with {SIGNED}.")
    if len(one.redirect_uris) > _MOST_URIS:
        raise RefusedCommand(f"At most {_MOST_URIS} redirect URIs.")


def check_redirect_uri(uri: str) -> None:
    """Raise RefusedCommand for an address that no browser may be sent to with a code."""
    problem = f"The redirect URI {uri[:200]!r}"
    if len(uri) > _LONGEST_URI or not _URI.fullmatch(uri):
        raise RefusedCommand(f"{problem} is too long or no address.")
    try:
        parts = urlsplit(uri)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise RefusedCommand(f"{problem} is no address.") from None
    if "#" in uri or "@" in parts.netloc:
        raise RefusedCommand(f"{problem} must have no fragment and no user.")
    if parts.scheme == "https" and host:
        return
    if parts.scheme == "http" and host in LOOPBACK:
        return
    # RFC 8252 §7.1: a domain name backwards, which has a dot; so javascript: and data: are none.
    if "." in parts.scheme and not parts.netloc:
        return
    raise RefusedCommand(
        f"{problem} must begin with https://, with http:// and a loopback host, or with an app's "
        "own scheme such as com.example.app:/"
    )


def public_keys(jwks: Any) -> dict[str, Any]:
    """Return a key set's public part; a single key counts as a set. Raises RefusedCommand."""
    keys = jwks.get("keys", [jwks]) if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise RefusedCommand("Not a JSON Web Key Set: an object with a list of keys.")
    if any(key.get("kty") not in ("RSA", "EC") for key in keys):
        raise RefusedCommand("The key set must hold RSA keys for RS384, or EC keys for ES384.")
    if any(key["kty"] == "EC" and key.get("crv") != "P-384" for key in keys):
        raise RefusedCommand("ES384 needs EC keys of the curve P-384.")
    try:
        return dict(KeySet.import_key_set({"keys": keys}).as_dict(private=False))
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise RefusedCommand(f"Not a JSON Web Key Set: {error}") from None


def owner_code(connection: Connection, client_id: str) -> str:
    """Return a new secret for the address on which its owner manages a client."""
    code = new_token()
    connection.execute(
        Client.__table__.update()  # type: ignore[attr-defined]
        .where(Client.client_id == client_id)
        .values(owner_digest=digest(code))
    )
    return code


def _scope(text: str, kind: str) -> str:
    contexts = CONTEXTS_OF_KIND[kind]
    unusable = []
    for one in text.split():
        scope = parse_scope(one)
        fits = scope is not None and scope.context in contexts and enforceable(scope)
        if not fits and (one not in SESSION_SCOPES or kind == "backend"):
            unusable.append(one)
    if unusable or not text.split():
        example = "system/*.rs" if kind == "backend" else "launch/patient patient/*.rs"
        raise RefusedCommand(
            f"Not a scope that a {kind} client can have: {' '.join(unusable) or '(none)'}; "
            f"use for example {example}"
        )
    return " ".join(dict.fromkeys(text.split()))


def _text(text: str | None, what: str, longest: int) -> str:
    stripped = (text or "").strip()
    if not 1 <= len(stripped) <= longest or not stripped.isprintable():
        raise RefusedCommand(f"The {what} has 1 to {longest} printable characters.")
    return stripped


def _check_web(uri: str, what: str) -> None:
    try:
        parts = urlsplit(uri)
        local = parts.scheme == "http" and parts.hostname in LOOPBACK
        fits = bool(parts.hostname) and (parts.scheme == "https" or local)
        _ = parts.port
    except ValueError:
        fits = False
    if not fits or len(uri) > _LONGEST_URI or not _URI.fullmatch(uri) or "#" in uri:
        raise RefusedCommand(f"The {what} must be an https:// address without a fragment.")
