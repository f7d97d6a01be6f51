"""The form of a client's registration: what was typed, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from werkzeug.datastructures import MultiDict

from fhirapp.auth.clients.registration import METHODS, Registration
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.scopes import (
    FHIR_USER,
    LAUNCH,
    LAUNCH_ENCOUNTER,
    LAUNCH_PATIENT,
    OFFLINE,
    ONLINE,
    OPENID,
    PROFILE,
)
from fhirapp.fhir import json as fhir_json
from fhirapp.web.pages import field, plain
from fhirapp.web.texts import _

# Those that most clients ask for; others are typed.
_OF_APPS = (
    OPENID,
    FHIR_USER,
    PROFILE,
    LAUNCH_PATIENT,
    LAUNCH,
    LAUNCH_ENCOUNTER,
    OFFLINE,
    ONLINE,
    "patient/AllergyIntolerance.rs",
    "patient/DocumentReference.rs",
    "patient/*.rs",
    "user/AllergyIntolerance.rs",
    "user/DocumentReference.rs",
    "user/*.rs",
)
COMMON_SCOPES: Mapping[str, Sequence[str]] = {
    "public": _OF_APPS,
    "confidential": _OF_APPS,
    "backend": ("system/AllergyIntolerance.rs", "system/DocumentReference.rs", "system/*.rs"),
}
# Of a field, in characters.
LONGEST = 2000
_LONG = {"redirect_uris": 12_000, "jwks": 50_000}
# The parts of a JSON Web Key that are secret: RFC 7518 §6.2.2, §6.3.2, §6.4.
_SECRET_PARTS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_GIVEN_AWAY = _(
    "This holds a private key, which nobody else may know: it was not kept. Make a new one, and"
    " give its public part only."
)


class PrivateKey(RefusedCommand):
    """Somebody gave away a private key."""


class Draft(NamedTuple):
    """A registration as it is typed, to be shown again where something is wrong with it."""

    kind: str
    auth_method: str
    name: str = ""
    developer: str = ""
    contact: str = ""
    redirect_uris: str = ""
    launch_uri: str = ""
    scopes: Sequence[str] = ()
    other_scopes: str = ""
    jwks: str = ""
    jwks_uri: str = ""


_FIELDS = tuple(name for name in Draft._fields if name != "scopes")
# What is kept of a form that came too late: no keys, which may be private by mistake.
KEPT = (*(name for name in _FIELDS if name != "jwks"), "scope")


def empty_draft(kind: str) -> Draft:
    """Return the draft of a kind of client before anything is typed."""
    return Draft(kind, METHODS[kind][0])


def draft_of(form: MultiDict[str, str]) -> Draft:
    """Return the draft that a form holds. Raises PageError where a field is too long."""
    texts = {name: field(name, _LONG.get(name, LONGEST), form) for name in _FIELDS}
    return Draft(**texts, scopes=tuple(map(plain, form.getlist("scope"))))


def registration_of(draft: Draft) -> Registration:
    """Return what a draft means. Raises RefusedCommand for keys that are none, or secret."""
    return Registration(
        name=draft.name,
        kind=draft.kind,
        auth_method=draft.auth_method,
        scope=" ".join([*draft.scopes, *draft.other_scopes.split()]),
        redirect_uris=tuple(draft.redirect_uris.split()),
        launch_uri=draft.launch_uri or None,
        jwks=_keys(draft.jwks),
        jwks_uri=draft.jwks_uri or None,
        developer=draft.developer or None,
        contact=draft.contact or None,
    )


def _keys(text: str) -> Any:
    if not text:
        return None
    if "PRIVATE KEY-" in text:
        raise PrivateKey(_(_GIVEN_AWAY))
    try:
        content = fhir_json.loads(text)
    except ValueError:
        raise RefusedCommand(_("The keys are not JSON.")) from None
    keys = content.get("keys", [content]) if isinstance(content, dict) else ()
    if isinstance(keys, list) and any(
        isinstance(key, dict) and not _SECRET_PARTS.isdisjoint(key) for key in keys
    ):
        raise PrivateKey(_(_GIVEN_AWAY))
    return content
