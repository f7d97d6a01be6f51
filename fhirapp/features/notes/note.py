"""The page of one note: heading, documents, details, origin."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.links import links_of
from fhirapp.auth.models import PATIENT
from fhirapp.documents import Unreadable
from fhirapp.documents.extractor import shared_extractor
from fhirapp.documents.media import Unread
from fhirapp.features.notes import attachments, elements
from fhirapp.features.notes.listing import every
from fhirapp.features.notes.search import TextSpan, mark_hits
from fhirapp.fhir import words
from fhirapp.search.fulltext import Phrase
from fhirapp.web.internal_client import read, token_of
from fhirapp.web.labels import full_name, word
from fhirapp.web.marks import AllergiesInBrief, allergies_in_brief
from fhirapp.web.pages import PageError, signed_in
from fhirapp.web.texts import _

# Of a PDF, what is drawn; who has a longer one downloads it.
MOST_PAGES = 50
# Files within a document that are named.
_MOST_PARTS = 10
# Pixels of a frame, of a line, and at most; characters of a line on a phone. A page of a document
# has headings and space between its paragraphs too.
_FRAME, _LINE, _TALLEST, _CHARACTERS = 200, 28, 60_000, 32
# For all documents of a note; what comes later than that can be saved, not seen.
_SECONDS = 10


class OpenNote(NamedTuple):
    """A version of a note, and the token with which it was read."""

    note: dict[str, Any]
    token: OwnToken


class DocumentView(NamedTuple):
    """A document in the page.

    text is what is marked in it, is_cut says that there is more; pages are those of a PDF; remark
    says why something is missing, is_machine_read that the text is OCR's.
    """

    document: attachments.Attachment
    way: attachments.Way
    text: list[TextSpan]
    hits: int
    is_cut: bool
    pages: int
    remark: str
    is_machine_read: bool = False

    @property
    def size(self) -> str:
        return elements.size(len(self.document.data or b""))

    @property
    def height(self) -> int:
        """About how many pixels its text needs on a phone, where its frame does not scroll."""
        lines = "".join(piece.text for piece in self.text).splitlines()
        rows = sum(1 + len(line) // _CHARACTERS for line in lines)
        return min(_FRAME + rows * _LINE, _TALLEST)


def no_record() -> PageError:
    """Return what a patient reads who has no record here."""
    return PageError(
        403, _("Ask your clinic to link it to your account."), _("No record linked to your account")
    )


def open_note(note_id: str, version: str = "") -> OpenNote:
    """Return a note as the person may read it. Raises PageError."""
    path = f"/fhir/DocumentReference/{quote(note_id, safe='')}"
    path = f"{path}/_history/{quote(version, safe='')}" if version else path
    refused = no_record()
    for token in _tokens():
        try:
            note = read(path, token, via=attachments.VIA)
        except PageError as error:
            refused = error
        else:
            elements.add_names(note, token, attachments.VIA)
            return OpenNote(note, token)
    raise refused


def _tokens() -> Iterator[OwnToken]:
    """Yield the tokens of who signed in: a patient has one for each record."""
    user = signed_in().user
    if user.role != PATIENT:
        yield token_of()
        return
    for link in links_of(user.id):
        yield token_of(link.patient_id)


class NotePatient(NamedTuple):
    """Whose record a note is in: an id where it is one of ours, a name, and when they were born.

    allergies is None where they cannot be read.
    """

    patient_id: str
    name: str
    born: str
    allergies: AllergiesInBrief | None = None


def patient_of(opened: OpenNote) -> NotePatient:
    """Return whose record a note is in, as far as may be read and is recorded."""
    subject = opened.note.get("subject") or {}
    patient_id = elements.local_id(subject, "Patient")
    recorded = NotePatient(patient_id, words.reference(subject, opened.note), "")
    if not patient_id:
        return recorded
    try:
        patient = read(f"/fhir/Patient/{quote(patient_id)}", opened.token, via=attachments.VIA)
    except PageError:
        return recorded
    born, secret = patient.get("birthDate"), opened.token.secret
    return NotePatient(
        patient_id,
        full_name(patient),
        elements.day_of(born) if born else "",
        allergies_in_brief([patient_id], secret, via=attachments.VIA).get(patient_id),
    )


# They hold for digits too; those that only set a direction do not.
_TURNED = re.compile("[\u202d\u202e]")


def document_views(opened: OpenNote, phrases: Sequence[Phrase]) -> list[DocumentView]:
    """Return a note's documents, what was looked for marked in them."""
    count = min(len(opened.note.get("content", ())), attachments.MAX_ATTACHMENTS)
    found = (attachments.attachment(opened.note, n, opened.token) for n in range(1, count + 1))
    until = time.monotonic() + _SECONDS
    return [_view(document, phrases, until) for document in found if document is not None]


