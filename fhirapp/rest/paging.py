"""The pages of a search: their matches, links and total, and the cursors between them.

A cursor is opaque and signed; the server keeps nothing. With `_sort=_score` the best of the newest
CANDIDATES matches of words are ranked, on one page.
Source: service.md 2.1; FHIR R4 search §3.1.1.5.1; decisions 2.1, 2.5, §3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from flask import Flask, current_app
from itsdangerous import BadData, URLSafeSerializer

from fhirapp import config, urls
from fhirapp.db import Reader
from fhirapp.db.reader import note_cache
from fhirapp.definition import Definition
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.keys import key_of
from fhirapp.rest.cache import LruCache
from fhirapp.search.fulltext import words_table
from fhirapp.search.page import (
    NEWEST_FIRST,
    Cursor,
    Order,
    Place,
    Run,
    Selection,
    find_page,
    last_row,
)
from fhirapp.search.query import MAX_IDS, Controls, Query
from fhirapp.search.values import IndexCondition
from fhirapp.search.words import Words, scores

_CURSORS = "fhirapp.cursors"
_TOTALS = "fhirapp.totals"
# Each takes some 200 bytes.
_MAX_TOTALS = 1_000
# Of a search for words, so many matches are ranked; beyond RANKABLE none is.
CANDIDATES = 500
RANKABLE = 20_000
TOO_COMMON = (
    "_sort",
    f"the words are in more than {RANKABLE:,} resources and were not ranked; newest first",
)
# A score depends on how rare the words are among all records.
LIMITED = ("_sort", "_score ranks among all records, which this token may not see; newest first")


def init_app(app: Flask) -> None:
    """Give the app its signer of cursors and its cache of totals."""
    app.extensions[_CURSORS] = Cursors(key_of(app))
    app.extensions[_TOTALS] = LruCache[bytes, int](_MAX_TOTALS)


class Cursors:
    """Signs and reads cursors with the server's key."""

    def __init__(self, key: bytes) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")

    def write(self, cursor: Cursor, query_fingerprint: str) -> str:
        text = self._serializer.dumps([*cursor, query_fingerprint])
        return text if isinstance(text, str) else text.decode()

    def read(self, value: str, query_fingerprint: str) -> Cursor:
        """Raises InvalidParameter when it was tampered with or belongs to another query."""
        try:
            place, backwards, mark, of_query = self._serializer.loads(value)
        except (BadData, ValueError, TypeError):
            raise InvalidParameter(
                "_cursor", "is not one of this server's; start again from the first page"
            ) from None
        if of_query != query_fingerprint:
            raise InvalidParameter(
                "_cursor", "belongs to another search; start again from the first page"
            )
        return Cursor(tuple(place), backwards, mark)


def fingerprint(resource_type: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return what identifies a query: type and parameters, in any order."""
    text = repr((resource_type, sorted(parameters)))
    return blake2b(text.encode(), digest_size=6).hexdigest()


def page_link(path: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return the address of a page below /fhir, with the parameters that were applied."""
    query = urlencode(parameters, safe=":,/|$")
    return f"{urls.base_url()}/fhir/{path}".rstrip("/") + (f"?{query}" if query else "")


def self_link(resource_type: str) -> str:
    """Return the self link of a search.

    service.md 2.1: under /api, not /fhir, and without the query; FHIR would repeat the search.
    """
    return f"{urls.base_url()}/api/{resource_type}"


def bundle_id(digest: str) -> str:
    """Return a Bundle's id, the same for the same answer; digest is 32 hexadecimal digits."""
    return str(UUID(digest))


class Match(NamedTuple):
    """A matching row, and its place in the order of results."""

    id: str
    version_id: int
    last_updated: str
    pk: int
    body: bytes
    patient_id: str | None
    place: Place

    @classmethod
    def of(cls, row: Place) -> Match:
        """Return the match that a row of find_page is."""
        return cls._make((*row[:6], row[6:]))


class Page(NamedTuple):
    """The matches of one page in order, and whether there are pages before and after it.

    mark is the table's last row number when paging began. scores are by row number; unranked says
    why there are none, as Query.ignored does.
    """

    matches: Sequence[Match]
    before: bool = False
    after: bool = False
    mark: int = 0
    scores: Mapping[int, float] = MappingProxyType({})
    unranked: Sequence[tuple[str, str]] = ()

    @property
    def is_single(self) -> bool:
        """Whether the page holds every match."""
        return bool(self.matches) and not self.before and not self.after


def read_page(
    run: Run, selection: Selection, order: Order, controls: Controls, query_fingerprint: str
) -> Page:
    """Read one page, and one more row to learn whether another page follows.

    Its cursor must be of the query with this fingerprint. Raises InvalidParameter.
    """
    if controls.only_total:
        return Page(())
    cursor = None
    if controls.cursor is not None:
        cursor = cursors().read(controls.cursor, query_fingerprint)
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
    query_fingerprint: str,
) -> list[tuple[str, str]]:
    """Return the links of a search: self, then further_links (decisions 2.1).

    parameters are those of the search that were applied.
    """
    applied = [*parameters, *controls.applied]
    own = self_link(type_name)
    if config.settings().self_link == "fhir":
        place = [] if controls.cursor is None else [("_cursor", controls.cursor)]
        own = page_link(type_name, [*applied, *place])
    return [("self", own), *further_links(type_name, applied, page, query_fingerprint)]


