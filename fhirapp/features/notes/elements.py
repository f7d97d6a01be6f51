"""A DocumentReference in words: type, status, authors, dates; "not recorded" where it has none.

People are shown by name, never by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.fhir import temporal, words
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.document_date import date_of
from fhirapp.web import labels, times
from fhirapp.web.internal_client import read
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _, numeral

Json = Mapping[str, Any]


class Status(NamedTuple):
    """Whether a note is valid: in a word, "" if it is; no longer (is_past), or never (is_error)."""

    word: str
    is_past: bool
    is_error: bool


class NoteItem(NamedTuple):
    """A note in a list."""

    id: str
    version: str
    kind: str
    # What it is about, where that is more than its kind.
    about: str
    # As it stands; "" where the note has none.
    date: str
    day: str
    author: str
    formats: tuple[str, ...]
    status: Status
    patient_id: str
    patient: str


def line(note: Json) -> NoteItem:
    """Return a note as a list shows it."""
    subject = note.get("subject") or {}
    return NoteItem(
        id=note["id"],
        version=version_of(note),
        kind=kind_of_note(note),
        about=about(note),
        date=date_of(note),
        day=day_of(date_of(note)),
        author=words.references(note.get("author"), note) or _("author not recorded"),
        formats=formats(note),
        status=status(note),
        patient_id=local_id(subject, "Patient"),
        patient=words.reference(subject, note),
    )


def version_of(resource: Json) -> str:
    return str(resource.get("meta", {}).get("versionId", ""))


def kind_of_note(note: Json) -> str:
    return words.concept(note.get("type")) or _("Note of unrecorded type")


def about(note: Json) -> str:
    """Return what a note is about, by its description or the titles of its documents."""
    if description := note.get("description"):
        return words.shortened(str(description))
    titles = [(content.get("attachment") or {}).get("title") for content in note.get("content", ())]
    kind = kind_of_note(note).casefold()
    titled = dict.fromkeys(str(text) for text in titles if text and str(text).casefold() != kind)
    return words.shortened(", ".join(titled))


def local_id(value: Json | None, kind: str) -> str:
    """Return the id of a resource of ours that a Reference points to, "" where it does not."""
    parts = str((value or {}).get("reference", "")).split("/")
    return parts[1] if parts[0] == kind and len(parts) > 1 else ""


def status(note: Json) -> Status:
    codes = {str(note.get("status", "")), str(note.get("docStatus", ""))}
    labelled = [labels.word(code) for code in labels.NOTE_STATUSES if code in codes]
    past = codes & labels.PAST_STATUSES
    return Status(", ".join(labelled), bool(past), "entered-in-error" in past)


def formats(note: Json) -> tuple[str, ...]:
    """Return in what formats a note's documents are, each once."""
    attached = [content.get("attachment") or {} for content in note.get("content", ())]
    found = (labels.format_of(str(document.get("contentType", ""))) for document in attached)
    return tuple(dict.fromkeys(found)) or (_("no document"),)


def day_of(value: object) -> str:
    """Return the day of a FHIR date or time, in the zone that the page names: 3 Nov 2023, 2023."""
    text = str(value or "")
    try:
        return words.day(text, times.SHORT_MONTHS, _) if text else _("not dated")
    except (ValueError, LookupError):
        return words.shortened(text, 40) or _("not dated")


def moment_of(value: object) -> str:
    """Return a FHIR time with its hour: 3 Nov 2023, 14:05 CET."""
    with suppress(ValueError):
        if then := temporal.local_of(str(value or "")):
            return times.moment_of(then, times.SHORT_MONTHS)
    return day_of(value)


def size(count: int) -> str:
    """Return a number of bytes as people say it."""
    if count < 1_000:
        return _("%(count)s bytes", count=count)
    if count < 1_000_000:
        return f"{numeral(count / 1_000)} kB"
    return f"{numeral(count / 1_000_000, 1)} MB"


# Each is a request.
_MOST = 12
_NAMED = re.compile(f"(?:Patient|Practitioner|Organization|DocumentReference)/{ID_PATTERN}")


def add_names(resources: Any, token: OwnToken, via: str) -> None:
    """Add displays to references of people, organizations and notes, as far as readable.

    resources is one resource or a list, as FHIR JSON.
    """
    names: dict[str, str] = {}
    for element in _unnamed(resources):
        address = element["reference"]
        if address not in names and len(names) < _MOST:
            names[address] = _name_of(address, token, via)
        if found := names.get(address):
            element["display"] = found


def _unnamed(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for child in value:
            yield from _unnamed(child)
    elif isinstance(value, dict):
        address = value.get("reference")
        if isinstance(address, str) and not value.get("display") and _NAMED.fullmatch(address):
            yield value
        for key, child in value.items():
            if key not in _LEFT_OUT:
                yield from _unnamed(child)


# Shown elsewhere, or the resource itself.
_LEFT_OUT = frozenset({"contained", "patient", "relatesTo", "subject", "target"})


def _name_of(address: str, token: OwnToken, via: str) -> str:
    try:
        found = read(f"/fhir/{address}", token, via=via)
    except PageError:
        return ""
    if found["resourceType"] == "DocumentReference":
        return f"{kind_of_note(found)}, {day_of(date_of(found))}"
    return words.shortened(words.name_of(found, prefix=False))
