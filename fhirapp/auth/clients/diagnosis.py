"""What keeps a client from working, found out before its developer wonders.

The address of its keys is fetched only once an administrator has approved the client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from threading import BoundedSemaphore
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth import scopes
from fhirapp.auth.clients.administration import count_test
from fhirapp.auth.clients.fetch import KeySetUnavailable, fetch_keys
from fhirapp.auth.clients.public_keys import describe_keys, public_keys
from fhirapp.auth.models import ADMINISTRATOR, BASIC, CLINICIAN, PATIENT, ROLES, SIGNED, Client
from fhirapp.config import Marked, RefusedCommand, settings
from fhirapp.db import db, forget_reader
from fhirapp.url_syntax import LOOPBACK

_log = logging.getLogger(__name__)

_ROLES = {
    CLINICIAN: Marked("clinician"),
    PATIENT: Marked("patient"),
    ADMINISTRATOR: Marked("administrator"),
}
# Each process asks one address at a time, so that its other threads go on answering.
_FETCHING = BoundedSemaphore(1)


class AppFinding(NamedTuple):
    """What a test found out; a fault keeps the client, or a part of it, from working.

    values replace %(name)s in the text; pages translate both.
    """

    is_fault: bool
    text: str
    values: Mapping[str, object] = MappingProxyType({})


def diagnose(client: Client) -> list[AppFinding]:
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
    return tuple(role for role in ROLES if scopes.of_role([scope], role))


def _state(client: Client) -> Iterator[AppFinding]:
    if client.approved_at is None:
        yield AppFinding(True, "An administrator has not approved it yet: it gets no tokens.")
    if client.disabled:
        yield AppFinding(True, "An administrator disabled it: it gets no tokens.")
    if client.approved_at is not None and not client.disabled:
        yield AppFinding(False, "It is approved and can request tokens.")


def _secret(client: Client) -> Iterator[AppFinding]:
    if BASIC in client.auth_method.split():
        if client.secret_digest is None:
            yield AppFinding(True, "It has no secret yet.")
        else:
            yield AppFinding(False, "It has a secret; only its SHA-256 is kept here.")


def _keys(client: Client) -> Iterator[AppFinding]:
    if SIGNED not in client.auth_method.split():
        return
    try:
        if client.jwks_uri:
            keys: Any = _fetched(client)
        else:
            keys = public_keys(client.jwks)
    except RefusedCommand as error:
        yield AppFinding(True, "Its keys cannot be used: %(reason)s", {"reason": error})
    else:
        for line in describe_keys(keys):
            yield AppFinding(False, "Key: %(key)s", {"key": line})


def _fetched(client: Client) -> Any:
    """Return the key set at the client's address. Raises RefusedCommand."""
    if client.approved_at is None:
        raise RefusedCommand("their address is fetched after an administrator approves the app.")
    uri = client.jwks_uri or ""
    if not _FETCHING.acquire(blocking=False):
        raise RefusedCommand("another test is fetching keys. Try again shortly.")
    # Nothing of the database is held while another server is waited for.
    db.session.close()
    forget_reader()
    private = settings().fetch_private
    try:
        keys, _ = fetch_keys(uri, private=private)
        return keys.as_dict(private=False)
    except KeySetUnavailable as error:
        _log.warning("The keys of a client at %s: %s", urlsplit(uri).hostname, error)
        # Where private addresses are fetched too, the reason would explore the clinic's network.
        if private:
            raise RefusedCommand(
                "none could be fetched from %(uri)s; see the server's log.", uri=uri
            ) from None
        raise RefusedCommand(
            "none could be fetched from %(uri)s (%(reason)s).", uri=uri, reason=str(error)
        ) from None
    finally:
        _FETCHING.release()


def _redirects(client: Client) -> Iterator[AppFinding]:
    for uri in client.redirect_uris or ():
        parts = urlsplit(uri)
        if parts.scheme == "http" and parts.hostname in LOOPBACK:
            yield AppFinding(
                False,
                "%(uri)s works only in a browser on the machine that runs the app: use it for"
                " development.",
                {"uri": uri},
            )


def _scopes(client: Client) -> Iterator[AppFinding]:
    registered = client.scope.split()
    for text in registered:
        if not can_be_granted(client, text):
            yield _never(client, text)
    if scopes.OPENID not in registered:
        for text in {scopes.FHIR_USER, scopes.PROFILE}.intersection(registered):
            values = {"scope": text, "openid": scopes.OPENID}
            yield AppFinding(True, "%(scope)s has no effect without %(openid)s.", values)
    if client.kind == "backend":
        return
    for role in ROLES:
        allowed = scopes.of_role(filter(partial(can_be_granted, client), registered), role)
        values = {"role": _ROLES[role], "scopes": " ".join(allowed)}
        if scopes.clinical_scopes(" ".join(allowed)):
            yield AppFinding(False, "A user with the role %(role)s can allow: %(scopes)s", values)
        else:
            yield AppFinding(
                False, "A user with the role %(role)s cannot allow any records.", values
            )


def _never(client: Client, text: str) -> AppFinding:
    """Return why a scope is never granted."""
    scope = scopes.parse_scope(text)
    values = {"scope": text, "kind": client.kind, "context": f"{scope.context}/" if scope else ""}
    if scope is None:
        return AppFinding(True, "%(scope)s is never granted: this server does not know it.", values)
    if scope.context not in scopes.CONTEXTS_OF_KIND.get(client.kind, ()):
        return AppFinding(
            True,
            "%(scope)s is never granted: a %(kind)s client gets no %(context)s scopes.",
            values,
        )
    return AppFinding(
        True,
        "%(scope)s is never granted: this server does not serve the type or cannot enforce the"
        " filter.",
        values,
    )
