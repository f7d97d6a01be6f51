"""The pages of a search: their matches, links and total, and the cursors between them.

Several types come one after the other. A cursor is opaque and signed, and the server keeps nothing:
it names a position in its type, and the last row number of each type at the first page, so that
resources first published later are on no later page. With `_sort=_score` the best of the newest
CANDIDATES matches of words are ranked, on one page.
Source: service.md 2.1; FHIR R4 search §3.1.1.5.1; decisions 2.1, 2.5, §3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Flask, current_app
from itsdangerous import BadData, URLSafeSerializer

from fhirapp import urls
from fhirapp.db import Reader
from fhirapp.db.reader import note_cache
from fhirapp.definition import Definition, types
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.keys import key_of
from fhirapp.rest.access import ALL, Reach
from fhirapp.rest.cache import LruCache
from fhirapp.search import page as pages
from fhirapp.search.fulltext import words_table
from fhirapp.search.page import NEWEST_FIRST, Order, Place, Run, Selection, find_page
from fhirapp.search.parameter import SortKey
from fhirapp.search.query import Controls, Query
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
BY_NUMBER = Order((SortKey("{row}.pk"),))
# The position before the first of a type, in the orders in which several types are searched.
_BEFORE_FIRST: Mapping[Order, Place] = {NEWEST_FIRST: ("\U0010ffff", ""), BY_NUMBER: (0,)}
# A score depends on how rare the words are among all records.
LIMITED = ("_sort", "_score ranks among all records, which this token may not see; newest first")


def init_app(app: Flask) -> None:
    """Give the app its signer of cursors and its cache of totals."""
    app.extensions[_CURSORS] = Cursors(key_of(app))
    app.extensions[_TOTALS] = LruCache[bytes, int](_MAX_TOTALS)


class PageCursor(NamedTuple):
    """Where a page lies: after this place of this type, or with backwards before it.

    marks pairs each type with its last row number when paging began.
    """

    type: str
    place: Place
    backwards: bool
    marks: Sequence[tuple[str, int]]


class Cursors:
    """Signs and reads cursors with the server's key."""

    def __init__(self, key: bytes) -> None:
        self._serializer = URLSafeSerializer(key, salt="page")

    def write(self, cursor: tuple[Any, ...], query_fingerprint: str) -> str:
        text = self._serializer.dumps([*cursor, query_fingerprint])
        return text if isinstance(text, str) else text.decode()

    def read(self, value: str, query_fingerprint: str, what: str = "search") -> Sequence[Any]:
        """Return the members of a cursor.

        Raises InvalidParameter where it was tampered with or belongs to another query.
        """
        try:
            *cursor, of_query = self._serializer.loads(value)
        except (BadData, ValueError, TypeError):
            raise InvalidParameter(
                "_cursor", "is not one of this server's; start again from the first page"
            ) from None
        if of_query != query_fingerprint:
            raise InvalidParameter(
                "_cursor", f"belongs to another {what}; start again from the first page"
            )
        return [*cursor]


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


class Match(NamedTuple):
    """A resource on a page: a match with its place in the order, or what comes with one."""

    type: str
    id: str
    version_id: int
    last_updated: str
    pk: int
    body: bytes
    patient_id: str | None
    place: Place = ()

    @classmethod
    def of(cls, definition: Definition, row: Place) -> Match:
        """Return the match that a row of find_page is."""
        return cls._make((definition.name, *row[:6], row[6:]))


class Page(NamedTuple):
    """The matches of one page in order, and whether there are pages before and after it.

    marks are as in PageCursor. is_ranked says that it has the best matches alone. scores are by row
    number; unranked says why there are none, as Query.ignored does.
    """

    matches: Sequence[Match]
    before: bool = False
    after: bool = False
    marks: Sequence[tuple[str, int]] = ()
    is_ranked: bool = False
    scores: Mapping[int, float] = MappingProxyType({})
    unranked: Sequence[tuple[str, str]] = ()

    @property
    def is_single(self) -> bool:
        """Whether the page holds every match."""
        return bool(self.matches) and not (self.before or self.after or self.is_ranked)


class Part(NamedTuple):
    """What is searched of one type."""

    definition: Definition
    selection: Selection


def type_sort_key(name: str) -> tuple[bool, str]:
    """Return what types are sorted by: the patient, then by name."""
    return (types()[name].compartment != "id", name)


