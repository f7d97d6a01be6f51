"""`_sort=_score`: the best matches of a search for words first, with `entry.search.score`.

Only the newest CANDIDATES matches are ranked, on one page. Source: FHIR R4 search §3.1.1.5.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fhirapp.definition import Definition
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.paging import Match, Page
from fhirapp.search.controls import NEWEST_FIRST, Controls
from fhirapp.search.page import Run, Selection, find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query
from fhirapp.search.values import IndexCondition
from fhirapp.search.words import Words, scores

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
Searches = Sequence[tuple[Words, str]]
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
    searches = _searches(definition, query)
    if not searches:
        raise InvalidParameter("_sort", "_score needs words to search for: _content or _text")
    if controls.only_total:
        return Page((), before=False, after=False, mark=0), {}, ()
    rows = [Match.of(row) for row in find_page(run, selection, NEWEST_FIRST, None, CANDIDATES)]
    count = CANDIDATES if controls.count is None else controls.count
    ranks: Mapping[int, float] = {}
    ignored: tuple[tuple[str, str], ...] = ()
    if is_limited:
        ignored = (LIMITED,)
    elif _are_common(run, searches, context):
        ignored = (TOO_COMMON,)
    elif rows:
        ranks = scores(run, definition.tables, searches, [row.pk for row in rows])
        rows.sort(key=lambda row: ranks[row.pk], reverse=True)
    page = Page(rows[:count], before=False, after=False, mark=0)
    return page, {row.pk: ranks[row.pk] for row in page.matches if row.pk in ranks}, ignored


def _searches(definition: Definition, query: Query) -> Searches:
    """Return the searches for words in a query."""
    return [
        (parameter, value)
        for name, value in query.applied
        if isinstance(parameter := definition.params.by_name[name.partition(":")[0]], Words)
        and ":" not in name
    ]


def _are_common(run: Run, searches: Searches, context: Context) -> bool:
    """Say whether so many rows have the words that ranking them would take long."""
    for parameter, value in searches:
        for condition in parameter.conditions("", [value], context):
            if isinstance(condition, IndexCondition):
                probe = condition.count_to(RANKABLE)
                if run(probe.sql, probe.values)[0][0] >= RANKABLE:
                    return True
    return False
