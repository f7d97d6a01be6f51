"""Lists of notes: what a search finds, page by page or all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes.attachments import VIA
from fhirapp.features.notes.elements import NoteItem, add_names, line, local_id
from fhirapp.web.internal_client import ask, cursor_of, read
from fhirapp.web.labels import full_name
from fhirapp.web.pages import PageError

# Of a list without snippets; a list of hits is shorter, for each note is read.
PAGE = 50
Parameters = Sequence[tuple[str, str]]


class InvalidNoteSearch(Exception):
    """A search that is not understood; str() says what of it."""


class Listing(NamedTuple):
    """What a search found; resources are the notes as FHIR has them, next is a cursor or "".

    notices are what the server says of the search; is_ranked whether the best come first.
    """

    resources: tuple[dict[str, Any], ...]
    lines: tuple[NoteItem, ...]
    total: int
    next: str
    notices: tuple[str, ...]
    is_ranked: bool


def search(parameters: Parameters, token: OwnToken) -> Listing:
    """Return the notes that a search finds. Raises InvalidNoteSearch, PageError."""
    bundle = _ask(parameters, token)
    entries = bundle.get("entry", ())
    of = {
        mode: [entry["resource"] for entry in entries if entry["search"]["mode"] == mode]
        for mode in _MODES
    }
    names = {
        resource["id"]: full_name(resource)
        for resource in of["include"]
        if resource["resourceType"] == "Patient"
    }
    add_names(of["match"], token, VIA)
    notes = tuple(of["match"])
    lines = (line(note) for note in notes)
    named = tuple(item._replace(patient=names.get(item.patient_id, item.patient)) for item in lines)
    # What very many notes have is not ranked: its matches have no score.
    is_ranked = any("score" in entry["search"] for entry in entries)
    total = int(bundle.get("total", 0))
    return Listing(notes, named, total, cursor_of(bundle), tuple(_notices(of)), is_ranked)


_MODES = ("match", "include", "outcome")


def every(
    kind: str, parameters: Parameters, token: OwnToken, most: int
) -> Iterator[dict[str, Any]]:
    """Yield what a search finds, from page to page, as many as are wanted. Raises PageError."""
    cursor = ""
    first = [*parameters, ("_count", str(min(most, 1_000))), ("_total", "none")]
    while most > 0:
        sent = [*first, ("_cursor", cursor)] if cursor else first
        bundle = read(f"/fhir/{kind}?{urlencode(sent, quote_via=quote)}", token, via=VIA)
        found = [
            hit["resource"] for hit in bundle.get("entry", ()) if hit["search"]["mode"] == "match"
        ]
        yield from found[:most]
        most -= len(found)
        cursor = cursor_of(bundle)
        if not cursor:
            return


def _ask(parameters: Parameters, token: OwnToken) -> dict[str, Any]:
    path = f"/fhir/DocumentReference?{urlencode(parameters, quote_via=quote)}"
    answer = ask(path, token.secret, headers={"Accept": "application/fhir+json"}, via=VIA)
    bundle: dict[str, Any] = answer.json() if answer.status in (200, 400) else {}
    if answer.status == 400:
        raise InvalidNoteSearch(" ".join(_sentences(bundle)))
    if answer.status != 200:
        # What it says then is the same for every page.
        return read(path, token, via=VIA)
    return bundle


def _notices(of: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for outcome in of["outcome"]:
        yield from _sentences(outcome)


def _sentences(outcome: dict[str, Any]) -> Iterator[str]:
    for issue in outcome.get("issue", ()):
        text = str(issue.get("diagnostics") or (issue.get("details") or {}).get("text") or "")
        name, colon, rest = text.partition(": ")
        # The name of a parameter says nothing to who typed words into a field.
        yield rest if colon and name.startswith("_") else text


def name_of_patient(patient_id: str, token: OwnToken) -> str:
    """Return the name in a record; what tells that there is none where it is not to be read."""
    try:
        return full_name(read(f"/fhir/Patient/{quote(patient_id, safe='')}", token, via=VIA))
    except PageError:
        return ""


def patient_of(note: dict[str, Any]) -> str:
    return local_id(note.get("subject"), "Patient")
