"""The pages of a search: reading one, and the links from one to another.

Source: service.md 2.1; decisions 2.1, 2.5, §3.

The links and the id of a Bundle. service.md 2.1; decisions 2.1.
Totals: counted once, kept until the data changes.
The best matches first: `_sort=_score`, with `entry.search.score`, of a search for words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from flask import Flask, current_app

from fhirapp.address import base_url
from fhirapp.auth.keys import key_of
from fhirapp.config import settings
from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.search.controls import MAX_IDS, NEWEST_FIRST, Controls, Order, Place
from fhirapp.search.page import (
    COLUMNS,
    Cursor,
    Cursors,
    Run,
    Selection,
    find_page,
    last_row,
    place_of,
)
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query
from fhirapp.search.values import IndexCondition
from fhirapp.search.words import Words, scores
from fhirapp.store.version import generation


def page_link(path: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return the address of a page below /fhir, with the parameters that were applied."""
    query = urlencode(parameters, safe=":,/|$")
    return f"{base_url()}/fhir/{path}" + (f"?{query}" if query else "")


def self_link(resource_type: str) -> str:
    """Return the self link of a search.

    service.md 2.1: under /api, not /fhir, and without the query; FHIR would repeat the search.
    """
    return f"{base_url()}/api/{resource_type}"


def bundle_id(digest: str) -> str:
    """Return a Bundle's id, the same for the same answer; digest is 32 hexadecimal digits."""
    return str(UUID(digest))


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


_KEPT = 1_000
_TOTALS_EXTENSION = "fhirapp.totals"


class Totals:
    """The latest counts of this process, the longest unused forgotten first."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[Any, ...]) -> int | None:
        with self._lock:
            if key in self._counts:
                self._counts.move_to_end(key)
            return self._counts.get(key)

    def put(self, key: tuple[Any, ...], count: int) -> None:
        with self._lock:
            self._counts[key] = count
            if len(self._counts) > _KEPT:
                self._counts.popitem(last=False)


def totals_init_app(app: Flask) -> None:
    """Give the app its memory of totals."""
    app.extensions[_TOTALS_EXTENSION] = Totals()


def total_of(snapshot: Reader, selection: Selection) -> int:
    """Return how many rows a selection finds in this snapshot."""
    totals: Totals = current_app.extensions[_TOTALS_EXTENSION]
    key = (generation(snapshot), selection)
    count = totals.get(key)
    if count is None:
        asked = selection.total()
        count = int(snapshot.all(asked.sql, asked.values)[0][0])
        totals.put(key, count)
    return count


CANDIDATES = 500
RANKABLE = 20_000
TOO_COMMON = (
    "_sort",
    f"the words are in more than {RANKABLE:,} resources and were not ranked; newest first",
)
# A score tells how rare the words are among all records.
LIMITED = (
    "_sort",
    "_score ranks among all records, which this token may not see; newest first",
)

# A parameter and one of its values.
Asked = Sequence[tuple[Words, str]]
# A page's scores, by row; what was not followed, as Query.ignored has it.
Ranked = tuple[Page, Mapping[int, float], tuple[tuple[str, str], ...]]


def ranked_page(
    run: Run,
    definition: Definition,
    query: Query,
    context: Context,
    selection: Selection,
    controls: Controls,
    *,
    is_limited: bool,
) -> Ranked:
    """Return the one page of a search by `_score`, its scores, and warnings. Raises FhirError."""
    asked = _asked_words(definition, query)
    if not asked:
        raise InvalidParameter("_sort", "_score needs words to search for: _content or _text")
    if controls.only_total:
        return Page((), before=False, after=False, mark=0), {}, ()
    rows = [Match.of(row) for row in find_page(run, selection, NEWEST_FIRST, None, CANDIDATES)]
    count = CANDIDATES if controls.count is None else controls.count
    found: Mapping[int, float] = {}
    ignored: tuple[tuple[str, str], ...] = ()
    if is_limited:
        ignored = (LIMITED,)
    elif _are_common(run, asked, context):
        ignored = (TOO_COMMON,)
    elif rows:
        found = scores(run, definition.tables, asked, [row.pk for row in rows])
        rows.sort(key=lambda row: found[row.pk], reverse=True)
    page = Page(rows[:count], before=False, after=False, mark=0)
    return page, {row.pk: found[row.pk] for row in page.matches if row.pk in found}, ignored


def _asked_words(definition: Definition, query: Query) -> Asked:
    """Return the searches for words in a query."""
    return [
        (parameter, value)
        for name, value in query.applied
        if isinstance(parameter := definition.params.by_name[name.partition(":")[0]], Words)
        and ":" not in name
    ]


def _are_common(run: Run, asked: Asked, context: Context) -> bool:
    """Say whether so many rows have the words that ranking them would take long."""
    for parameter, value in asked:
        for condition in parameter.conditions("", [value], context):
            if isinstance(condition, IndexCondition):
                probe = condition.count_to(RANKABLE)
                if run(probe.sql, probe.values)[0][0] >= RANKABLE:
                    return True
    return False
