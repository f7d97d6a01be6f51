"""search-type: from the request's parameters to a searchset Bundle.

Source: service.md 4; decisions §2, §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from flask import Flask, Response, current_app, request

from fhirapp.address import base_url
from fhirapp.auth.compartment import Access
from fhirapp.auth.keys import key_of
from fhirapp.config import settings
from fhirapp.db import Reader, reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.bundle import MATCH, OUTCOME, Entry, bundle
from fhirapp.fhir.outcome import UnsupportedMediaType, issue, operation_outcome
from fhirapp.rest.access import access_to, check_patients
from fhirapp.rest.include import provenance_of
from fhirapp.rest.links import bundle_id, page_link, self_link
from fhirapp.rest.negotiation import arguments, is_strict, parse_form, wanted_form
from fhirapp.rest.response import respond, with_addresses
from fhirapp.rest.totals import total_of
from fhirapp.rest.visibility import visible
from fhirapp.search.controls import MAX_IDS, Controls, parse_controls, require_patient_or_id
from fhirapp.search.cursor import Cursor, Cursors, fingerprint
from fhirapp.search.order import NEWEST_FIRST, Order, Place, parse_sort
from fhirapp.search.page import COLUMNS, Selection, find_page, last_row, place_of
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query, parse_query, select
from fhirapp.store.definition import Definition

_FORM = "application/x-www-form-urlencoded"


class Match(NamedTuple):
    """A row that was found, and its place in the order of results."""

    id: str
    version_id: int
    last_updated: str
    pk: int
    body: bytes
    place: Place

    @classmethod
    def of(cls, row: Place) -> Match:
        """Return the match that a row of find_page is."""
        row_id, version_id, last_updated, pk, body = row[: len(COLUMNS)]
        return cls(row_id, version_id, last_updated, pk, body, place_of(row))


class Page(NamedTuple):
    """The matches of one page, in order, and whether there are more on either side.

    mark is the last row number of the table when paging began.
    """

    matches: Sequence[Match]
    before: bool
    after: bool
    mark: int


def search_type(definition: Definition) -> Response:
    """Return the searchset Bundle. Raises FhirError."""
    access = access_to(definition, "s")
    given = search_arguments()
    form = wanted_form(given)
    config, strict = settings(), is_strict()
    controls = parse_controls(given, default=config.page_size, greatest=config.page_max)
    context = Context(definition.tables, base_url())
    query = parse_query(definition.params, controls.rest, context, strict=strict)
    check_patients(definition, access, query.applied, context)
    limit = visible(definition, access, "s")
    if (strict or config.require_patient_or_id) and (limit is None or not limit.narrows):
        require_patient_or_id([name for name, _ in query.applied])
    snapshot = reader()
    conditions = query.conditions if limit is None else (*query.conditions, limit)
    selection = select(definition.sql_table, conditions, snapshot.all)
    made_for = fingerprint(definition.name, [*query.applied, ("_sort", controls.sort)])
    order = NEWEST_FIRST
    if controls.sort:
        order = parse_sort(controls.sort, definition.params, context)
    page = _page(snapshot, selection, order, controls, made_for)
    total = None if controls.total == "none" else _total(snapshot, selection, page)
    links = _links(definition, query, controls, page, made_for)
    entries, key = _entries(snapshot, definition, access, query, controls, page)
    digest = blake2b(repr((links, total, key)).encode(), digest_size=16).hexdigest()
    body = bundle(bundle_id(digest), "searchset", total, links, entries)
    return respond(body, form, etag=f'W/"{digest}"')


def search_arguments() -> list[tuple[str, str]]:
    """Return the parameters of URL and form body together, as if repeated (decisions §1).

    Raises UnsupportedMediaType for any other body.
    """
    given = arguments()
    if request.method == "POST":
        if request.mimetype != _FORM and (request.mimetype or request.content_length):
            raise UnsupportedMediaType(f"A search by POST takes a body of type {_FORM}.")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise UnsupportedMediaType("A search by POST takes a body without Content-Encoding.")
        given += parse_form(request.get_data())
    return given


def _page(
    snapshot: Reader, selection: Selection, order: Order, controls: Controls, made_for: str
) -> Page:
    """Read one page, and one row more to know whether there are further ones."""
    if controls.only_total:
        return Page((), before=False, after=False, mark=0)
    cursor = None
    if controls.cursor is not None:
        cursor = cursors().read(controls.cursor, made_for)
    # decisions 2.5: where _id is given, one page holds all
    count = MAX_IDS if controls.count is None else controls.count
    rows = find_page(snapshot.all, selection, order, cursor, count + 1)
    more = len(rows) > count
    matches = [Match.of(row) for row in (rows[:-1] if more else rows)]
    if cursor is None:
        mark = last_row(snapshot.all, selection) if more else 0
        return Page(matches, before=False, after=more, mark=mark)
    if cursor.backwards:
        return Page(matches[::-1], before=more, after=True, mark=cursor.mark)
    return Page(matches, before=True, after=more, mark=cursor.mark)


def _total(snapshot: Reader, selection: Selection, page: Page) -> int:
    """Return how many match; on a single page they are there to be counted."""
    if page.matches and not page.before and not page.after:
        return len(page.matches)
    return total_of(snapshot, selection)


def _links(
    definition: Definition, query: Query, controls: Controls, page: Page, made_for: str
) -> list[tuple[str, str]]:
    """Return self, first, and next and previous where there are more pages (decisions 2.1)."""
    applied = [*query.applied, *controls.applied]
    first = page_link(definition.name, applied)
    config = settings()
    links = [("self", self_link(definition.name)), ("first", first)]
    if config.self_link == "fhir":
        own = applied if controls.cursor is None else [*applied, ("_cursor", controls.cursor)]
        links[0] = ("self", page_link(definition.name, own))
    for relation, there, edge, backwards in (
        ("next", page.after, -1, False),
        ("previous", page.before, 0, True),
    ):
        if there and page.matches:
            cursor = Cursor(page.matches[edge].place, backwards, page.mark)
            further = [*applied, ("_cursor", cursors().write(cursor, made_for))]
            links.append((relation, page_link(definition.name, further)))
    return links


def _entries(
    snapshot: Reader,
    definition: Definition,
    access: Access,
    query: Query,
    controls: Controls,
    page: Page,
) -> tuple[list[Entry], object]:
    """Return matches, then includes, then the outcome; and what they are made of, for the ETag."""
    address = f"{base_url()}/fhir/{definition.name}/"
    entries = [
        Entry(address + match.id, with_addresses(match.body, definition.attachments), MATCH)
        for match in page.matches
    ]
    included: list[str] = []
    if controls.revinclude:
        ids = [match.id for match in page.matches]
        for entry, name in provenance_of(snapshot, definition, access, ids):
            entries.append(entry)
            included.append(name)
    if query.ignored:
        entries.append(_outcome(query))
    # Bodies depend on these two settings beside the version.
    rendering = (settings().inline_max, settings().empty_content)
    key = ([match[:2] for match in page.matches], included, query.ignored, rendering)
    return entries, key


def _outcome(query: Query) -> Entry:
    """Return the entry that says what was ignored (decisions §3)."""
    issues = [
        issue("warning", "not-supported", f"{name}: {reason}", name)
        for name, reason in query.ignored
    ]
    return Entry("", fhir_json.dumps_indented(operation_outcome(issues)), OUTCOME)


_EXTENSION = "fhirapp.cursors"


def init_app(app: Flask) -> None:
    """Give the app its signer of page links."""
    app.extensions[_EXTENSION] = Cursors(key_of(app))


def cursors() -> Cursors:
    """Return the app's signer of page links."""
    found: Cursors = current_app.extensions[_EXTENSION]
    return found