def _view(
    document: attachments.Attachment, phrases: Sequence[Phrase], until: float
) -> DocumentView:
    problem = document.problem
    if time.monotonic() > until:
        problem = _(
            "Not shown: reading the documents before it took too long. Save the file to see "
            "this one."
        )
    if problem or document.data is None:
        return DocumentView(document, "download", [], 0, is_cut=False, pages=0, remark=problem)
    kind = attachments.way(document)
    pages, is_cut, text, remark, is_machine_read = 0, False, "", "", False
    try:
        if kind == "pdf":
            pages = shared_extractor().pages_of(document.data)
        if kind == "text":
            text, is_cut = attachments.plain_text(document)
        elif kind not in ("picture", "download"):
            text, unread, is_machine_read = attachments.read_words(document)
            remark = _unread_remark(unread)
        else:
            text = attachments.machine_read(document)
            is_machine_read = bool(text)
    except Unreadable as error:
        remark = _("Its text cannot be read: %(reason)s.", reason=str(error))
    about = _(attachments.MACHINE_READ) if is_machine_read else ""
    remark = " ".join(filter(None, (remark, about, _bidi_warning(text))))
    if kind == "download":
        remark = f"{_why_not_shown(document)} {remark}".rstrip()
    elif not document.data:
        remark = _("This document is empty.")
    elif kind == "pdf" and not text and not remark:
        remark = _("Contains images only. Its text cannot be read or searched.")
    marked = mark_hits(text, phrases)
    hits = sum(piece.is_hit for piece in marked)
    return DocumentView(document, kind, marked, hits, is_cut, pages, remark, is_machine_read)


def _unread_remark(parts: Sequence[Unread]) -> str:
    """Return which files within a document no search finds, by their sections."""
    if not parts:
        return ""
    named = [
        f"{words.shortened(part.section) or _('outside of a section')} ({part.reason})"
        for part in parts[:_MOST_PARTS]
    ]
    if len(parts) > _MOST_PARTS:
        named.append(_("%(count)s more", count=len(parts) - _MOST_PARTS))
    return _(
        "Contains files whose text cannot be read or searched: %(files)s.", files="; ".join(named)
    )


def _bidi_warning(text: str) -> str:
    """Return a warning where a text may be read otherwise than it was written."""
    if not _TURNED.search(text):
        return ""
    return _(
        "Contains characters that reverse the direction of text, so you may not see it "
        "as it was written: 10 may appear as 01. Compare it with the saved file."
    )


def _why_not_shown(document: attachments.Attachment) -> str:
    if "svg" in document.content_type.lower():
        return _("SVG images can contain scripts, so they are not shown here.")
    return _("This file type cannot be shown here. Save the file and open it in another program.")


