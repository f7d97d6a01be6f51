"""search-type: from the request's parameters to a searchset Bundle.

With `_sort=_score` the best of the newest CANDIDATES matches of words come first, on one page, with
`entry.search.score`. Source: service.md 4; decisions §2, §3; FHIR R4 search §3.1.1.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from flask import Response, request

from fhirapp.audit.write import served
from fhirapp.config import base_url, settings
from fhirapp.db import reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import INCLUDE, MATCH, OUTCOME, Entry, bundle, scored
from fhirapp.fhir.outcome import InvalidParameter, UnsupportedMediaType, issue, operation_outcome
from fhirapp.rest.access import access_to, check_patients, visible
from fhirapp.rest.explain import Statements, doubts, explain_limits
from fhirapp.rest.include import Inclusion, included_with, not_served, parse_includes, target_types
from fhirapp.rest.negotiation import arguments, is_strict, negotiate, parse_form
from fhirapp.rest.paging import Match, Page, bundle_id, links_of, read_page, total_of
from fhirapp.rest.response import check_subset, fhir_address, respond, subset, with_addresses
from fhirapp.search.controls import (
    BY_SCORE,
    NEWEST_FIRST,
    Controls,
    parse_controls,
    parse_sort,
    require_patient_or_id,
)
from fhirapp.search.explain import Issue, explain_answer, explain_query
from fhirapp.search.page import Run, Selection, find_page, fingerprint
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query, parse_query, select
from fhirapp.search.values import IndexCondition
from fhirapp.search.words import Words, scores

_FORM = "application/x-www-form-urlencoded"


def search_type(definition: Definition) -> Response:
    """Return the searchset Bundle. Raises FhirError."""
    access = access_to(definition, "s")
    parameters = search_arguments()
    pretty = negotiate(parameters)
    config, strict = settings(), is_strict()
    controls = parse_controls(parameters, default=config.page_size, greatest=config.page_max)
    context = Context(definition.tables, base_url())
    query = parse_query(definition.params, controls.rest, context, strict=strict)
    order = NEWEST_FIRST
    if controls.sort not in ("", BY_SCORE):
        order = parse_sort(controls.sort, definition.params, context)
    joins = parse_includes(definition, controls.includes)
    ignored = (*query.ignored, *check_subset(definition, controls, strict=strict))
    ignored = (*ignored, *not_served(joins))
    check_patients(definition, access, query.applied, context)
    limit = visible(definition, access, "s")
    enforced = definition.patient_or_id and (strict or config.require_patient_or_id)
    if enforced and (limit is None or not limit.narrows):
        require_patient_or_id([name for name, _ in query.applied])

    snapshot = reader()
    statements = Statements(snapshot) if controls.explain and config.demo else None
    conditions = query.conditions if limit is None else (*query.conditions, limit)
    selection = select(definition.sql_table, conditions, snapshot.all)
    made_for = fingerprint(definition.name, [*query.applied, ("_sort", controls.sort)])
    run = statements or snapshot.all
    scores: Mapping[int, float] = {}
    if controls.sort == BY_SCORE:
        page, scores, unranked = ranked_page(
            run, definition, query, context, selection, controls, is_limited=limit is not None
        )
        ignored = (*ignored, *unranked)
    else:
        page = read_page(run, selection, order, controls, made_for)
    total = None
    if controls.only_total or controls.total != "none":
        is_all = page.is_single and controls.sort != BY_SCORE
        total = len(page.matches) if is_all else total_of(snapshot, selection)
    links = links_of(definition.name, query.applied, controls, page, made_for)
    inclusion = included_with(snapshot, definition, access, joins, controls, page.matches)

    issues = [*_warnings(ignored, inclusion), *doubts(definition, query)]
    if controls.explain:
        issues += explain_query(definition.params, query, context)
        issues += explain_answer(controls)
        issues += explain_limits([definition.name, *target_types(joins)], access)
        issues += statements.explain() if statements else ()
    shown = [(one.id, one.version_id) for one in page.matches]
    beside = [one.name for one in inclusion.resources]
    # Bodies depend on these two settings beside the version.
    rendering = (config.inline_max, config.empty_content)
    key = (links, total, shown, scores, beside, issues, rendering)
    digest = blake2b(repr(key).encode(), digest_size=16).hexdigest()
    entries = _entries(definition, controls, page, scores, inclusion, issues)
    body = bundle(bundle_id(digest), "searchset", total, links, entries)
    return respond(body, pretty, etag=f'W/"{digest}"')


def search_arguments() -> list[tuple[str, str]]:
    """Return the parameters of URL and form body together, as if repeated (decisions §1).

    Raises UnsupportedMediaType for any other body.
    """
    parameters = arguments()
    if request.method == "POST":
        if request.mimetype != _FORM and (request.mimetype or request.content_length):
            raise UnsupportedMediaType(f"A search by POST takes a body of type {_FORM}.")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise UnsupportedMediaType("A search by POST takes a body without Content-Encoding.")
        parameters += parse_form(request.get_data())
    return parameters


def _warnings(ignored: Sequence[tuple[str, str]], inclusion: Inclusion) -> Iterator[Issue]:
    """Yield an issue for each parameter that was not followed, or not wholly (decisions §3)."""
    for name, reason in ignored:
        yield issue("warning", "not-supported", f"{name}: {reason}", name)
    if inclusion.is_cut:
        message = "_include: more belongs to these matches than is included at once; read the rest"
        yield issue("warning", "too-costly", message, "_include")


def _entries(
    definition: Definition,
    controls: Controls,
    page: Page,
    scores: Mapping[int, float],
    inclusion: Inclusion,
    issues: Sequence[Issue],
) -> Iterator[Entry]:
    """Yield the matches, then what is included with them, then the outcome."""
    address = fhir_address(f"{definition.name}/")
    for match in page.matches:
        served(definition.name, match.id, match.version_id)
        body = subset(definition, match.body, controls.summary, controls.elements)
        beside = scored(scores[match.pk]) if match.pk in scores else MATCH
        yield Entry(address + match.id, with_addresses(body, definition.attachments), beside)
    for one in inclusion.resources:
        served(one.type, one.id, one.version_id)
        held = types()[one.type]
        # FHIR R4 search §3.1.1.5.9: _elements is about the matches alone.
        body = with_addresses(subset(held, one.body, controls.summary, ()), held.attachments)
        yield Entry(fhir_address(f"{one.type}/{one.id}"), body, INCLUDE)
    if issues:
        yield Entry("", fhir_json.dumps_indented(operation_outcome(issues)), OUTCOME)


# Of a search for words, so many matches are ranked; beyond RANKABLE none is.
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
