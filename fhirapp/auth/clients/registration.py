"""Register clients: what they may say of themselves, checked as the shell and the page need it.

Source: RFC 7591 §2 for the words, RFC 8252 §7 for the addresses of native apps; decisions §6.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from flask import has_app_context
from sqlalchemy import Connection, insert, select, update

from fhirapp.audit.events import record
from fhirapp.auth.clients.public_keys import public_keys
from fhirapp.auth.models import BASIC, NONE, SIGNED, Client, digest
from fhirapp.auth.scopes import CONTEXTS_OF_KIND, SESSION_SCOPES, enforceable, parse_scope
from fhirapp.auth.tokens import new_token
from fhirapp.config import Marked, RefusedCommand, settings
from fhirapp.url_syntax import is_loopback

KINDS = tuple(CONTEXTS_OF_KIND)
METHODS: Mapping[str, tuple[str, ...]] = {
    "public": (NONE,),
    "confidential": (BASIC, SIGNED),
    "backend": (SIGNED,),
}
# The client of the shell, which is not registered.
OPERATOR = "operator"
# Of our own pages, and of the page that documents the API.
PAGES, API_DOCS = "pages", "api-docs"
_CLIENT_ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")
_MOST_URIS, _LONGEST_URI, _LONGEST_SCOPE = 10, 1000, 2000
# So much of an address that is none is told.
_SHOWN = 200
_URI = re.compile(r"[!#-;=?-\[\]_a-z~]+")
# A name or an IPv6 address, and a port. urlsplit takes the host of http://evil[::1]/ for ::1.
_AUTHORITY = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")
# RFC 8252 §7.1: a domain name backwards, which has a dot; so javascript: and data: are none.
_OF_APP = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+:/(?!/).*")


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
    check_client_id(client_id)
    if client_id in (OPERATOR, PAGES, API_DOCS):
        raise RefusedCommand(
            "The client %(client_id)s is this server's own; choose another id.", client_id=client_id
        )
    known = select(Client.client_id).where(Client.client_id == client_id)
    if connection.execute(known).first():
        raise RefusedCommand("The client %(client_id)s is already registered.", client_id=client_id)
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
    what = f"{registration.kind}: {registration.scope}"
    record("app-registered", about=f"app/{client_id}", what=what)
    return client_id


def columns(registration: Registration) -> dict[str, Any]:
    """Return what a registration stores. Raises RefusedCommand."""
    app = registration
    _check_together(app)
    check_redirect_uris(app.kind, app.redirect_uris)
    if app.launch_uri:
        _check_web(app.launch_uri, Marked("The launch URI"))
    if app.jwks_uri:
        # Key sets are fetched from the clinic's own network where the operator allows it.
        own = has_app_context() and settings().fetch_private
        _check_web(app.jwks_uri, Marked("The URL of the keys"), or_http=own)
    return {
        "name": _text(app.name, Marked("The name"), 100),
        "kind": app.kind,
        "auth_method": app.auth_method,
        "scope": _scope(app.scope, app.kind),
        "redirect_uris": list(dict.fromkeys(app.redirect_uris)) or None,
        "launch_uri": app.launch_uri or None,
        "jwks": public_keys(app.jwks) if app.jwks else None,
        "jwks_uri": app.jwks_uri or None,
        "developer": _text(app.developer, Marked("The developer"), 100) if app.developer else None,
        "contact": _text(app.contact, Marked("The contact"), 200) if app.contact else None,
    }


def _check_together(registration: Registration) -> None:
    """Raise RefusedCommand for parts that do not go together."""
    if registration.kind not in KINDS:
        raise RefusedCommand("The kind of client must be one of %(kinds)s.", kinds=", ".join(KINDS))
    if registration.auth_method not in METHODS[registration.kind]:
        raise RefusedCommand(
            "A %(kind)s client must authenticate with %(methods)s.",
            kind=registration.kind,
            methods=" / ".join(METHODS[registration.kind]),
        )
    is_backend, is_signed = registration.kind == "backend", registration.auth_method == SIGNED
    if is_backend and (registration.redirect_uris or registration.launch_uri):
        raise RefusedCommand("A backend client has no users: leave out the redirect URIs.")
    if is_signed and bool(registration.jwks) == bool(registration.jwks_uri):
        raise RefusedCommand("Public keys are missing: enter a JSON Web Key Set or the URL of one.")
    if not is_signed and (registration.jwks or registration.jwks_uri):
        raise RefusedCommand("Keys can only be used with %(method)s.", method=SIGNED)


def check_client_id(client_id: str) -> None:
    """Raise RefusedCommand for what is the id of no client."""
    if not _CLIENT_ID.fullmatch(client_id):
        raise RefusedCommand("A client id must have 1 to 64 letters, digits or . _ ~ -")


def check_redirect_uris(kind: str, uris: Sequence[str]) -> None:
    """Raise RefusedCommand where no app of a kind can have these addresses."""
    if kind != "backend" and not uris:
        raise RefusedCommand("An app needs at least one redirect URI.")
    if len(uris) > _MOST_URIS:
        raise RefusedCommand("At most %(most)s redirect URIs.", most=_MOST_URIS)
    for uri in uris:
        check_redirect_uri(uri)


def check_redirect_uri(uri: str) -> None:
    """Raise RefusedCommand for an address that no browser may be sent to with a code."""
    what = Marked("The redirect URI")
    parts = _parts(uri, what)
    if _is_web(parts) or _OF_APP.fullmatch(uri):
        return
    raise RefusedCommand(
        "%(what)s %(uri)r must begin with https://, with http:// and a loopback host, or with an "
        "app's own scheme such as com.example.app:/",
        what=what,
        uri=uri[:_SHOWN],
    )


def owner_code(connection: Connection, client_id: str) -> str:
    """Return a new secret for the address on which its owner manages a client."""
    code = new_token()
    connection.execute(
        update(Client).where(Client.client_id == client_id).values(owner_digest=digest(code))
    )
    return code


def _scope(text: str, kind: str) -> str:
    if len(text) > _LONGEST_SCOPE:
        raise RefusedCommand(
            "The scopes must have at most %(longest)s characters.", longest=_LONGEST_SCOPE
        )
    contexts = CONTEXTS_OF_KIND[kind]
    unusable = []
    for scope_name in text.split():
        scope = parse_scope(scope_name)
        fits = scope is not None and scope.context in contexts and enforceable(scope)
        if not fits and (scope_name not in SESSION_SCOPES or kind == "backend"):
            unusable.append(scope_name)
    example = "system/*.rs" if kind == "backend" else "launch/patient patient/*.rs"
    if not text.split():
        raise RefusedCommand(
            "No scopes: select or enter at least one, for example %(example)s",
            example=example,
        )
    if unusable:
        raise RefusedCommand(
            "A %(kind)s client cannot have the scope %(scopes)s; use for example %(example)s",
            kind=kind,
            scopes=" ".join(unusable),
            example=example,
        )
    return " ".join(dict.fromkeys(text.split()))


def _text(text: str | None, what: Marked, longest: int) -> str:
    stripped = (text or "").strip()
    if not 1 <= len(stripped) <= longest or not stripped.isprintable():
        raise RefusedCommand(
            "%(what)s must have 1 to %(longest)s printable characters.", what=what, longest=longest
        )
    return stripped


def _check_web(uri: str, what: Marked, *, or_http: bool = False) -> None:
    parts = _parts(uri, what)
    if not _is_web(parts) and not (or_http and parts.scheme == "http" and parts.hostname):
        raise RefusedCommand(
            "%(what)s %(uri)r must begin with https://, or with http:// and a loopback host.",
            what=what,
            uri=uri[:_SHOWN],
        )


def _parts(uri: str, what: Marked) -> SplitResult:
    """Return the parts of an address, which is what. Raises RefusedCommand."""
    values = {"what": what, "uri": uri[:_SHOWN]}
    if len(uri) > _LONGEST_URI or not _URI.fullmatch(uri):
        raise RefusedCommand("%(what)s %(uri)r is too long or not a valid URI.", **values)
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        raise RefusedCommand("%(what)s %(uri)r is not a valid URI.", **values) from None
    if "#" in uri or "@" in parts.netloc:
        raise RefusedCommand("%(what)s %(uri)r must not have a fragment or a user name.", **values)
    if parts.netloc and not _AUTHORITY.fullmatch(parts.netloc):
        raise RefusedCommand("%(what)s %(uri)r is not a valid URI.", **values)
    return parts


def _is_web(parts: SplitResult) -> bool:
    """Say whether an address is https, or http on this machine, where no one can listen in."""
    secure = parts.scheme == "https" and bool(parts.hostname)
    return secure or (parts.scheme == "http" and is_loopback(parts.netloc))
