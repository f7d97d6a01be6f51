"""The page of one note: heading, documents, details, origin."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from fhirapp.features.notes.search import mark_hits
from fhirapp.fhir import words
from fhirapp.search.fulltext import Phrase
from fhirapp.web.internal_client import read, token_of
from fhirapp.web.labels import full_name, word
from fhirapp.web.marks import allergies_in_brief
from fhirapp.web.pages import PageError, signed_in
from fhirapp.web.texts import _

Json = Mapping[str, Any]
# Pages of a PDF that are drawn.
MOST_PAGES = 50
# Files within a document that are named.
_MOST_PARTS = 10
# Pixels of a frame without text, of a line, and at most; characters of a line on a phone.
_FRAME, _LINE, _TALLEST, _CHARACTERS = 200, 28, 60_000, 32
# For all documents of a note: later ones can be saved, but are not shown.
_SECONDS = 10
# Overrides of the direction, which reverse digits too.
_DIRECTING = re.compile("[\u202d\u202e]")


class OpenNote(NamedTuple):
    """A version of a note, and the token with which it was read."""

    note: dict[str, Any]
    token: OwnToken


def no_record() -> PageError:
    """Return the error for a patient who has no record here."""
    title = _("No record linked to your account")
    return PageError(403, _("Ask your clinic to link it to your account."), title)


def linked_ids() -> list[str]:
    """Return the ids of the records that are linked to whoever signed in."""
    return [link.patient_id for link in links_of(signed_in().user.id)]


def open_note(note_id: str, version: str = "") -> OpenNote:
    """Return a note as the person may read it. Raises PageError."""
    path = f"/fhir/DocumentReference/{quote(note_id, safe='')}"
    path = f"{path}/_history/{quote(version, safe='')}" if version else path
    refused = no_record()
    # A patient has a token for each record.
    for patient_id in linked_ids() if signed_in().user.role == PATIENT else [None]:
        token = token_of(patient_id)
        try:
            note = read(path, token, via=attachments.VIA)
        except PageError as error:
            refused = error
        else:
            elements.add_names(note, token, attachments.VIA)
            return OpenNote(note, token)
    raise refused


def patient_of(opened: OpenNote) -> dict[str, Any]:
    """Return whose record a note is in, as far as may be read and is recorded.

    patient_id is "" unless it is a patient of ours; allergies is None where they cannot be read.
    """
    subject = opened.note.get("subject") or {}
    patient_id = elements.local_id(subject, "Patient")
    recorded = {"patient_id": patient_id, "name": words.reference(subject, opened.note)}
    if not patient_id:
        return recorded
    try:
        patient = read(f"/fhir/Patient/{quote(patient_id)}", opened.token, via=attachments.VIA)
    except PageError:
        return recorded
    born, secret = patient.get("birthDate"), opened.token.secret
    allergies = allergies_in_brief([patient_id], secret, via=attachments.VIA)
    return {
        "patient_id": patient_id,
        "name": full_name(patient),
        "born": elements.day_of(born) if born else "",
        "allergies": allergies.get(patient_id),
    }


def document_views(opened: OpenNote, phrases: Sequence[Phrase]) -> list[dict[str, Any]]:
    """Return the values by which the page shows a note's documents.

    text has the hits of phrases marked; is_cut says that the document has more; pages are those of
    a PDF; remark says why something is missing; is_machine_read that the text is OCR's; height is
    about how many pixels the text needs on a phone, where its frame does not scroll.
    """
    count = min(len(opened.note.get("content", ())), attachments.MAX_ATTACHMENTS)
    found = (attachments.attachment(opened.note, n, opened.token) for n in range(1, count + 1))
    until = time.monotonic() + _SECONDS
    return [_view(document, phrases, until) for document in found if document is not None]


def _view(
    document: attachments.Attachment, phrases: Sequence[Phrase], until: float
) -> dict[str, Any]:
    problem = document.problem
    if time.monotonic() > until:
        problem = _(
            "Not shown: reading the documents before it took too long. Save the file to see "
            "this one."
        )
    if problem or document.data is None:
        return {"document": document, "way": "download", "remark": problem}
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
    remarks = [remark, *_warnings(text, is_machine_read=is_machine_read)]
    if kind == "download":
        remarks.insert(0, _why_not_shown(document))
    remark = " ".join(filter(None, remarks))
    if kind != "download" and not document.data:
        remark = _("This document is empty.")
    elif kind == "pdf" and not text and not remark:
        remark = _("Contains images only. Its text cannot be read or searched.")
    marked = mark_hits(text, phrases)
    return {
        "document": document,
        "way": kind,
        "text": marked,
        "hits": sum(piece.is_hit for piece in marked),
        "is_cut": is_cut,
        "pages": pages,
        "remark": remark,
        "is_machine_read": is_machine_read,
        "height": min(_FRAME + _LINE * _rows(text), _TALLEST),
    }


def _warnings(text: str, *, is_machine_read: bool) -> Iterator[str]:
    """Yield why a text may be wrong, or be read otherwise than it was written."""
    if is_machine_read:
        yield _(attachments.MACHINE_READ)
    if _DIRECTING.search(text):
        yield _(
            "Contains characters that reverse the direction of text, so you may not see it "
            "as it was written: 10 may appear as 01. Compare it with the saved file."
        )


def _rows(text: str) -> int:
    """Return how many lines a text has on a phone."""
    return sum(1 + len(line) // _CHARACTERS for line in text.splitlines())


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


def _why_not_shown(document: attachments.Attachment) -> str:
    if "svg" in document.content_type.lower():
        return _("SVG images can contain scripts, so they are not shown here.")
    return _("This file type cannot be shown here. Save the file and open it in another program.")


# v3 Confidentiality, which says it by a letter alone.
_CONFIDENTIAL = {
    "U": _("unrestricted"),
    "L": _("low confidentiality"),
    "M": _("moderate confidentiality"),
    "N": _("normal confidentiality"),
    "R": _("restricted"),
    "V": _("very restricted"),
}


def facts(note: Json, token: OwnToken) -> list[tuple[str, str]]:
    """Return label and text of what a note's heading does not have."""
    context = note.get("context") or {}
    period = context.get("period")
    encounters = [encounter_in_words(target, token) for target in context.get("encounter", ())[:5]]
    levels = filter(None, map(words.concept, note.get("securityLabel", ())))
    labels = [_(_CONFIDENTIAL[level]) if level in _CONFIDENTIAL else level for level in levels]
    facts = [
        (_("Description"), note.get("description", "")),
        (_("Document status"), word(str(note.get("docStatus") or ""))),
        (_("Signed by"), words.reference(note.get("authenticator"), note)),
        (_("Custodian"), words.reference(note.get("custodian"), note) or _("not recorded")),
        (_("Visit"), "; ".join(filter(None, encounters)) or _("not recorded")),
        (_("Period of care"), _span(period) if period else ""),
        (_("Identifier"), ", ".join(_numbers(note))),
        (_("Security label"), ", ".join(labels)),
    ]
    return [(name, text) for name, text in facts if text]


