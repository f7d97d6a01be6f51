"""The search in all notes that a user may see, and the words around each match."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from werkzeug.datastructures import MultiDict

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.documents import Unreadable
from fhirapp.features.notes.attachments import MACHINE_READ, attachment, read_words
from fhirapp.features.notes.elements import NoteItem
from fhirapp.features.notes.listing import PAGE, InvalidNoteSearch, Listing, search
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.fhir.temporal import instant_of, local_interval
from fhirapp.search.fulltext import Phrase
from fhirapp.search.query import WORDS
from fhirapp.search.tokenizer import locate_words
from fhirapp.search.values import unescape
from fhirapp.web.texts import _

_CONTENT = next(parameter for parameter in WORDS if parameter.name == "_content")
# Characters before and after a hit, and how many pieces of a note.
_AROUND, _PIECES = 90, 3
_MOST_HITS = 1_000


class TextSpan(NamedTuple):
    """A stretch of text, and whether it is what was looked for."""

    text: str
    is_hit: bool


# As the search has it, and from where to where it stands. A tuple: a named one takes three times as
# long to make.
_Word = tuple[str, int, int]


def phrases_of(query: str) -> list[Phrase]:
    """Return what a search looks for; nothing where it is not understood."""
    if not query.strip():
        return []
    try:
        choices = _CONTENT.choices(query)
        return [phrase for choice in choices for phrase in _CONTENT.phrases(unescape(choice))]
    except InvalidParameter:
        return []


def mark_hits(text: str, phrases: Sequence[Phrase]) -> list[TextSpan]:
    """Return the whole of a text, cut where hits begin and end."""
    return list(_cut(text, _merged(_spans(text, phrases)), 0, len(text)))


def snippets(text: str, phrases: Sequence[Phrase]) -> list[list[TextSpan]]:
    """Return the words around some hits, those of different phrases first."""
    by_phrase = [_spans(text, [phrase]) for phrase in phrases]
    order = [spans[place] for place in range(_PIECES) for spans in by_phrase if place < len(spans)]
    taken: list[tuple[int, int]] = []
    for start, end in order:
        low, high = _stretch(text, start, end)
        if len(taken) < _PIECES and all(high <= begin or low >= stop for begin, stop in taken):
            taken.append((low, high))
    hits = _merged(span for spans in by_phrase for span in spans)
    found = []
    for low, high in sorted(taken):
        pieces = _cut(text, (hit for hit in hits if low <= hit[0] and hit[1] <= high), low, high)
        before = [TextSpan("… ", is_hit=False)] if low else []
        after = [TextSpan(" …", is_hit=False)] if high < len(text) else []
        found.append([*before, *pieces, *after])
    return found


def _stretch(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the text around a hit, from the beginning of a word to the end of one."""
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    if low and (space := re.search(r"\s", text[low:start])):
        low += space.end()
    if high < len(text) and (at := max(text.rfind(blank, end, high) for blank in " \n")) > 0:
        high = at
    return low, high


