"""Codes, scopes, types and redirect addresses in words that a patient understands.

What a type is called stands on its declaration (definition.Labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth import scopes
from fhirapp.auth.models import ANY_LOOPBACK
from fhirapp.definition import Labels, types
from fhirapp.fhir import words
from fhirapp.url_syntax import LOOPBACK
from fhirapp.web.texts import _

# FHIR's codes in words; a code that is not here is shown as it is.
_CODES = {
    "allergy": _("allergy"),
    "intolerance": _("intolerance"),
    "food": _("food"),
    "medication": _("medication"),
    "mild": _("mild"),
    "moderate": _("moderate"),
    "severe": _("severe"),
    "active": _("active"),
    "inactive": _("inactive"),
    "resolved": _("resolved"),
    "confirmed": _("confirmed"),
    "unconfirmed": _("unconfirmed"),
    "refuted": _("refuted"),
    "entered-in-error": _("entered in error"),
    "low": _("low"),
    "high": _("high"),
    "unable-to-assess": _("unable to assess"),
    "environment": _("environment"),
    "biologic": _("biologic (vaccines, sera)"),
    "superseded": _("superseded"),
    "preliminary": _("preliminary"),
    "amended": _("amended"),
    "current": _("current"),
    "final": _("final"),
}
_SEXES = {
    "male": _("male"),
    "female": _("female"),
    "other": _("other"),
    "unknown": _("sex unknown"),
}
# Statuses of a note that are shown, and those in which it no longer holds.
NOTE_STATUSES = ("superseded", "entered-in-error", "preliminary", "amended")
PAST_STATUSES = frozenset({"superseded", "entered-in-error"})
# By how a media type begins.
_FORMATS = (
    ("application/pdf", "PDF"),
    ("application/x-pdf", "PDF"),
    ("image/svg", _("drawing")),
    ("image/", _("image")),
    ("text/html", "HTML"),
    ("application/xhtml+xml", "HTML"),
    ("application/hl7-", "C-CDA"),
    ("application/cda", "CDA"),
    ("text/xml", "C-CDA"),
    ("application/xml", "C-CDA"),
    ("text/rtf", "RTF"),
    ("application/rtf", "RTF"),
    ("application/msword", "Word"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml", "Word"),
    ("application/vnd.oasis.opendocument.text", "OpenDocument"),
    ("text/", _("text")),
)
_ALL = _("everything in the record: notes, allergies, visits, reports, personal details")
_SESSION = {
    scopes.OPENID: _("Recognize you when you return"),
    scopes.FHIR_USER: _("Know which record represents you"),
    scopes.PROFILE: _("Know your name and user name"),
    scopes.LAUNCH: _("Know the patient, visit and note that you launched it from"),
    scopes.LAUNCH_PATIENT: _("Know which patient is selected"),
    scopes.LAUNCH_ENCOUNTER: _("Know which visit is selected, and whose it is"),
    scopes.OFFLINE: _("Keep access when you are away"),
    scopes.ONLINE: _("Keep access as long as you stay signed in"),
}


def word(code: str) -> str:
    """Return a code of FHIR's in words."""
    return _(_CODES[code]) if code in _CODES else code


def sex(patient: Mapping[str, Any]) -> str:
    """Return a patient's administrative gender in words."""
    return _(_SEXES.get(str(patient.get("gender")), "sex not recorded"))


def full_name(person: Mapping[str, Any]) -> str:
    """Return the current name of a Patient, Practitioner or RelatedPerson, as pages show it."""
    return words.shortened(words.name_of(person, prefix=False)) or _("Name not recorded")


def format_of(content_type: str) -> str:
    """Return the format of a media type, in a word."""
    essence = content_type.partition(";")[0].strip().lower()
    return next(
        (_(name) for start, name in _FORMATS if essence.startswith(start)),
        words.shortened(essence, 40) or _("format not recorded"),
    )


def plural_of(type_name: str) -> str:
    """Return what a type's resources are called: allergies and intolerances."""
    return _(_labels(type_name).plural or type_name)


def one_of(type_name: str) -> str:
    """Return what a resource of a type is called, with its article: an allergy."""
    return _(_labels(type_name).singular or type_name)


def _labels(type_name: str) -> Labels:
    definition = types().get(type_name)
    return definition.labels if definition is not None else Labels()


class ScopeLabel(NamedTuple):
    """A scope as the page tells it: a sentence, and whether what it opens is sensitive."""

    scope: str
    sentence: str
    sensitive: bool


def in_words(text: str) -> ScopeLabel:
    """Return a scope in words."""
    scope = scopes.parse_scope(text)
    if scope is None:
        return ScopeLabel(text, _(_SESSION.get(text, text)), sensitive=False)
    if scope.resource_type == "AuditEvent":
        return ScopeLabel(text, _("See the audit trail: who viewed which record"), sensitive=True)
    is_sensitive = scope.resource_type == "*" or _labels(scope.resource_type).sensitive
    return ScopeLabel(text, _sentence(scope), is_sensitive)


def returns_to(redirect_uris: Iterable[str], server: str) -> str:
    """Return where an app's addresses lead, each place once: a.example, this server.

    Each is told by its host, or an app's scheme; server is our own address, as base_url() has it.
    """
    return ", ".join(dict.fromkeys(_place(uri, server) for uri in redirect_uris))


def _place(uri: str, server: str) -> str:
    if uri == ANY_LOOPBACK:
        return _("this device")
    if uri.startswith(("/", f"{server}/")):
        return _("this server")
    parts = urlsplit(uri)
    if parts.hostname in LOOPBACK:
        return _("this device (%(place)s)", place=parts.netloc)
    return parts.netloc or _("the app that opens %(scheme)s:", scheme=parts.scheme)


def _sentence(scope: scopes.Scope) -> str:
    name = scope.resource_type
    what = _(_ALL) if name == "*" else _(_labels(name).scope or name)
    if scope.permissions == scopes.READ:
        seen = _("Read, where it knows the id, %(what)s", what=what)
    elif scope.permissions == scopes.SEARCH:
        seen = _("Search %(what)s", what=what)
    else:
        seen = _("See %(what)s", what=what)
    if scope.context == "user":
        seen = _("%(seen)s of every patient you have access to", seen=seen)
    elif scope.context == "system":
        seen = _("%(seen)s of every patient", seen=seen)
    only = _(" and ").join(
        _("%(name)s is %(value)s", name=name.replace("-", " "), value=value.rpartition("|")[2])
        for name, value in scope.filters
    )
    return _("%(seen)s, only where %(only)s", seen=seen, only=only) if only else seen
