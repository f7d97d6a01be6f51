"""Two versions of a note beside one another: what is said about it, and its documents' texts."""

from __future__ import annotations

from typing import NamedTuple

from fhirapp.text import Unreadable
from fhirapp.web.notes.attachments import Attachment, attachment, plain_text, way, words
from fhirapp.web.notes.difference import Difference, difference
from fhirapp.web.notes.opened import Opened
from fhirapp.web.notes.versions import changes
from fhirapp.web.texts import _

# Each has its bytes fetched and read twice.
_MOST_DOCUMENTS = 5


class Documents(NamedTuple):
    """The documents of one place in both versions; difference is None where told says why."""

    number: int
    title: str
    difference: Difference | None
    told: tuple[str, ...]


class Compared(NamedTuple):
    """What differs between two versions."""

    changes: tuple[str, ...]
    documents: tuple[Documents, ...]
    more: int


def compared(before: Opened, after: Opened) -> Compared:
    """Return what differs. Raises PageError."""
    count = max(len(one.note.get("content", ())) for one in (before, after))
    documents = [_compared(n, before, after) for n in range(1, min(count, _MOST_DOCUMENTS) + 1)]
    told = tuple(changes(before.note, after.note))
    return Compared(told, tuple(documents), max(count - _MOST_DOCUMENTS, 0))


def _compared(number: int, before: Opened, after: Opened) -> Documents:
    old, new = (attachment(one.note, number, one.token) for one in (before, after))
    title = next((one.title for one in (new, old) if one is not None and one.title), "")
    told: list[str] = []
    old_text = _text(old, _("The earlier one"), told)
    new_text = _text(new, _("The later one"), told)
    if old_text is None or new_text is None:
        return Documents(number, title, None, tuple(told))
    return Documents(number, title, difference(old_text, new_text), tuple(told))


def _text(found: Attachment | None, which: str, told: list[str]) -> str | None:
    """Return a document's text, "" where that version has no such document; None where unread."""
    if found is None:
        told.append(_("%(which)s does not have this document.", which=which))
        return ""
    if found.remark:
        told.append(f"{which}: {found.remark}")
    if found.data is None:
        told.append(f"{which}: {found.problem}")
        return None
    kind = way(found)
    if kind in ("picture", "download"):
        told.append(
            _("%(which)s has no text to compare (%(format)s).", which=which, format=found.format)
        )
        return None
    try:
        return plain_text(found)[0] if kind == "text" else words(found)
    except Unreadable as error:
        told.append(_("%(which)s could not be read: %(reason)s.", which=which, reason=str(error)))
        return None
