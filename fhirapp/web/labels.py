"""Scopes and redirect addresses in words that a patient understands; days and times.

Times are in the clinic's zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from fhirapp.auth.models import ANY_LOOPBACK
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
from fhirapp.config import LOOPBACK
from fhirapp.fhir import temporal
from fhirapp.web.texts import _

_WHAT = {
    "*": _("everything in the record: notes, allergies, visits, reports, personal details"),
    "AllergyIntolerance": _("allergies and intolerances"),
    "Binary": _("files attached to notes"),
    "DiagnosticReport": _("reports"),
    "DocumentReference": _("clinical notes and documents"),
    "Encounter": _("visits"),
    "Group": _("lists of patients"),
    "Organization": _("clinics and hospitals"),
    "Patient": _("name, date of birth, address and other personal details"),
    "Practitioner": _("names of clinicians"),
    "Provenance": _("who recorded what, and when"),
}
_SENSITIVE = frozenset({"*", "DocumentReference", "DiagnosticReport", "Binary"})
_SESSION = {
    OPENID: _("Recognise you when you come back"),
    FHIR_USER: _("Know who you are in the records"),
    PROFILE: _("Know your name and user name"),
    LAUNCH: _("Know for which patient, visit and note you started it from here"),
    LAUNCH_PATIENT: _("Know which patient this is about"),
    LAUNCH_ENCOUNTER: _("Know which visit this is about"),
    OFFLINE: _("Keep access when you are away"),
    ONLINE: _("Keep access as long as you stay signed in"),
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
        return Words(text, _(_SESSION.get(text, text)), sensitive=False)
    return Words(text, _sentence(scope), scope.resource_type in _SENSITIVE)


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


def _sentence(scope: Scope) -> str:
    what = _(_WHAT.get(scope.resource_type, scope.resource_type))
    if scope.permissions == READ:
        seen = _("Open, where it knows the address, %(what)s", what=what)
    elif scope.permissions == SEARCH:
        seen = _("Search %(what)s", what=what)
    else:
        seen = _("See %(what)s", what=what)
    if scope.context == "user":
        seen = _("%(seen)s of every patient you may see", seen=seen)
    elif scope.context == "system":
        seen = _("%(seen)s of every patient", seen=seen)
    only = _(" and ").join(
        _("%(name)s is %(value)s", name=name.replace("-", " "), value=value.rpartition("|")[2])
        for name, value in scope.filters
    )
    return _("%(seen)s, only where %(only)s", seen=seen, only=only) if only else seen


_MONTHS = (
    _("January"),
    _("February"),
    _("March"),
    _("April"),
    _("May"),
    _("June"),
    _("July"),
    _("August"),
    _("September"),
    _("October"),
    _("November"),
    _("December"),
)


def day(seconds: int | None) -> str:
    """Return the day of a moment in seconds since 1970: 3 May 2026. The page names the zone."""
    if not seconds:
        return _("never")
    then = _local(seconds)
    return _day(then.year, then.month, then.day)


def moment(seconds: int | None) -> str:
    """Return a moment in seconds since 1970: 3 May 2026, 14:05 CDT."""
    return moment_of(_local(seconds)) if seconds else _("never")


def moment_of(then: datetime) -> str:
    """Return a local time, with its zone."""
    return _(
        "%(day)s, %(time)s %(zone)s",
        day=_day(then.year, then.month, then.day),
        time=f"{then:%H:%M}",
        zone=temporal.zone_name(then),
    )


def exact(instant: str) -> str:
    """Return an instant to the second: 3 May 2026, 14:05:09 CDT."""
    return temporal.exact(temporal.local(datetime.fromisoformat(instant)))


def partial(fhir: str) -> str:
    """Return the day of a FHIR date or time: 12 April 1958, April 1958, 1958."""
    parts = [int(part) for part in temporal.day_of(fhir).split("-")]
    if len(parts) == 3:
        return _day(*parts)
    if len(parts) == 2:
        return _("%(month)s %(year)s", month=_(_MONTHS[parts[1] - 1]), year=parts[0])
    return fhir


def _local(seconds: int) -> datetime:
    return temporal.local(datetime.fromtimestamp(seconds, UTC))


def _day(year: int, month: int, day: int) -> str:
    return _("%(day)s %(month)s %(year)s", day=day, month=_(_MONTHS[month - 1]), year=year)