def read_page(
    run: Run, parts: Sequence[Part], order: Order, cursor: PageCursor | None, count: int
) -> Page:
    """Read a page, and one more row to learn whether another page follows.

    parts are in the order of type_sort_key.
    """
    matches: list[Match] = []
    marks = dict(cursor.marks) if cursor else {}
    for definition, selection in parts:
        name, limit = definition.name, count + 1 - len(matches)
        if not limit or (cursor and type_sort_key(name) < type_sort_key(cursor.type)):
            continue
        after = None
        if cursor:
            place = tuple(cursor.place) if name == cursor.type else _BEFORE_FIRST[order]
            if name not in marks:
                # The token of the first page did not reach the type.
                marks[name] = pages.last_row(run, selection)
            after = pages.Cursor(place, cursor.backwards, marks[name])
        rows = find_page(run, selection, order, after, limit)
        matches += [Match.of(definition, row) for row in rows]
    more = len(matches) > count
    matches = matches[:count]
    if cursor is None:
        parted = parts if more else ()
        marks = {part.definition.name: pages.last_row(run, part.selection) for part in parted}
    if cursor and cursor.backwards:
        return Page(matches[::-1], before=more, after=True, marks=[*marks.items()])
    return Page(matches, before=cursor is not None, after=more, marks=[*marks.items()])


def cursor_of(value: str | None, query_fingerprint: str) -> PageCursor | None:
    """Return the cursor of a request. Raises InvalidParameter for that of another query."""
    return PageCursor(*cursors().read(value, query_fingerprint)) if value is not None else None


def further_links(
    path: str,
    applied: Sequence[tuple[str, str]],
    page: Page,
    query_fingerprint: str,
    *,
    with_previous: bool = False,
) -> list[tuple[str, str]]:
    """Return first, and next and previous where there are more pages, below /fhir/<path>.

    A search of several types has no previous.
    """
    links = [("first", page_link(path, applied))]
    for relation, exists, edge, backwards in (
        ("next", page.after, -1, False),
        ("previous", page.before and with_previous, 0, True),
    ):
        if exists and page.matches:
            match = page.matches[edge]
            cursor = PageCursor(match.type, match.place, backwards, page.marks)
            further = [*applied, ("_cursor", cursors().write(cursor, query_fingerprint))]
            links.append((relation, page_link(path, further)))
    return links


def cursors() -> Cursors:
    """Return the app's signer of page links."""
    signer: Cursors = current_app.extensions[_CURSORS]
    return signer


def total_of(snapshot: Reader, parts: Sequence[Part], page: Page) -> int:
    """Return how many resources match."""
    if page.is_single:
        return len(page.matches)
    return sum(_count(snapshot, part.selection) for part in parts)


def _count(snapshot: Reader, selection: Selection) -> int:
    """Return how many rows of a type match; a count is valid until the data changes."""
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


def ranked_page(run: Run, part: Part, query: Query, controls: Controls, reach: Reach) -> Page:
    """Return the one page of a search by `_score`. Raises FhirError."""
    definition, selection = part
    searches = [
        (parameter, value)
        for name, value in query.applied
        if isinstance(parameter := definition.params.by_name.get(name), Words)
    ]
    if not searches:
        raise InvalidParameter("_sort", "_score needs words to search for: _content or _text")
    if controls.only_total:
        return Page(())
    found = find_page(run, selection, NEWEST_FIRST, None, CANDIDATES)
    rows = [Match.of(definition, row) for row in found]
    count = CANDIDATES if controls.count is None else controls.count
    if reach.rows is not ALL:
        return Page(rows[:count], is_ranked=True, unranked=[LIMITED])
    if _are_common(run, definition, query):
        return Page(rows[:count], is_ranked=True, unranked=[TOO_COMMON])
    if not rows:
        return Page(())
    ranks = scores(run, definition.tables, searches, [row.pk for row in rows])
    rows.sort(key=lambda row: ranks[row.pk], reverse=True)
    return Page(
        rows[:count], is_ranked=True, scores={row.pk: ranks[row.pk] for row in rows[:count]}
    )


def _are_common(run: Run, definition: Definition, query: Query) -> bool:
    """Say whether so many rows have the words that ranking them would take long."""
    table = words_table(definition.tables)
    for condition in query.parts:
        if isinstance(condition, IndexCondition) and condition.table == table:
            probe = condition.count_to(RANKABLE)
            if run(probe.sql, probe.values)[0][0] >= RANKABLE:
                return True
    return False