_UUID = re.compile("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def _numbers(note: Json) -> Iterator[str]:
    """Yield the identifiers that people use; an address or UUID is for programs."""
    for identifier in [note.get("masterIdentifier") or {}, *note.get("identifier", ())][:5]:
        value = str(identifier.get("value") or "")
        if value and not value.startswith("urn:") and not _UUID.fullmatch(value):
            yield words.shortened(value, 80)


def encounter_in_words(value: Json | None, token: OwnToken, via: str = attachments.VIA) -> str:
    """Return an encounter in words, as much as may be read of it; "" where none is recorded."""
    place = str((value or {}).get("reference", ""))
    if not place.startswith("Encounter/"):
        return words.reference(value)
    try:
        encounter = read(f"/fhir/{quote(place)}", token, via=via)
    except PageError:
        return words.reference(value)
    return f"{words.encounter(encounter) or _('a visit')}, {_span(encounter.get('period') or {})}"


def _span(period: Json) -> str:
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


def relation_in_words(relation: Json) -> str:
    """Return how a note has to do with another: replaces."""
    return _(_RELATIONS.get(str(relation.get("code")), "relates to"))


def relations(note: Json, token: OwnToken) -> list[tuple[str, elements.NoteItem]]:
    """Return the notes that a note has to do with, and those that name it, after a sentence."""
    found = []
    for relation in note.get("relatesTo", ())[:10]:
        other_id = elements.local_id(relation.get("target"), "DocumentReference")
        if not other_id:
            continue
        with suppress(PageError):
            path = f"/fhir/{quote(relation['target']['reference'])}"
            other = read(path, token, via=attachments.VIA)
            how = relation_in_words(relation)
            sentence = _("The note you are viewing %(relation)s this one", relation=how)
            found.append((sentence, elements.line(other)))
    naming = [("relatesto", f"DocumentReference/{note['id']}")]
    with suppress(PageError):
        for other in every("DocumentReference", naming, token, 10):
            links = (
                link
                for link in other.get("relatesTo", ())
                if elements.local_id(link.get("target"), "DocumentReference") == note["id"]
            )
            how = relation_in_words(next(links, {}))
            sentence = _("A later note %(relation)s this one", relation=how)
            found.append((sentence, elements.line(other)))
    return found
