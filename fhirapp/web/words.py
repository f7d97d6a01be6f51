"""Scopes, and where apps lead, in words that a patient understands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth.models.client import ANY_LOOPBACK
from fhirapp.auth.scopes import (
    FHIR_USER,
    LAUNCH,
    LAUNCH_ENCOUNTER,
    LAUNCH_PATIENT,
    OFFLINE,
    ONLINE,
    OPENID,
    PROFILE,
    READ,
    SEARCH,
    Scope,
    parse_scope,
)

_WHAT = {
    "*": "everything in the record: notes, allergies, visits, reports, personal details",
    "AllergyIntolerance": "allergies and intolerances",
    "Binary": "files attached to notes",
    "DiagnosticReport": "reports",
    "DocumentReference": "clinical notes and documents",
    "Encounter": "visits",
    "Organization": "clinics and hospitals",
    "Patient": "name, date of birth, address and other personal details",
    "Practitioner": "names of clinicians",
    "Provenance": "who recorded what, and when",
}
_SENSITIVE = frozenset({"*", "DocumentReference", "DiagnosticReport", "Binary"})
_SESSION = {
    OPENID: "Recognise you when you come back",
    FHIR_USER: "Know who you are in the records",
    PROFILE: "Know your name and user name",
    LAUNCH: "Know which patient you were looking at when you started it",
    LAUNCH_PATIENT: "Know which patient this is about",
    LAUNCH_ENCOUNTER: "Know which visit this is about",
    OFFLINE: "Keep access when you are away",
    ONLINE: "Keep access as long as you stay signed in",
}


class Words(NamedTuple):
    """A scope as the page tells it: a sentence, and whether what it opens is sensitive."""

    scope: str
    sentence: str
    sensitive: bool


def in_words(text: str) -> Words:
    """Return a scope in words."""
    scope = parse_scope(text)
    if scope is None:
        return Words(text, _SESSION.get(text, text), sensitive=False)
    return Words(text, _sentence(scope), scope.resource_type in _SENSITIVE)


def host_of(uri: str) -> str:
    """Return what tells a person where an address leads: its host, or an app's scheme."""
    parts = urlsplit(uri)
    return parts.netloc or f"the app that opens {parts.scheme}:"


def returns_to(redirect_uris: Iterable[str]) -> str:
    """Return where an app's registered addresses lead, each place once: a.example, b.example."""
    return ", ".join(dict.fromkeys(map(_place, redirect_uris)))


def _place(uri: str) -> str:
    if uri == ANY_LOOPBACK:
        return "this device"
    return "this server" if uri.startswith("/") else host_of(uri)


def _sentence(scope: Scope) -> str:
    what = _WHAT.get(scope.resource_type, scope.resource_type)
    if scope.permissions == READ:
        verb = "Open, where it knows the address,"
    elif scope.permissions == SEARCH:
        verb = "Search"
    else:
        verb = "See"
    whose = {"patient": "", "user": " of every patient you may see", "system": " of every patient"}
    only = " and ".join(
        f"{name.replace('-', ' ')} is {value.rpartition('|')[2]}" for name, value in scope.filters
    )
    return f"{verb} {what}{whose[scope.context]}{f', only where {only}' if only else ''}"
