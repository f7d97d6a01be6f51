"""The versions of a note, what changed from one to the next, and two of them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.documents import Unreadable
from fhirapp.features.notes import attachments, elements
from fhirapp.features.notes.difference import difference
from fhirapp.features.notes.note import OpenNote, relation_in_words
from fhirapp.fhir import words
from fhirapp.fhir.document_date import date_of
from fhirapp.web.internal_client import read
from fhirapp.web.labels import format_of, word
from fhirapp.web.texts import _

Json = Mapping[str, Any]
MOST = 200


def versions(note_id: str, token: OwnToken) -> list[dict[str, Any]]:
    """Return the versions of a note, the newest first, at most MOST. Raises PageError.

    Each has its number and time, statuses such as final, changes since the version before, and in
    earlier the number of that version if the two can be compared.
    """
    path = f"/fhir/DocumentReference/{quote(note_id, safe='')}/_history?_count={MOST}"
    entries = read(path, token, via=attachments.VIA).get("entry", ())
    return [_version(entry, before) for entry, before in zip_longest(entries, entries[1:])]


def _version(entry: Json, before: Json | None) -> dict[str, Any]:
    note, earlier = entry.get("resource"), (before or {}).get("resource")
    number, when = _number(entry), elements.moment_of(entry["response"].get("lastModified"))
    if note is None:
        return {"number": number, "when": when, "is_deleted": True, "changes": [_("Deleted.")]}
    if earlier is not None:
        changed = [*changes(earlier, note)] or [_("No changes except the version number.")]
    else:
        changed = [_("Restored.") if before else _("First version kept on this server.")]
    codes = [note.get("docStatus"), note["status"] if note["status"] != "current" else None]
    return {
        "number": number,
        "when": when,
        "statuses": [word(code) for code in dict.fromkeys(codes) if code],
        "earlier": _number(before) if before and earlier else "",
        "changes": changed,
    }


def _number(entry: Json) -> str:
    return str(entry["response"]["etag"]).removeprefix("W/").strip('"')


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
    others = [name for name in dict.fromkeys((*before, *after)) if name not in _TOLD]
    if differing := [name for name in others if before.get(name) != after.get(name)]:
        yield _("Also changed: %(names)s.", names=", ".join(differing))


# Elements whose changes are told in words, and those that are no details of a note.
_TOLD = frozenset(
    {
        *("type", "status", "docStatus", "date", "_date", "author", "authenticator", "custodian"),
        *("description", "subject", "category", "securityLabel", "relatesTo", "context"),
        *("id", "meta", "text", "resourceType", "content"),
    }
)


def _facts(note: Json) -> dict[str, str]:
    """Return the details of a note in words, by their labels."""
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
    for number, (was, now) in enumerate(zip_longest(before, after), 1):
        which = _("Document") if len(before) < 2 > len(after) else _("Document %(n)s", n=number)
        if was is None:
            yield _("%(which)s was added: %(what)s.", which=which, what=_document(now))
        elif now is None:
            yield _("%(which)s was removed: %(what)s.", which=which, what=_document(was))
        else:
            yield from _document_changes(which, was, now)


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
        yield _("%(which)s, title: was “%(was)s”, now “%(now)s”.", which=which, was=was, now=now)


def _document(content: Json) -> str:
    element = content.get("attachment") or {}
    length = f", {elements.size(int(element['size']))}" if element.get("size") else ""
    return f"{format_of(str(element.get('contentType', '')))}{length}"


# For each, two files are fetched and read.
_MOST_DOCUMENTS = 5


def compare_notes(before: OpenNote, after: OpenNote) -> dict[str, Any]:
    """Return what differs: changes, documents by their place, and how many more documents."""
    count = max(len(side.note.get("content", ())) for side in (before, after))
    documents = [_compare(n, before, after) for n in range(1, min(count, _MOST_DOCUMENTS) + 1)]
    changed, more = list(changes(before.note, after.note)), max(count - _MOST_DOCUMENTS, 0)
    return {"changes": changed, "documents": documents, "more": more}


def _compare(number: int, before: OpenNote, after: OpenNote) -> dict[str, Any]:
    """Return how the documents of one place differ; difference is None where remarks say why."""
    old, new = (attachments.attachment(side.note, number, side.token) for side in (before, after))
    title = next((file.title for file in (new, old) if file is not None and file.title), "")
    remarks: list[str] = []
    old_text = _text(old, _("The earlier version"), remarks)
    new_text = _text(new, _("The later version"), remarks)
    is_read = old_text is not None and new_text is not None
    found = difference(old_text or "", new_text or "") if is_read else None
    return {"number": number, "title": title, "difference": found, "remarks": remarks}


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
