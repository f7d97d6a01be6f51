"""What keeps a client from working, found out before its developer wonders.

The address of its keys is fetched only once an administrator has approved the client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from threading import BoundedSemaphore
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth.clients.administration import count_test
from fhirapp.auth.clients.key_sets import Unfetched, fetch_keys
from fhirapp.auth.clients.registration import public_keys
from fhirapp.auth.models import BASIC, ROLES, SIGNED, Client
from fhirapp.auth.scopes import (
    CONTEXTS_OF_KIND,
    FHIR_USER,
    OPENID,
    PROFILE,
    clinical_scopes,
    of_role,
    parse_scope,
)
from fhirapp.config import LOOPBACK, RefusedCommand, settings
from fhirapp.db import db, forget_reader

_log = logging.getLogger(__name__)

_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}
# Each process asks one address at a time, so that its other threads go on answering.
_FETCHING = BoundedSemaphore(1)


class Finding(NamedTuple):
    """What a test found out; a fault keeps the client, or a part of it, from working."""

    is_fault: bool
    text: str


def diagnose(client: Client) -> list[Finding]:
    """Return what is wrong with a client, and what is right. Raises sign_in.TooOften."""
    count_test(client.client_id)
    checks = (_state, _secret, _keys, _redirects, _scopes)
    return [finding for check in checks for finding in check(client)]


def can_be_granted(client: Client, scope: str) -> bool:
    """Say whether a scope that is registered for a client can ever be granted to it."""
    return client.get_allowed_scope(scope) is not None


def roles_that_can_allow(client: Client, scope: str) -> tuple[str, ...]:
    """Return the roles of the users who can allow a client a scope; a backend asks no user."""
    if client.kind == "backend" or not can_be_granted(client, scope):
        return ()
    return tuple(role for role in ROLES if of_role([scope], role))


def describe_keys(jwks: Any) -> list[str]:
    """Return the keys of a set in words, such as: RSA for RS384, kid 2024."""
    return [
        f"{key['kty']} for {_ALGORITHMS.get(key['kty'], 'nothing here')},"
        f" kid {key.get('kid', 'not given')}"
        for key in jwks["keys"]
    ]


def _state(client: Client) -> Iterator[Finding]:
    if client.approved_at is None:
        yield Finding(True, "An administrator has not approved it yet: it gets no tokens.")
    if client.disabled:
        yield Finding(True, "An administrator has disabled it: it gets no tokens.")
    if client.approved_at is not None and not client.disabled:
        yield Finding(False, "It is approved and can request tokens.")


def _secret(client: Client) -> Iterator[Finding]:
    if BASIC in client.auth_method.split():
        if client.secret_digest is None:
            yield Finding(True, "No secret has been created for it yet.")
        else:
            yield Finding(False, "It has a secret; only its SHA-256 is kept here.")


def _keys(client: Client) -> Iterator[Finding]:
    if SIGNED not in client.auth_method.split():
        return
    try:
        if client.jwks_uri:
            found: Any = _fetched(client)
        else:
            found = public_keys(client.jwks)
    except RefusedCommand as error:
        yield Finding(True, f"Its keys do not work: {error}")
    else:
        for line in describe_keys(found):
            yield Finding(False, f"A key: {line}.")


def _fetched(client: Client) -> Any:
    """Return the key set at the client's address. Raises RefusedCommand."""
    if client.approved_at is None:
        raise RefusedCommand("they are fetched once an administrator has approved the app.")
    uri = client.jwks_uri or ""
    if not _FETCHING.acquire(blocking=False):
        raise RefusedCommand("another test is fetching keys; try again shortly.")
    # Nothing of the database is held while another server is waited for.
    db.session.rollback()
    forget_reader()
    private = settings().fetch_private
    try:
        return fetch_keys(uri, private=private).keys.as_dict(private=False)
    except Unfetched as error:
        _log.warning("The keys of a client at %s: %s", urlsplit(uri).hostname, error)
        # Where private addresses are fetched too, the reason would explore the clinic's network.
        reason = "the server's log says why" if private else str(error)
        raise RefusedCommand(
            "could not be fetched from %(uri)s (%(reason)s).", uri=uri, reason=reason
        ) from None
    finally:
        _FETCHING.release()


def _redirects(client: Client) -> Iterator[Finding]:
    for uri in client.redirect_uris or ():
        parts = urlsplit(uri)
        if parts.scheme == "http" and parts.hostname in LOOPBACK:
            yield Finding(
                False,
                f"{uri} works only in a browser on the machine that the app runs on, while you"
                " develop it.",
            )


def _scopes(client: Client) -> Iterator[Finding]:
    registered = client.scope.split()
    for text in registered:
        if not can_be_granted(client, text):
            yield Finding(True, f"{text} is never granted: {_reason(client, text)}.")
    if OPENID not in registered:
        for text in {FHIR_USER, PROFILE}.intersection(registered):
            yield Finding(True, f"{text} tells nothing without {OPENID}: there is no id token.")
    if client.kind == "backend":
        return
    for role in ROLES:
        allowed = _allowed_by(client, role)
        if clinical_scopes(" ".join(allowed)):
            yield Finding(False, f"A user with the role {role} can allow: {' '.join(allowed)}.")
        else:
            yield Finding(False, f"A user with the role {role} can allow it no records.")


def _allowed_by(client: Client, role: str) -> Iterable[str]:
    granted = [text for text in client.scope.split() if can_be_granted(client, text)]
    return of_role(granted, role)


def _reason(client: Client, text: str) -> str:
    scope = parse_scope(text)
    if scope is None:
        return "it is no scope that this server knows"
    if scope.context not in CONTEXTS_OF_KIND.get(client.kind, ()):
        return f"a {client.kind} client has none of the kind {scope.context}/"
    return "this server has no such type, or cannot enforce the filter"
