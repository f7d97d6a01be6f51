"""The versions of a note, what changed from one to the next, and two of them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.documents import Unreadable
from fhirapp.features.notes import attachments, elements
from fhirapp.features.notes.difference import Difference, difference
from fhirapp.features.notes.note import OpenNote, relation_in_words
from fhirapp.fhir import words
from fhirapp.fhir.document_date import date_of
from fhirapp.web.internal_client import read
from fhirapp.web.labels import format_of, word
from fhirapp.web.texts import _

Json = Mapping[str, Any]
MOST = 200
_OTHERS_LEFT_OUT = frozenset({"id", "meta", "text", "resourceType", "content"})


class NoteVersion(NamedTuple):
    """A version; earlier is the number of the one before it, changes what changed since then."""

    number: str
    when: str
    # What it says of itself: final, superseded.
    statuses: tuple[str, ...]
    is_deleted: bool
    earlier: str
    changes: tuple[str, ...]


def versions(note_id: str, token: OwnToken) -> list[NoteVersion]:
    """Return the versions of a note, the newest first, at most MOST. Raises PageError."""
    path = f"/fhir/DocumentReference/{quote(note_id, safe='')}/_history?_count={MOST}"
    entries = read(path, token, via=attachments.VIA).get("entry", ())
    found = []
    for place, entry in enumerate(entries):
        before = entries[place + 1] if place + 1 < len(entries) else None
        found.append(_version(entry, before))
    return found


def _version(entry: Json, before: Json | None) -> NoteVersion:
    note, earlier = entry.get("resource"), (before or {}).get("resource")
    number = _number(entry)
    previous = _number(before) if before else ""
    if note is None:
        when = elements.moment_of((entry.get("response") or {}).get("lastModified"))
        return NoteVersion(number, when, (), True, previous, (_("Deleted."),))
    if earlier is None:
        change = _("Restored.") if before else _("First version kept on this server.")
        changed: tuple[str, ...] = (change,)
    else:
        changed = tuple(changes(earlier, note)) or (_("No changes except the version number."),)
    when = elements.moment_of(note.get("meta", {}).get("lastUpdated"))
    codes = [note.get("docStatus"), note["status"] if note["status"] != "current" else None]
    statuses = tuple(word(code) for code in dict.fromkeys(codes) if code)
    return NoteVersion(number, when, statuses, False, previous if earlier else "", changed)


def _number(entry: Json) -> str:
    note = entry.get("resource")
    if note is not None:
        return elements.version_of(note)
    etag = str((entry.get("response") or {}).get("etag", ""))
    return etag.removeprefix("W/").strip('"')


def changes(before: Json, after: Json) -> Iterator[str]:
    """Yield what differs between two versions, a sentence for each element."""
    old, new = _facts(before), _facts(after)
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, ""), new.get(name, "")
        if was == now:
            continue
        if not was:
            yield _("%(name)s: now %(now)s.", name=name, now=now)
        elif not now:
            yield _("%(name)s: removed (was %(was)s).", name=name, was=was)
        else:
            yield _("%(name)s: was %(was)s, now %(now)s.", name=name, was=was, now=now)
    yield from _documents(before.get("content", ()), after.get("content", ()))
    others = [
        name
        for name in dict.fromkeys((*before, *after))
        if name not in _TOLD | _OTHERS_LEFT_OUT and before.get(name) != after.get(name)
    ]
    if others:
        yield _("Also changed: %(names)s.", names=", ".join(others))


_TOLD = frozenset(
    {
        *("type", "status", "docStatus", "date", "_date", "author", "authenticator", "custodian"),
        *("description", "subject", "category", "securityLabel", "relatesTo", "context"),
    }
)


def _facts(note: Json) -> dict[str, str]:
    """Return what a version tells of itself, by what people call it."""
    context = note.get("context") or {}
    period = context.get("period") or {}
    related = (
        f"{relation_in_words(relation)} {words.reference(relation.get('target'))}"
        for relation in note.get("relatesTo", ())
    )
    details = {
        _("Type"): words.concept(note.get("type")),
        _("Record status"): word(str(note.get("status", ""))),
        _("Document status"): word(str(note.get("docStatus", ""))),
        _("Date"): elements.moment_of(date_of(note)) if date_of(note) else "",
        _("Author"): words.references(note.get("author"), note),
        _("Signed by"): words.reference(note.get("authenticator"), note),
        _("Custodian"): words.reference(note.get("custodian"), note),
        _("Description"): words.shortened(str(note.get("description", ""))),
        _("Patient"): words.reference(note.get("subject"), note),
        _("Category"): words.concepts(note.get("category")),
        _("Security label"): words.concepts(note.get("securityLabel")),
        _("Relates to"): ", ".join(related),
        _("Visit"): words.references(context.get("encounter")),
        _("Period of care, start"): elements.day_of(period["start"]) if period.get("start") else "",
        _("Period of care, end"): elements.day_of(period["end"]) if period.get("end") else "",
    }
    return {name: text for name, text in details.items() if text}


def _documents(before: Any, after: Any) -> Iterator[str]:
    """Yield what happened to the attached documents, each by its place."""
    for place in range(max(len(before), len(after))):
        which = _("Document") if len(before) < 2 > len(after) else _("Document %(n)s", n=place + 1)
        if place >= len(before):
            yield _("%(which)s was added: %(what)s.", which=which, what=_document(after[place]))
        elif place >= len(after):
            yield _("%(which)s was removed: %(what)s.", which=which, what=_document(before[place]))
        else:
            yield from _document_changes(which, before[place], after[place])


def _document_changes(which: str, before: Json, after: Json) -> Iterator[str]:
    old, new = (content.get("attachment") or {} for content in (before, after))
    key = ("hash", "size") if old.get("hash") and new.get("hash") else ("url", "data")
    if any(old.get(name) != new.get(name) for name in key):
        was, now = _document(before), _document(after)
        yield _(
            "%(which)s, content changed: was %(was)s, now %(now)s.", which=which, was=was, now=now
        )
    elif old.get("contentType") != new.get("contentType"):
        was, now = (str(file.get("contentType") or _("not recorded")) for file in (old, new))
        yield _("%(which)s, format: was %(was)s, now %(now)s.", which=which, was=was, now=now)
    if old.get("title") != new.get("title"):
        was, now = (words.shortened(str(file.get("title") or _("none"))) for file in (old, new))
        yield _(
            "%(which)s, title: was “%(was)s”, now “%(now)s”.",
            which=which,
            was=was,
            now=now,
        )


def _document(content: Json) -> str:
    element = content.get("attachment") or {}
    length = f", {elements.size(int(element['size']))}" if element.get("size") else ""
    return f"{format_of(str(element.get('contentType', '')))}{length}"


# Each has its bytes fetched and read twice.
_MOST_DOCUMENTS = 5


class DocumentChange(NamedTuple):
    """The documents of one place in both versions; difference is None where remarks says why."""

    number: int
    title: str
    difference: Difference | None
    remarks: tuple[str, ...]


class NoteComparison(NamedTuple):
    """What differs between two versions."""

    changes: tuple[str, ...]
    documents: tuple[DocumentChange, ...]
    more: int


def compare_notes(before: OpenNote, after: OpenNote) -> NoteComparison:
    """Return what differs. Raises PageError."""
    count = max(len(side.note.get("content", ())) for side in (before, after))
    documents = [_compare(n, before, after) for n in range(1, min(count, _MOST_DOCUMENTS) + 1)]
    remarks = tuple(changes(before.note, after.note))
    return NoteComparison(remarks, tuple(documents), max(count - _MOST_DOCUMENTS, 0))


def _compare(number: int, before: OpenNote, after: OpenNote) -> DocumentChange:
    old, new = (attachments.attachment(side.note, number, side.token) for side in (before, after))
    title = next((file.title for file in (new, old) if file is not None and file.title), "")
    remarks: list[str] = []
    old_text = _text(old, _("The earlier version"), remarks)
    new_text = _text(new, _("The later version"), remarks)
    if old_text is None or new_text is None:
        return DocumentChange(number, title, None, tuple(remarks))
    return DocumentChange(number, title, difference(old_text, new_text), tuple(remarks))


def _text(found: attachments.Attachment | None, which: str, remarks: list[str]) -> str | None:
    """Return a document's text, "" where that version has no such document; None where unread."""
    if found is None:
        remarks.append(_("%(which)s does not have this document.", which=which))
        return ""
    if found.remark:
        remarks.append(f"{which}: {found.remark}")
    if found.data is None:
        remarks.append(f"{which}: {found.problem}")
        return None
    kind = attachments.way(found)
    if kind in ("picture", "download"):
        remarks.append(
            _("%(which)s has no text to compare (%(format)s).", which=which, format=found.format)
        )
        return None
    try:
        if kind == "text":
            return attachments.plain_text(found)[0]
        reading = attachments.read_words(found)
    except Unreadable as error:
        remarks.append(
            _("%(which)s could not be read: %(reason)s.", which=which, reason=str(error))
        )
        return None
    if reading.machine_read:
        remarks.append(f"{which}: {_(attachments.MACHINE_READ)}")
    return reading.text