def _spans(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Return where phrases stand, in the text's order."""
    if not phrases:
        return []
    found: list[tuple[int, int]] = []
    # As many words as the longest phrase has: a text may have hundreds of thousands.
    latest: deque[_Word] = deque(maxlen=max(len(phrase.words) for phrase in phrases))
    ends = [(phrase, phrase.words[-1]) for phrase in phrases]
    for word in locate_words(text):
        latest.append(word)
        for phrase, last in ends:
            # Few words end a hit: the words before are compared for these alone.
            if word[0] != last and not (phrase.prefix and word[0].startswith(last)):
                continue
            words = [*latest][-len(phrase.words) :]
            if tuple(before[0] for before in words[:-1]) == phrase.words[:-1]:
                found.append((words[0][1], word[2]))
        if len(found) >= _MOST_HITS:
            break
    return found


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _cut(text: str, spans: Iterable[tuple[int, int]], low: int, high: int) -> Iterator[TextSpan]:
    place = low
    for start, end in spans:
        if start > place:
            yield TextSpan(text[place:start], is_hit=False)
        yield TextSpan(text[start:end], is_hit=True)
        place = end
    if place < high:
        yield TextSpan(text[place:high], is_hit=False)


# Each has its documents read, for the words around the hits.
BEST = 20
_LONGEST = 500
# Documents of a note, and seconds for all: the words around hits may be missing, not the answer.
_DOCUMENTS, _SECONDS = 3, 5
_DAY = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?")
# LOINC's codes of the kinds that are offered. US Core 6.1.0, clinical notes.
KINDS = (
    ("11506-3", _("Progress note")),
    ("11488-4", _("Consult note")),
    ("18842-5", _("Discharge summary")),
    ("34117-2", _("History and physical note")),
    ("34111-5", _("Emergency department note")),
    ("28570-0", _("Procedure note")),
    ("11504-8", _("Surgical operation note")),
    ("18748-4", _("Diagnostic imaging study")),
    ("11502-2", _("Laboratory report")),
    ("11526-1", _("Pathology study")),
    ("42348-3", _("Advance healthcare directives")),
    ("59284-0", _("Consent")),
)

# Of the record of a note; the words are those of a filter.
STATUSES = {
    "current": _("current"),
    "superseded": _("superseded"),
    "entered-in-error": _("entered in error"),
    "superseded,entered-in-error": _("superseded, or entered in error"),
}


class NoteQuery(NamedTuple):
    """What was typed: words, whose record, kind and status as codes, days, the order, a cursor."""

    q: str = ""
    patient: str = ""
    kind: str = ""
    status: str = ""
    since: str = ""
    until: str = ""
    newest: bool = False
    cursor: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(self[:6])

    @property
    def is_ranked(self) -> bool:
        return bool(self.q) and not self.newest

    def address(self, **changed: Any) -> str:
        """Return the address of this search, with something else in it."""
        now = self._replace(**changed)
        values = {
            "q": now.q,
            "patient": now.patient,
            "kind": now.kind,
            "status": now.status,
            "from": now.since,
            "to": now.until,
            "order": "newest" if now.newest and now.q else "",
            "cursor": now.cursor,
        }
        given = {name: value for name, value in values.items() if value}
        return f"/notes?{urlencode(given, quote_via=quote)}"


def query_of(arguments: MultiDict[str, str]) -> NoteQuery:
    """Return the search of an address. Raises InvalidNoteSearch."""
    q, patient, kind, status, since, until, order, cursor = (
        arguments.get(name, "").strip()
        for name in ("q", "patient", "kind", "status", "from", "to", "order", "cursor")
    )
    if len(q) > _LONGEST:
        raise InvalidNoteSearch(_("Enter 500 characters or fewer."))
    if not all(_DAY.fullmatch(day) for day in (since, until) if day):
        raise InvalidNoteSearch(_("Enter the date as 2024-03-05, 2024-03 or 2024."))
    status = status if status in STATUSES else ""
    is_newest = order == "newest" or bool(cursor)
    return NoteQuery(q, patient, kind, status, since, until, is_newest, cursor)


# A note of a list, the words around its hits, and a remark about them or instead.
NoteHit = tuple[NoteItem, list[list[TextSpan]], str]


def find(query: NoteQuery, token: OwnToken) -> tuple[Listing, list[NoteHit]]:
    """Return the notes, the best or the newest first. Raises InvalidNoteSearch, PageError."""
    values = [
        ("_content", query.q),
        ("patient", query.patient),
        ("type", query.kind),
        ("status", query.status),
        ("date", _bound(query.since, is_end=False)),
        ("date", _bound(query.until, is_end=True)),
        ("_sort", "_score" if query.is_ranked else "-date"),
        ("_count", str(BEST if query.q else PAGE)),
        ("_cursor", query.cursor),
        ("_include", "" if query.patient else "DocumentReference:patient"),
    ]
    listing = search([(name, value) for name, value in values if value], token)
    phrases = phrases_of(query.q)
    until = time.monotonic() + _SECONDS
    return listing, [
        _hit(line, note, phrases, token, until)
        for line, note in zip(listing.lines, listing.resources, strict=True)
    ]


def _bound(day: str, *, is_end: bool) -> str:
    """Return the bound of notes from the beginning, or until the end, of a day at the clinic.

    A note that is dated by a day alone has that day in UTC, so one of a day beside may match too.
    """
    if not day:
        return ""
    try:
        interval = local_interval(day)
    except ValueError:
        # The search says what is wrong.
        return f"{'le' if is_end else 'ge'}{day}"
    return f"lt{instant_of(interval.high)}" if is_end else f"ge{instant_of(interval.low)}"


def _hit(
    line: NoteItem, note: dict[str, Any], phrases: list[Phrase], token: OwnToken, until: float
) -> NoteHit:
    if not phrases:
        return line, [], ""
    for number in range(1, min(len(note.get("content", ())), _DOCUMENTS) + 1):
        if time.monotonic() > until:
            text = _("No excerpt: the document took too long to read. Open the note.")
            return line, [], text
        document = attachment(note, number, token)
        if document is None or document.data is None:
            continue
        try:
            text, _unread, is_machine_read = read_words(document)
        except Unreadable:
            continue
        if pieces := snippets(text, phrases):
            return line, pieces, _(MACHINE_READ) if is_machine_read else ""
    return line, [], _("Matches the note's details, not its text.")
