"""The pages of a search: reading one, and the links from one to another.

Source: service.md 2.1; decisions 2.1, 2.5, §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flask import Flask, current_app

from fhirapp.auth.keys import key_of
from fhirapp.config import settings
from fhirapp.rest.links import page_link, self_link
from fhirapp.search.controls import MAX_IDS, Controls
from fhirapp.search.cursor import Cursor, Cursors
from fhirapp.search.order import Order, Place
from fhirapp.search.page import COLUMNS, Run, Selection, find_page, last_row, place_of


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

    @property
    def is_single(self) -> bool:
        """Whether it has matches, and all of them."""
        return bool(self.matches) and not self.before and not self.after


def read_page(
    run: Run, selection: Selection, order: Order, controls: Controls, made_for: str
) -> Page:
    """Read one page, and one row more to know whether there are further ones.

    made_for is the fingerprint that its cursor must have. Raises InvalidParameter.
    """
    if controls.only_total:
        return Page((), before=False, after=False, mark=0)
    cursor = None
    if controls.cursor is not None:
        cursor = cursors().read(controls.cursor, made_for)
    # decisions 2.5: where _id is given, one page holds all
    count = MAX_IDS if controls.count is None else controls.count
    rows = find_page(run, selection, order, cursor, count + 1)
    more = len(rows) > count
    matches = [Match.of(row) for row in (rows[:-1] if more else rows)]
    if cursor is None:
        mark = last_row(run, selection) if more else 0
        return Page(matches, before=False, after=more, mark=mark)
    if cursor.backwards:
        return Page(matches[::-1], before=more, after=True, mark=cursor.mark)
    return Page(matches, before=True, after=more, mark=cursor.mark)


def links_of(
    type_name: str,
    parameters: Sequence[tuple[str, str]],
    controls: Controls,
    page: Page,
    made_for: str,
) -> list[tuple[str, str]]:
    """Return the links of a search: self, then further_links (decisions 2.1).

    parameters are those of the search that were applied.
    """
    applied = [*parameters, *controls.applied]
    own = self_link(type_name)
    if settings().self_link == "fhir":
        place = [] if controls.cursor is None else [("_cursor", controls.cursor)]
        own = page_link(type_name, [*applied, *place])
    return [("self", own), *further_links(type_name, applied, page, made_for)]


def further_links(
    path: str, applied: Sequence[tuple[str, str]], page: Page, made_for: str
) -> list[tuple[str, str]]:
    """Return first, and next and previous where there are more pages, below /fhir/<path>."""
    links = [("first", page_link(path, applied))]
    for relation, there, edge, backwards in (
        ("next", page.after, -1, False),
        ("previous", page.before, 0, True),
    ):
        if there and page.matches:
            cursor = Cursor(page.matches[edge].place, backwards, page.mark)
            further = [*applied, ("_cursor", cursors().write(cursor, made_for))]
            links.append((relation, page_link(path, further)))
    return links


_EXTENSION = "fhirapp.cursors"


def init_app(app: Flask) -> None:
    """Give the app its signer of page links."""
    app.extensions[_EXTENSION] = Cursors(key_of(app))


def cursors() -> Cursors:
    """Return the app's signer of page links."""
    found: Cursors = current_app.extensions[_EXTENSION]
    return found
