"""Clients as pages show them: their kind, redirect addresses, keys and scopes in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import import_key

from fhirapp.auth import models
from fhirapp.auth.clients.diagnosis import can_be_granted, roles_that_can_allow
from fhirapp.auth.clients.public_keys import describe_keys
from fhirapp.auth.clients.registration import METHODS
from fhirapp.url_syntax import LOOPBACK
from fhirapp.web.labels import ScopeLabel, in_words
from fhirapp.web.texts import _


class ClientKind(NamedTuple):
    """A kind of client in a few words, and in a sentence."""

    name: str
    sentence: str


KINDS: Mapping[str, ClientKind] = {
    "public": ClientKind(
        _("A mobile or browser app"),
        _(
            "It has no server of its own, so it cannot keep a secret. Users sign in here "
            "and give it access."
        ),
    ),
    "confidential": ClientKind(
        _("An app with its own server"),
        _(
            "Its server keeps a secret or signs with a private key. Users sign in here and "
            "give it access."
        ),
    ),
    "backend": ClientKind(
        _("A backend system"),
        _(
            "A program that runs without a user. It signs with its own private key and can "
            "reach the records of every patient."
        ),
    ),
}
_OTHER_KINDS = {
    models.OF_SHELL: ClientKind(
        _("Command line"), _("Tokens issued on the server's command line.")
    ),
    models.OF_PAGES: ClientKind(
        _("This server's pages"), _("Tokens that these pages use to read records.")
    ),
}
PROOFS: Mapping[str, str] = {
    models.NONE: _("None: it cannot keep a secret. PKCE protects its codes."),
    models.BASIC: _("Client secret, created after the app is approved"),
    models.SIGNED: _("Private key that it signs with; only the public key is registered here"),
}

_NOBODY = _("nobody (never granted)")
_ROLES = {
    models.CLINICIAN: _("clinicians"),
    models.ADMINISTRATOR: _("administrators"),
    models.PATIENT: _("patients"),
}


class RedirectUri(NamedTuple):
    """A redirect URI, with its host, and a note on it."""

    uri: str
    host: str
    note: str


class ScopeLine(NamedTuple):
    """A registered scope in words, and who can allow it."""

    words: ScopeLabel
    who: str


def kind_of(client: models.Client) -> ClientKind:
    """Return a client's kind in words."""
    return kind_by_name(client.kind)


def kind_by_name(kind: str) -> ClientKind:
    """Return a kind in words."""
    name, sentence = KINDS.get(kind) or _OTHER_KINDS[kind]
    return ClientKind(_(name), _(sentence))


def proof_by_name(method: str) -> str:
    """Return an authentication method in words."""
    return _(PROOFS[method])


def state_of(client: models.Client) -> str:
    """Return a client's state in words."""
    if client.disabled:
        return _("disabled")
    return _("approved") if client.approved_at is not None else _("waiting for approval")


def registered_itself(client: models.Client) -> bool:
    """Return whether a program registered itself, and nobody filled in a page."""
    return client.origin is not None and client.origin.by_itself


def mixes_letters(client: models.Client) -> bool:
    """Return whether a name mixes alphabets whose letters look alike: Latin, Greek, Cyrillic."""
    scripts = {unicodedata.name(character, "").partition(" ")[0] for character in client.name}
    return len(scripts & {"LATIN", "GREEK", "CYRILLIC"}) > 1


def proofs_of(client: models.Client) -> Sequence[str]:
    """Return a client's authentication methods in words."""
    return [proof_by_name(method) for method in client.auth_method.split()]


def has_secret(client: models.Client) -> bool:
    """Return whether a client authenticates by a secret."""
    return models.BASIC in client.auth_method.split()


def is_editable(client: models.Client) -> bool:
    """Return whether a client can be edited; the server's own cannot."""
    is_usual = client.auth_method in METHODS.get(client.kind, ())
    return is_usual and not any(map(_is_own, client.redirect_uris or ()))


def keys_of(client: models.Client) -> Sequence[str]:
    """Return a client's registered keys in words."""
    if not client.jwks:
        return []
    keys = zip(describe_keys(client.jwks), client.jwks["keys"], strict=True)
    return ["; ".join(filter(None, [words, _thumbprint(key)])) for words, key in keys]


def _thumbprint(key: dict[str, Any]) -> str:
    """Return a key's thumbprint (RFC 7638), by which two people compare keys; empty of others."""
    if key.get("kty") not in ("RSA", "EC"):
        return ""
    try:
        return _("thumbprint %(hash)s", hash=import_key(key).thumbprint())
    except (JoseError, ValueError):
        return ""


def places_of(client: models.Client) -> Sequence[RedirectUri]:
    """Return where a client may send people back to."""
    return [place_of(uri) for uri in client.redirect_uris or ()]


def place_of(uri: str) -> RedirectUri:
    """Return an address with its host apart, so that a look-alike is noticed."""
    if uri == models.ANY_LOOPBACK:
        return RedirectUri(_("http://localhost, any port"), _("this machine"), _("Demo only."))
    if _is_own(uri):
        return RedirectUri(uri, _("this server"), _("A page of this server."))
    parts = urlsplit(uri)
    host = parts.hostname
    if host is None:
        note = _(
            "Opens an app on the user's device. Another app on the device could claim the same "
            "address."
        )
        return RedirectUri(uri, f"{parts.scheme}:", note)
    if host in LOOPBACK:
        return RedirectUri(uri, parts.netloc, _("The user's own computer; for development."))
    return RedirectUri(uri, parts.netloc, _look_alike(host))


def _is_own(uri: str) -> bool:
    """Return whether only the server's own clients have such an address."""
    return uri == models.ANY_LOOPBACK or uri.startswith("/")


def scope_lines(client: models.Client) -> Sequence[ScopeLine]:
    """Return what a client is registered for."""
    return [ScopeLine(in_words(text), _who(client, text)) for text in client.scope.split()]


def _look_alike(host: str) -> str:
    """Return a warning for a host with letters that are not ASCII, which may look like others."""
    if "xn--" not in host:
        return ""
    try:
        shown = host.encode("ascii").decode("idna")
    except UnicodeError:
        shown = _("another name")
    return _(
        "Contains letters that can look like others. Browsers may show it as %(name)s", name=shown
    )


def _who(client: models.Client, text: str) -> str:
    if client.kind not in KINDS:
        return _("this server itself")
    if client.kind == "backend":
        return _("the system itself") if can_be_granted(client, text) else _(_NOBODY)
    roles = roles_that_can_allow(client, text)
    if set(roles) == set(models.ROLES):
        return _("everyone")
    return _(" and ").join(_(_ROLES[role]) for role in roles) or _(_NOBODY)
