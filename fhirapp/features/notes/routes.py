"""The pages of notes: search, one note, its versions and documents."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from fhirapp.auth.models import PATIENT
from fhirapp.config import settings
from fhirapp.features.notes import attachments, note, search
from fhirapp.features.notes.attachments import MAX_ATTACHMENTS, Attachment, attachment
from fhirapp.features.notes.elements import line, moment_of, version_of
from fhirapp.features.notes.listing import InvalidNoteSearch, name_of_patient
from fhirapp.features.notes.of_patient import timeline_of
from fhirapp.features.notes.origin import origins
from fhirapp.features.notes.search import NoteQuery
from fhirapp.features.notes.versions import MOST, compare_notes, versions
from fhirapp.fhir.document_date import date_of
from fhirapp.rest.middleware import SLOW_PATHS
from fhirapp.web import pages
from fhirapp.web.internal_client import token_of
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("notes", __name__)
# Documents are read and shown here.
blueprint.record_once(lambda state: state.app.extensions.update({SLOW_PATHS: ("/notes",)}))


def _page(template: str, status: int = 200, **values: Any) -> Response:
    return pages.page(template, status, scripts=True, **values)


@blueprint.get("/notes")
@pages.for_signed_in
@pages.in_words
def find() -> Response:
    """Find notes by their words; of one patient, list them all. Aborts with 400, 403."""
    try:
        query = search.query_of(request.args)
    except InvalidNoteSearch as error:
        return _found(NoteQuery(request.args.get("q", "")[:500]), 400, refused=str(error))
    is_patient = pages.signed_in().user.role == PATIENT
    if is_patient:
        # A search is in one record, which has a token of its own; there is nothing to rank among.
        linked = note.linked_ids()
        if not linked:
            raise note.no_record()
        query = query._replace(patient=query.patient or linked[0], newest=True)
    token = token_of(query.patient if is_patient else None)
    if request.args.get("part") == "timeline":
        if not query.patient:
            raise PageError(400, _("Choose one patient for a timeline."))
        return _page("notes/_timeline.html", timeline=timeline_of(query.patient, token))
    if query.is_empty:
        return _found(query)
    try:
        found, hits = search.find(query, token)
    except InvalidNoteSearch as error:
        return _found(query, 400, refused=str(error))
    following = query.address(cursor=found.next) if found.next else ""
    if request.args.get("part") == "lines":
        lines, whose = found.lines, not query.patient
        return _page("notes/_lines.html", lines=lines, whose=whose, next_address=following)
    drawn = timeline_of(query.patient, token) if request.args.get("timeline") else None
    name = name_of_patient(query.patient, token) if query.patient else ""
    return _found(query, found=found, hits=hits, next_address=following, timeline=drawn, name=name)


_NOT_READ = _("Scanned pages cannot be searched.")
_MACHINE_READ = _(
    "Scanned pages are found only by what was machine-read (OCR), which may be wrong: a page that "
    "could not be read, or a word that was misread, is not found."
)


def _found(query: NoteQuery, status: int = 200, **values: Any) -> Response:
    """Return the page of a search."""
    is_patient = pages.signed_in().user.role == PATIENT
    # Where patients search in the other records that are linked to them.
    others = [
        (query.address(patient=id_, cursor=""), name_of_patient(id_, token_of(id_)) or id_)
        for id_ in (note.linked_ids() if is_patient else ())
        if id_ != query.patient
    ]
    return _page(
        "notes/find.html",
        status,
        query=query,
        kinds=search.KINDS,
        statuses=search.STATUSES,
        best=search.BEST,
        is_patient=is_patient,
        others=others,
        scans=_(_MACHINE_READ if settings().ocr_languages else _NOT_READ),
        **values,
    )


@blueprint.get("/notes/<note_id>")
@pages.for_signed_in
@pages.in_words
def show(note_id: str) -> Response:
    """Show a note and its documents; an earlier version with ?version=. Aborts with 404."""
    version = _version("version")
    opened = note.open_note(note_id, version)
    newest = _newest(note_id) if version else version_of(opened.note)
    q = request.args.get("q", "")[:500]
    return _page(
        "notes/note.html",
        note=line(opened.note),
        when=moment_of(date_of(opened.note)),
        told_status=str(opened.note.get("status", "")),
        text_status=str(opened.note.get("docStatus", "")),
        newest=newest,
        whose=note.patient_of(opened),
        facts=note.facts(opened.note, opened.token),
        relations=note.relations(opened.note, opened.token),
        documents=note.document_views(opened, search.phrases_of(q)),
        count=len(opened.note.get("content", ())),
        most=MAX_ATTACHMENTS,
        most_pages=note.MOST_PAGES,
        origins=origins(note_id, opened.token),
        q=q,
    )


@blueprint.get("/notes/<note_id>/versions")
@pages.for_signed_in
@pages.in_words
def list_versions(note_id: str) -> Response:
    """List a note's versions. Aborts with 404."""
    opened = note.open_note(note_id)
    found = versions(note_id, opened.token)
    return _page(
        "notes/versions.html",
        note=line(opened.note),
        whose=note.patient_of(opened),
        versions=found,
        most=MOST,
    )


@blueprint.get("/notes/<note_id>/difference")
@pages.for_signed_in
@pages.in_words
def compare(note_id: str) -> Response:
    """Show what differs between two versions of a note. Aborts with 400, 404."""
    first, second = _version("from"), _version("to")
    if not first or not second:
        raise PageError(400, _("Name the two versions to compare: ?from=1&to=2."))
    before, after = note.open_note(note_id, first), note.open_note(note_id, second)
    found = compare_notes(before, after)
    return _page(
        "notes/difference.html",
        before=line(before.note),
        after=line(after.note),
        whose=note.patient_of(after),
        found=found,
    )


@blueprint.get("/notes/<note_id>/content/<int:number>")
@pages.for_signed_in
def frame(note_id: str, number: int) -> Response:
    """Return a document as the note's page frames it. Aborts with 404."""
    return attachments.content(_document(note_id, number))


@blueprint.get("/notes/<note_id>/content/<int:number>/page/<int:place>.png")
@pages.for_signed_in
def draw(note_id: str, number: int, place: int) -> Response:
    """Return the picture of a PDF's page. Aborts with 404."""
    return attachments.page_picture(_document(note_id, number), place)


@blueprint.get("/notes/<note_id>/content/<int:number>/file")
@pages.for_signed_in
def save(note_id: str, number: int) -> Response:
    """Return a document to be saved. Aborts with 404."""
    return attachments.file(_document(note_id, number), f"{note_id}-{number}")


def _document(note_id: str, number: int) -> Attachment:
    """Return a note's document. Raises PageError."""
    opened = note.open_note(note_id, _version("version"))
    found = attachment(opened.note, number, opened.token)
    if found is None:
        raise PageError(404, _("This note has no document with that number."))
    return found


def _version(name: str) -> str:
    """Return the version that an address names. Raises PageError."""
    version = request.args.get(name, "")
    if version and not (version.isascii() and version.isdigit() and len(version) < 10):
        raise PageError(400, _("A version must be a number."))
    return version


def _newest(note_id: str) -> str:
    """Return the number of the newest version, "" where it is deleted."""
    try:
        return version_of(note.open_note(note_id).note)
    except PageError:
        return ""
