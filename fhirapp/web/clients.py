"""Clients as pages show them: what they are, where they send people, what may be allowed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth.diagnosis import can_be_granted, describe_keys, roles_that_can_allow
from fhirapp.auth.models import Client
from fhirapp.auth.models.client import ANY_LOOPBACK
from fhirapp.auth.models.user import ROLES
from fhirapp.auth.registration import BASIC, METHODS, NONE, SIGNED
from fhirapp.config import LOOPBACK
from fhirapp.web.words import Words, in_words


class Kind(NamedTuple):
    """A kind of client in a few words, and in a sentence."""

    name: str
    sentence: str


KINDS: Mapping[str, Kind] = {
    "public": Kind(
        "An app on a phone or in a browser",
        "It has no server of its own, so it can keep no secret. People sign in here and allow it.",
    ),
    "confidential": Kind(
        "An app with a server of its own",
        "Its server keeps a secret, or signs with a key. People sign in here and allow it.",
    ),
    "backend": Kind(
        "A backend system",
        "A program that nobody sits in front of. It signs with its own key, and reaches the records"
        " of every patient.",
    ),
}
_OTHER_KINDS = {"operator": Kind("The shell", "Tokens that were issued on the server itself.")}
PROOFS: Mapping[str, str] = {
    NONE: "Nothing: it can keep no secret. PKCE protects its codes.",
    BASIC: "A secret that it sends, made here once it is approved",
    SIGNED: "A key that it signs with; only the public part is given here",
}


class Place(NamedTuple):
    """A redirect URI; host is what to look at, note what to think of."""

    uri: str
    host: str
    note: str


class ScopeLine(NamedTuple):
    """A registered scope in words, and who can allow it."""

    words: Words
    who: str


def kind_of(client: Client) -> Kind:
    """Return a client's kind in words."""
    return KINDS.get(client.kind) or _OTHER_KINDS[client.kind]


def state_of(client: Client) -> str:
    """Return a client's state in words."""
    if client.disabled:
        return "switched off"
    return "approved" if client.approved_at is not None else "waits for approval"


def proofs_of(client: Client) -> Sequence[str]:
    """Return how a client proves who it is."""
    return [PROOFS[method] for method in client.auth_method.split()]


def has_secret(client: Client) -> bool:
    """Say whether a client proves who it is by a secret."""
    return BASIC in client.auth_method.split()


def is_editable(client: Client) -> bool:
    """Say whether a client is as one can be registered; the demo's and the shell's are not."""
    is_usual = client.auth_method in METHODS.get(client.kind, ())
    return is_usual and ANY_LOOPBACK not in (client.redirect_uris or ())


def keys_of(client: Client) -> Sequence[str]:
    """Return a client's registered keys in words."""
    return describe_keys(client.jwks) if client.jwks else []


def places_of(client: Client) -> Sequence[Place]:
    """Return where a client may send people back to."""
    return [place_of(uri) for uri in client.redirect_uris or ()]


def place_of(uri: str) -> Place:
    """Return an address, its host apart, so that one that only looks like another is noticed."""
    if uri == ANY_LOOPBACK:
        return Place("http://localhost, any port", "this machine", "Of the demo only.")
    parts = urlsplit(uri)
    host = parts.hostname
    if host is None:
        note = "Opens an app on the same device; another app there may claim this address too."
        return Place(uri, f"{parts.scheme}:", note)
    if host in LOOPBACK:
        return Place(uri, parts.netloc, "The machine of whoever uses the app: for development.")
    return Place(uri, parts.netloc, _look_alike(host))


def scope_lines(client: Client) -> Sequence[ScopeLine]:
    """Return what a client is registered for."""
    return [ScopeLine(in_words(text), _who(client, text)) for text in client.scope.split()]


def _look_alike(host: str) -> str:
    """Return what a browser may show for a host with letters that are not English."""
    if "xn--" not in host:
        return ""
    try:
        shown = host.encode("ascii").decode("idna")
    except UnicodeError:
        shown = "another name"
    return f"Has letters that may look like others: browsers may show it as {shown}"


def _who(client: Client, text: str) -> str:
    if client.kind not in KINDS:
        return "the shell"
    if client.kind == "backend":
        return "the system itself" if can_be_granted(client, text) else "nobody: never granted"
    roles = roles_that_can_allow(client, text)
    if set(roles) == set(ROLES):
        return "everybody"
    return " and ".join(f"{role}s" for role in roles) or "nobody: never granted"