def further_links(
    path: str, applied: Sequence[tuple[str, str]], page: Page, query_fingerprint: str
) -> list[tuple[str, str]]:
    """Return first, and next and previous where there are more pages, below /fhir/<path>."""
    links = [("first", page_link(path, applied))]
    for relation, exists, edge, backwards in (
        ("next", page.after, -1, False),
        ("previous", page.before, 0, True),
    ):
        if exists and page.matches:
            cursor = Cursor(page.matches[edge].place, backwards, page.mark)
            further = [*applied, ("_cursor", cursors().write(cursor, query_fingerprint))]
            links.append((relation, page_link(path, further)))
    return links


def cursors() -> Cursors:
    """Return the app's signer of page links."""
    signer: Cursors = current_app.extensions[_CURSORS]
    return signer


def total_of(snapshot: Reader, selection: Selection) -> int:
    """Return how many rows match; a count is valid until the data changes."""
    totals: LruCache[bytes, int] = current_app.extensions[_TOTALS]
    select = selection.total()
    # A search may list hundreds of values: of each no more is kept than a digest.
    query = repr((snapshot.generation(), select.sql, select.values))
    key = blake2b(query.encode(), digest_size=16).digest()
    count = totals.get(key)
    note_cache("totals", hit=count is not None)
    if count is None:
        count = int(snapshot.all(select.sql, select.values)[0][0])
        totals.put(key, count)
    return count


def ranked_page(
    run: Run,
    definition: Definition,
    query: Query,
    selection: Selection,
    controls: Controls,
    *,
    is_limited: bool,
) -> Page:
    """Return the one page of a search by `_score`. Raises FhirError.

    is_limited says that the token may not see every record.
    """
    searches = [
        (parameter, value)
        for name, value in query.applied
        if isinstance(parameter := definition.params.by_name.get(name), Words)
    ]
    if not searches:
        raise InvalidParameter("_sort", "_score needs words to search for: _content or _text")
    if controls.only_total:
        return Page(())
    rows = [Match.of(row) for row in find_page(run, selection, NEWEST_FIRST, None, CANDIDATES)]
    count = CANDIDATES if controls.count is None else controls.count
    if is_limited:
        return Page(rows[:count], unranked=[LIMITED])
    if _are_common(run, definition, query):
        return Page(rows[:count], unranked=[TOO_COMMON])
    if not rows:
        return Page(())
    ranks = scores(run, definition.tables, searches, [row.pk for row in rows])
    rows.sort(key=lambda row: ranks[row.pk], reverse=True)
    return Page(rows[:count], scores={row.pk: ranks[row.pk] for row in rows[:count]})


def _are_common(run: Run, definition: Definition, query: Query) -> bool:
    """Say whether so many rows have the words that ranking them would take long."""
    table = words_table(definition.tables)
    for condition in query.conditions:
        if isinstance(condition, IndexCondition) and condition.table == table:
            probe = condition.count_to(RANKABLE)
            if run(probe.sql, probe.values)[0][0] >= RANKABLE:
                return True
    return False
