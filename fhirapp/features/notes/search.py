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


def count(text: str, phrases: Sequence[Phrase]) -> int:
    return len(_merged(_spans(text, phrases)))


def snippets(text: str, phrases: Sequence[Phrase]) -> list[list[TextSpan]]:
    """Return the words around some hits, those of different phrases first."""
    by_phrase = [_spans(text, [phrase]) for phrase in phrases]
    order = [spans[place] for place in range(_PIECES) for spans in by_phrase if place < len(spans)]
    taken: list[tuple[int, int]] = []
    for start, end in order:
        low, high = _stretch(text, start, end)
        if len(taken) < _PIECES and all(high <= begin or low >= stop for begin, stop in taken):
            taken.append((low, high))
    every = _merged(span for spans in by_phrase for span in spans)
    found = []
    for low, high in sorted(taken):
        inside = [span for span in every if span[0] >= low and span[1] <= high]
        pieces = list(_cut(text, inside, low, high))
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
    longest = max(len(phrase.words) for phrase in phrases)
    found: list[tuple[int, int]] = []
    # The words up to here, as many as a phrase has: a text may have hundreds of thousands.
    latest: deque[_Word] = deque(maxlen=longest)
    for word in locate_words(text):
        latest.append(word)
        for phrase, last in ((phrase, phrase.words[-1]) for phrase in phrases):
            # Most words are no end of a hit: ask of one word before of all.
            if not (word[0] == last or (phrase.prefix and word[0].startswith(last))):
                continue
            length = len(phrase.words)
            latest_words = [*latest][-length:]
            if len(latest_words) == length and all(
                word_before[0] == expected
                for word_before, expected in zip(latest_words[:-1], phrase.words, strict=False)
            ):
                found.append((latest_words[0][1], word[2]))
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
        return not any((self.q, self.patient, self.kind, self.status, self.since, self.until))

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
        kept = {name: value for name, value in values.items() if value}
        return f"/notes?{urlencode(kept, quote_via=quote)}"


class NoteHit(NamedTuple):
    """A note that was found; pieces are the words around hits, remark is about them or instead."""

    line: NoteItem
    pieces: list[list[TextSpan]]
    remark: str


class SearchResult(NamedTuple):
    """What a search came to."""

    listing: Listing
    hits: tuple[NoteHit, ...]


def query_of(arguments: MultiDict[str, str]) -> NoteQuery:
    """Read an address. Raises InvalidNoteSearch."""
    values = {name: arguments.get(name, "").strip() for name in _NAMES}
    if len(values["q"]) > _LONGEST:
        raise InvalidNoteSearch(_("Enter 500 characters or fewer."))
    for name in ("from", "to"):
        if values[name] and not _DAY.fullmatch(values[name]):
            raise InvalidNoteSearch(_("Enter the date as 2024-03-05, 2024-03 or 2024."))
    is_newest = values["order"] == "newest" or bool(values["cursor"])
    return NoteQuery(
        values["q"],
        values["patient"],
        values["kind"],
        values["status"] if values["status"] in STATUSES else "",
        values["from"],
        values["to"],
        is_newest,
        values["cursor"],
    )


_NAMES = ("q", "patient", "kind", "status", "from", "to", "order", "cursor")


def find(query: NoteQuery, token: OwnToken) -> SearchResult:
    """Return the notes, the best or the newest first. Raises InvalidNoteSearch, PageError."""
    listing = search(_parameters(query), token)
    phrases = phrases_of(query.q)
    until = time.monotonic() + _SECONDS
    found = tuple(
        _hit(line, note, phrases, token, until)
        for line, note in zip(listing.lines, listing.resources, strict=True)
    )
    return SearchResult(listing, found)


def _parameters(query: NoteQuery) -> list[tuple[str, str]]:
    values = [
        ("_content", query.q),
        ("patient", query.patient),
        ("type", query.kind),
        ("status", query.status),
        ("date", _since(query.since)),
        ("date", _until(query.until)),
        ("_sort", "_score" if query.is_ranked else "-date"),
        ("_count", str(BEST if query.q else PAGE)),
        ("_cursor", query.cursor),
        ("_include", "" if query.patient else "DocumentReference:patient"),
    ]
    return [(name, value) for name, value in values if value]


def _since(day: str) -> str:
    """Return the bound of notes since a day begins at the clinic.

    A note that is dated by a day alone has that day in UTC: one may be found beside those meant.
    """
    try:
        return f"ge{instant_of(local_interval(day).low)}" if day else ""
    except ValueError:
        # The search says what is wrong.
        return f"ge{day}"


def _until(day: str) -> str:
    """Return the bound of notes until a day ends at the clinic."""
    try:
        return f"lt{instant_of(local_interval(day).high)}" if day else ""
    except ValueError:
        return f"le{day}"


def _hit(
    line: NoteItem, note: dict[str, Any], phrases: list[Phrase], token: OwnToken, until: float
) -> NoteHit:
    """Return a note with the words around what was looked for."""
    if not phrases:
        return NoteHit(line, [], "")
    remark = _("Matches the note's details, not its text.")
    for number in range(1, min(len(note.get("content", ())), _DOCUMENTS) + 1):
        if time.monotonic() > until:
            return NoteHit(
                line, [], _("No excerpt: the document took too long to read. Open the note.")
            )
        document = attachment(note, number, token)
        if document is None or document.data is None:
            continue
        try:
            text, _unread, is_machine_read = read_words(document)
        except Unreadable:
            continue
        if pieces := snippets(text, phrases):
            return NoteHit(line, pieces, _(MACHINE_READ) if is_machine_read else "")
    return NoteHit(line, [], remark)