def facts(note: Mapping[str, Any], token: OwnToken) -> list[tuple[str, str]]:
    """Return what a note's heading has beside its kind and its day."""
    context = note.get("context") or {}
    period = context.get("period") or {}
    encounters = [encounter_in_words(target, token) for target in context.get("encounter", ())[:5]]
    facts = [
        (_("Description"), note.get("description", "")),
        (_("Document status"), word(str(note.get("docStatus") or ""))),
        (_("Signed by"), words.reference(note.get("authenticator"), note)),
        (_("Custodian"), words.reference(note.get("custodian"), note) or _("not recorded")),
        (_("Visit"), "; ".join(filter(None, encounters)) or _("not recorded")),
        (_("Period of care"), _span(period) if period else ""),
        (_("Identifier"), ", ".join(_numbers(note))),
        (_("Security label"), ", ".join(filter(None, map(_label, note.get("securityLabel", ()))))),
    ]
    return [(name, text) for name, text in facts if text]


def _numbers(note: Mapping[str, Any]) -> Iterator[str]:
    """Yield by what others know a note; an address or UUID is for programs."""
    for identifier in [note.get("masterIdentifier") or {}, *note.get("identifier", ())][:5]:
        value = str(identifier.get("value") or "")
        if value and not value.startswith("urn:") and not _UUID.fullmatch(value):
            yield words.shortened(value, 80)


_UUID = re.compile("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


# v3 Confidentiality, which says it by a letter alone.
_CONFIDENTIAL = {
    "U": _("unrestricted"),
    "L": _("low confidentiality"),
    "M": _("moderate confidentiality"),
    "N": _("normal confidentiality"),
    "R": _("restricted"),
    "V": _("very restricted"),
}


def _label(value: Mapping[str, Any]) -> str:
    level = words.concept(value)
    return _(_CONFIDENTIAL[level]) if level in _CONFIDENTIAL else level


def encounter_in_words(
    value: Mapping[str, Any] | None, token: OwnToken, via: str = attachments.VIA
) -> str:
    """Return an encounter in words, as much as may be read of it; "" where none is recorded."""
    place = str((value or {}).get("reference", ""))
    if not place.startswith("Encounter/"):
        return words.reference(value)
    try:
        encounter = read(f"/fhir/{quote(place)}", token, via=via)
    except PageError:
        return words.reference(value)
    return f"{words.encounter(encounter) or _('a visit')}, {_span(encounter.get('period') or {})}"


def _span(period: Mapping[str, Any]) -> str:
    start, end = (
        elements.day_of(period[name]) if period.get(name) else "" for name in ("start", "end")
    )
    if not start and not end:
        return _("time not recorded")
    if start == end:
        return start
    return f"{start or _('start not recorded')} – {end or _('end not recorded')}"  # noqa: RUF001


_RELATIONS = {
    "replaces": _("replaces"),
    "transforms": _("is a transformation of"),
    "signs": _("signs"),
    "appends": _("adds to"),
    "": _("relates to"),
}


def relation_in_words(relation: Mapping[str, Any]) -> str:
    """Return how a note has to do with another: replaces."""
    return _(_RELATIONS.get(str(relation.get("code")), "relates to"))


def relations(note: Mapping[str, Any], token: OwnToken) -> list[tuple[str, elements.NoteItem]]:
    """Return the notes that a note has to do with, and those that name it."""
    here = note["id"]
    found = []
    for relation in note.get("relatesTo", ())[:10]:
        place = str((relation.get("target") or {}).get("reference", ""))
        if place.startswith("DocumentReference/"):
            try:
                other = read(f"/fhir/{quote(place)}", token, via=attachments.VIA)
            except PageError:
                continue
            found.append(
                (
                    _(
                        "The note you are viewing %(relation)s this one",
                        relation=relation_in_words(relation),
                    ),
                    elements.line(other),
                )
            )
    naming = [("relatesto", f"DocumentReference/{here}")]
    try:
        for other in every("DocumentReference", naming, token, 10):
            links = (
                link
                for link in other.get("relatesTo", ())
                if str((link.get("target") or {}).get("reference", "")).split("/")[1:2] == [here]
            )
            how = relation_in_words(next(links, {}))
            found.append(
                (_("A later note %(relation)s this one", relation=how), elements.line(other))
            )
    except PageError:
        pass
    return found
