"""Searches for notes: one page, or all pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes.attachments import VIA
from fhirapp.features.notes.elements import NoteItem, add_names, line
from fhirapp.web.internal_client import cursor_of, read
from fhirapp.web.labels import full_name
from fhirapp.web.pages import PageError

# Notes on a page of a list.
PAGE = 50
Parameters = Sequence[tuple[str, str]]


class InvalidNoteSearch(Exception):
    """A search is not valid; str() says why."""


class Listing(NamedTuple):
    """Notes as FHIR has them and as a list shows them; next is a cursor, "" after the last.

    notices are the server's remarks on the search; is_ranked whether the best come first.
    """

    resources: tuple[dict[str, Any], ...]
    lines: tuple[NoteItem, ...]
    total: int
    next: str
    notices: tuple[str, ...]
    is_ranked: bool


def search(parameters: Parameters, token: OwnToken) -> Listing:
    """Return the notes that a search finds. Raises InvalidNoteSearch, PageError."""
    path = f"/fhir/DocumentReference?{urlencode(parameters, quote_via=quote)}"
    try:
        bundle = read(path, token, via=VIA)
    except PageError as error:
        if error.status != 400:
            raise
        raise InvalidNoteSearch(_without_parameter(str(error))) from None
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in bundle.get("entry", ()):
        found[entry["search"]["mode"]].append(entry["resource"])
    names = {patient["id"]: full_name(patient) for patient in found["include"]}
    add_names(found["match"], token, VIA)
    lines = map(line, found["match"])
    named = (item._replace(patient=names.get(item.patient_id, item.patient)) for item in lines)
    texts = (
        issue.get("diagnostics") or issue.get("details", {}).get("text", "")
        for outcome in found["outcome"]
        for issue in outcome["issue"]
    )
    return Listing(
        resources=tuple(found["match"]),
        lines=tuple(named),
        total=int(bundle.get("total", 0)),
        next=cursor_of(bundle),
        notices=tuple(map(_without_parameter, texts)),
        # A search that matches very many notes is not ranked: they have no score.
        is_ranked=any("score" in entry["search"] for entry in bundle.get("entry", ())),
    )


def _without_parameter(text: str) -> str:
    """Return a message without the name of a parameter, such as _content, that nobody typed."""
    name, colon, rest = text.partition(": ")
    return rest if colon and name.startswith("_") else text


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


def name_of_patient(patient_id: str, token: OwnToken) -> str:
    """Return a patient's name; "" where the record cannot be read."""
    try:
        return full_name(read(f"/fhir/Patient/{quote(patient_id, safe='')}", token, via=VIA))
    except PageError:
        return ""
