"""The best matches first: `_sort=_score`, with `entry.search.score`, of a search for words.

A score hangs on how rare a word is among all documents, so it changes while records are imported;
paging by it would miss and repeat. So a search by score is one page, the best of the CANDIDATES
newest matches. How rare a word is takes a look at each row that has it: what more than RANKABLE
rows have is not ranked, and the answer says so.

Source: FHIR R4 bundle §2.36.6 (score); decisions §3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.paging import Match, Page
from fhirapp.search.condition import IndexCondition
from fhirapp.search.controls import Controls
from fhirapp.search.order import NEWEST_FIRST
from fhirapp.search.page import Run, Selection, find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query
from fhirapp.search.words import Words, scores
from fhirapp.store.definition import Definition

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
