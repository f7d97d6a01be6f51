"""Searches of several types at once: of all, by `GET /fhir`, and of a patient's, `Patient/p1/*`.

Each type is searched as by itself, and they come one after the other, each with its newest first.
A parameter has to be one of every type that is searched. The compartment of a patient is what
names the patient as whom it is about, as for tokens and `$everything`.
Source: FHIR R4 http §3.1.0.9, search §3.1.1.2.1; decisions §1, §3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from flask import Blueprint, Response

from fhirapp import urls
from fhirapp.auth.protector import authenticate, insufficient_scope
from fhirapp.auth.scopes import Access
from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import outcome
from fhirapp.fhir.json import MATCH, Entry, bundle
from fhirapp.rest.access import (
    access_to,
    check_id,
    check_merged,
    check_patients,
    reaches,
    visible,
)
from fhirapp.rest.blueprint import compartment_types
from fhirapp.rest.chains import Chains
from fhirapp.rest.explain import explain_limits
from fhirapp.rest.paging import Match, bundle_id, fingerprint, page_link, total_of
from fhirapp.rest.recorder import note_all_served
from fhirapp.rest.response import fhir_address, is_strict, negotiate, respond, with_addresses
from fhirapp.rest.search import impossible_values, search_arguments, warnings
from fhirapp.rest.subset import check_subset, subset, unknown_elements
from fhirapp.rest.terminology import Terminology, class_warnings
from fhirapp.rest.walk import BY_NEWEST, begin_at, cursor_after, part, rank, read_parts
from fhirapp.search.explain import SPEC, Issue, explain_answer, explain_query, explanation
from fhirapp.search.parameter import Context
from fhirapp.search.query import (
    MAX_IDS,
    Arguments,
    Controls,
    Query,
    parse_controls,
    parse_query,
    require_patient_or_id,
    select,
)
from fhirapp.search.values import SHOWN, AnyCondition

_TYPE = "_type"
_SPEC = f"{SPEC}#_type"
# What shapes the answer to a search of one type alone.
_OF_ONE_TYPE = "takes the search of one type; several types are searched here"

blueprint = Blueprint("system", __name__)


@blueprint.get("/fhir")
@blueprint.get("/fhir/")
@blueprint.route("/fhir/_search", methods=["GET", "POST"])
def search_system() -> Response:
    """Return the searchset Bundle of all types, or of those of `_type`. Raises FhirError."""
    return _answer("", [definition for definition in types().values() if definition.searchable], [])


@blueprint.get("/fhir/Patient/<resource_id>/*")
@blueprint.route("/fhir/Patient/<resource_id>/_search", methods=["GET", "POST"])
def search_record(resource_id: str) -> Response:
    """Return the searchset Bundle of what is about a patient. Raises FhirError."""
    check_id(types()["Patient"], resource_id)
    return _answer(f"Patient/{resource_id}/*", compartment_types(), [("patient", resource_id)])


class _TypeQuery(NamedTuple):
    """A type, what is asked of it, and what the token may see of it, None for all."""

    definition: Definition
    query: Query
    limit: AnyCondition | None
    context: Context


def _answer(path: str, searched: Sequence[Definition], within: Arguments) -> Response:
    """Answer a search of these types; within are the parameters that the path means."""
    access = authenticate().access()
    parameters = search_arguments()
    layout, strict, config = negotiate(parameters), is_strict(), settings()
    requested = _requested_types(parameters, searched)
    wanted = sorted(requested or searched, key=lambda definition: rank(definition.name))
    chosen, uncovered = _searchable_types(access, wanted, is_named=bool(requested))
    rest = [(name, value) for name, value in parameters if name != _TYPE]
    controls = parse_controls(rest, default=config.page_size, greatest=config.page_max)
    _check_controls(controls)

    queries = [_query(definition, access, controls, within, strict=strict) for definition in chosen]
    ignored = _ignored(queries, controls, strict=strict)
    if uncovered:
        names = ", ".join(definition.name for definition in uncovered)
        ignored.append((_TYPE, f"{names} not searched: the token's scope does not cover it"))
    applied = [pair for pair in queries[0].query.applied if pair not in within]
    applied += [(_TYPE, ",".join(definition.name for definition in requested))] if requested else []
    made_for = fingerprint(path or "/", applied)

    snapshot = reader()
    begin = begin_at(controls.cursor, made_for)
    marks = dict(begin.marks)
    parts = []
    for query in queries:
        conditions = [*query.query.conditions, *([query.limit] if query.limit is not None else ())]
        selection = select(query.definition.sql_table, conditions, snapshot.all)
        parts.append(part(snapshot.all, query.definition, selection, marks))
    count = MAX_IDS * len(parts) if controls.count is None else controls.count
    matches: list[tuple[Definition, Match]] = []
    if not controls.only_total:
        matches = read_parts(snapshot.all, parts, begin, count + 1, BY_NEWEST)
    page = matches[:count]
    total = None
    if controls.only_total or controls.total != "none":
        total = sum(total_of(snapshot, share.selection) for share in parts)
    for query in queries:
        is_empty = not (page or total)
        check_merged(
            snapshot, query.definition, access, query.query.direct, query.context, is_empty=is_empty
        )
    issues = [*warnings(ignored), *class_warnings(queries[0].query.applied), *_doubts(queries)]
    if controls.explain:
        issues += _explain(queries, controls, access)
    applied += controls.applied
    place = [] if controls.cursor is None else [("_cursor", controls.cursor)]
    links = [("self", page_link(path, [*applied, *place])), ("first", page_link(path, applied))]
    if page and len(matches) > len(page):
        cursor = cursor_after(parts, *page[-1], made_for)
        links.append(("next", page_link(path, [*applied, ("_cursor", cursor)])))
    shown = [(definition.name, match.id, match.version_id) for definition, match in page]
    content = (links, total, shown, issues, (config.inline_max, config.empty_content))
    digest = blake2b(repr(content).encode(), digest_size=16).hexdigest()
    body = bundle(bundle_id(digest), "searchset", total, links, _entries(page, controls, issues))
    return respond(body, layout, etag=f'W/"{digest}"')


def _requested_types(parameters: Arguments, searched: Sequence[Definition]) -> list[Definition]:
    """Return the types that `_type` names, none without it. Raises InvalidParameter."""
    by_name = {choice.name: choice for choice in sorted(searched, key=lambda choice: choice.name)}
    requested: dict[str, Definition] = {}
    for name, value in parameters:
        if name.partition(":")[0] != _TYPE:
            continue
        if name != _TYPE:
            raise outcome.UnsupportedParameter(name, "the modifier is not supported")
        for code in filter(None, value.split(",")):
            if code not in by_name:
                names = ", ".join(by_name)
                raise outcome.InvalidParameter(_TYPE, f"{code[:SHOWN]!r} is not one of {names}")
            requested[code] = by_name[code]
    return [requested[name] for name in sorted(requested)]


def _searchable_types(
    access: Access, searched: Sequence[Definition], *, is_named: bool
) -> tuple[list[Definition], list[Definition]]:
    """Return the types that the token may search, and those that it may not. Raises Forbidden."""
    if is_named:
        for definition in searched:
            access_to(definition, "s")
    reached = [definition for definition in searched if reaches(definition, access, "s")]
    if not reached:
        raise insufficient_scope("The token's scope covers no search.", "system/*.s")
    return reached, [definition for definition in searched if definition not in reached]


def _check_controls(controls: Controls) -> None:
    """Raises UnsupportedParameter for what is of a search of one type."""
    for include in controls.includes:
        raise outcome.UnsupportedParameter(include.name, _OF_ONE_TYPE)
    if controls.sort:
        raise outcome.UnsupportedParameter("_sort", _OF_ONE_TYPE)


def _query(
    definition: Definition, access: Access, controls: Controls, within: Arguments, *, strict: bool
) -> _TypeQuery:
    """Return what is asked of a type. Raises FhirError."""
    context = Context(definition.tables, urls.base_url(), Terminology().resolve)
    chain = Chains(None, definition, access, context)
    arguments = [*within, *controls.rest]
    try:
        query = parse_query(definition.params, arguments, context, strict=strict, chain=chain)
    except outcome.UnsupportedParameter as error:
        error.diagnostics += f" (of {definition.name})"
        raise
    check_patients(definition, access, query.direct, context)
    limit = visible(definition, access, "s")
    is_wide = limit is None or not limit.narrows
    needs_few = strict or settings().require_patient_or_id
    if is_wide and definition.patient_or_id and needs_few:
        require_patient_or_id([name for name, _ in query.applied])
    return _TypeQuery(definition, query, limit, context)


def _ignored(
    queries: Sequence[_TypeQuery], controls: Controls, *, strict: bool
) -> list[tuple[str, str]]:
    """Return what no type has. Raises UnsupportedParameter for what some have: that would widen."""
    applied = {name for query in queries for name, _ in query.query.applied}
    for query in queries:
        for name, _ in query.query.ignored:
            if name in {known.partition(":")[0] for known in applied}:
                reason = (
                    f"is not a search parameter of {query.definition.name}; name others by _type"
                )
                raise outcome.UnsupportedParameter(name, reason)
    ignored = [*queries[0].query.ignored]
    if controls.is_part:
        check_subset(queries[0].definition, controls, strict=False)
        for name in controls.elements:
            unknown = [unknown_elements(query.definition, [name]) for query in queries]
            if all(unknown):
                if strict:
                    raise outcome.InvalidParameter("_elements", unknown[0][0])
                ignored.append(("_elements", f"{unknown[0][0]}; it was ignored"))
    return ignored


def _doubts(queries: Sequence[_TypeQuery]) -> Iterator[Issue]:
    """Yield the codes that no resource of a type can have, each once."""
    doubts = [
        impossible.issue()
        for query in queries
        for impossible in impossible_values(query.definition, query.query.direct)
    ]
    yield from (doubt for place, doubt in enumerate(doubts) if doubt not in doubts[:place])


def _explain(queries: Sequence[_TypeQuery], controls: Controls, access: Access) -> Iterator[Issue]:
    """Yield how the search was read, which is the same of each type."""
    first = queries[0]
    names = [query.definition.name for query in queries]
    yield explanation("type", f"Types: {', '.join(names)}; one after the other.", None, [_SPEC])
    yield from explain_query(first.definition.params, first.query, first.context)
    yield from explain_answer(controls)
    led_to = [name for chained in first.query.chains.values() for name in chained.types]
    yield from explain_limits([*names, *led_to], access)


def _entries(
    page: Sequence[tuple[Definition, Match]], controls: Controls, issues: Sequence[Issue]
) -> Iterator[Entry]:
    for definition, match in page:
        note_all_served(definition.name, [match])
        body = match.body
        if controls.is_part:
            body = subset(definition, body, controls.summary, controls.elements)
        body = with_addresses(body, definition.attachments)
        yield Entry(fhir_address(f"{definition.name}/{match.id}"), body, MATCH)
    if issues:
        yield fhir_json.outcome(outcome.operation_outcome(issues))
