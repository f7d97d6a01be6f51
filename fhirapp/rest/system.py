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

from fhirapp.auth.protector import authenticate, insufficient_scope
from fhirapp.auth.scopes import Access
from fhirapp.config import base_url, settings
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
from fhirapp.rest.recorder import all_served
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
    return _answer("", [one for one in types().values() if one.searchable], [])


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
    named = _named(parameters, searched)
    wanted = sorted(named or searched, key=lambda one: rank(one.name))
    chosen, left_out = _reached(access, wanted, is_named=bool(named))
    rest = [(name, value) for name, value in parameters if name != _TYPE]
    controls = parse_controls(rest, default=config.page_size, greatest=config.page_max)
    _check_controls(controls)

    asked = [_asked(one, access, controls, within, strict=strict) for one in chosen]
    ignored = _ignored(asked, controls, strict=strict)
    if left_out:
        names = ", ".join(one.name for one in left_out)
        ignored.append((_TYPE, f"{names} not searched: the token's scope does not cover it"))
    applied = [pair for pair in asked[0].query.applied if pair not in within]
    applied += [(_TYPE, ",".join(one.name for one in named))] if named else []
    made_for = fingerprint(path or "/", applied)

    snapshot = reader()
    begin = begin_at(controls.cursor, made_for)
    marks = dict(begin.marks)
    parts = []
    for one in asked:
        conditions = [*one.query.conditions, *([one.limit] if one.limit is not None else ())]
        selection = select(one.definition.sql_table, conditions, snapshot.all)
        parts.append(part(snapshot.all, one.definition, selection, marks))
    count = MAX_IDS * len(parts) if controls.count is None else controls.count
    found: list[tuple[Definition, Match]] = []
    if not controls.only_total:
        found = read_parts(snapshot.all, parts, begin, count + 1, BY_NEWEST)
    page = found[:count]
    total = None
    if controls.only_total or controls.total != "none":
        total = sum(total_of(snapshot, one.selection) for one in parts)
    for one in asked:
        is_empty = not (page or total)
        check_merged(
            snapshot, one.definition, access, one.query.direct, one.context, is_empty=is_empty
        )
    issues = [*warnings(ignored), *class_warnings(asked[0].query.applied), *_doubts(asked)]
    if controls.explain:
        issues += _explain(asked, controls, access)
    applied += controls.applied
    place = [] if controls.cursor is None else [("_cursor", controls.cursor)]
    links = [("self", page_link(path, [*applied, *place])), ("first", page_link(path, applied))]
    if page and len(found) > len(page):
        cursor = cursor_after(parts, *page[-1], made_for)
        links.append(("next", page_link(path, [*applied, ("_cursor", cursor)])))
    shown = [(held.name, one.id, one.version_id) for held, one in page]
    content = (links, total, shown, issues, (config.inline_max, config.empty_content))
    digest = blake2b(repr(content).encode(), digest_size=16).hexdigest()
    body = bundle(bundle_id(digest), "searchset", total, links, _entries(page, controls, issues))
    return respond(body, layout, etag=f'W/"{digest}"')


def _named(parameters: Arguments, searched: Sequence[Definition]) -> list[Definition]:
    """Return the types that `_type` names, none without it. Raises InvalidParameter."""
    by_name = {one.name: one for one in sorted(searched, key=lambda one: one.name)}
    named: dict[str, Definition] = {}
    for name, value in parameters:
        if name.partition(":")[0] != _TYPE:
            continue
        if name != _TYPE:
            raise outcome.UnsupportedParameter(name, "the modifier is not supported")
        for one in filter(None, value.split(",")):
            if one not in by_name:
                choices = ", ".join(by_name)
                raise outcome.InvalidParameter(_TYPE, f"{one[:SHOWN]!r} is not one of {choices}")
            named[one] = by_name[one]
    return [named[one] for one in sorted(named)]


def _reached(
    access: Access, searched: Sequence[Definition], *, is_named: bool
) -> tuple[list[Definition], list[Definition]]:
    """Return the types that the token may search, and those that it may not. Raises Forbidden."""
    if is_named:
        for one in searched:
            access_to(one, "s")
    reached = [one for one in searched if reaches(one, access, "s")]
    if not reached:
        raise insufficient_scope("The token's scope covers no search.", "system/*.s")
    return reached, [one for one in searched if one not in reached]


def _check_controls(controls: Controls) -> None:
    """Raises UnsupportedParameter for what is of a search of one type."""
    for one in controls.includes:
        raise outcome.UnsupportedParameter(one.name, _OF_ONE_TYPE)
    if controls.sort:
        raise outcome.UnsupportedParameter("_sort", _OF_ONE_TYPE)


def _asked(
    definition: Definition, access: Access, controls: Controls, within: Arguments, *, strict: bool
) -> _TypeQuery:
    """Return what is asked of a type. Raises FhirError."""
    context = Context(definition.tables, base_url(), Terminology().resolve)
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
    asked: Sequence[_TypeQuery], controls: Controls, *, strict: bool
) -> list[tuple[str, str]]:
    """Return what no type has. Raises UnsupportedParameter for what some have: that would widen."""
    applied = {name for one in asked for name, _ in one.query.applied}
    for one in asked:
        for name, _ in one.query.ignored:
            if name in {known.partition(":")[0] for known in applied}:
                reason = f"is not a search parameter of {one.definition.name}; name others by _type"
                raise outcome.UnsupportedParameter(name, reason)
    ignored = [*asked[0].query.ignored]
    if controls.is_part:
        check_subset(asked[0].definition, controls, strict=False)
        for name in controls.elements:
            unknown = [unknown_elements(one.definition, [name]) for one in asked]
            if all(unknown):
                if strict:
                    raise outcome.InvalidParameter("_elements", unknown[0][0])
                ignored.append(("_elements", f"{unknown[0][0]}; it was ignored"))
    return ignored


def _doubts(asked: Sequence[_TypeQuery]) -> Iterator[Issue]:
    """Yield the codes that no resource of a type can have, each once."""
    found = [
        impossible.issue()
        for one in asked
        for impossible in impossible_values(one.definition, one.query.direct)
    ]
    yield from (doubt for place, doubt in enumerate(found) if doubt not in found[:place])


def _explain(asked: Sequence[_TypeQuery], controls: Controls, access: Access) -> Iterator[Issue]:
    """Yield how the search was read, which is the same of each type."""
    first = asked[0]
    names = [one.definition.name for one in asked]
    yield explanation("type", f"Types: {', '.join(names)}; one after the other.", None, [_SPEC])
    yield from explain_query(first.definition.params, first.query, first.context)
    yield from explain_answer(controls)
    led_to = [name for one in first.query.chains.values() for name in one.types]
    yield from explain_limits([*names, *led_to], access)


def _entries(
    page: Sequence[tuple[Definition, Match]], controls: Controls, issues: Sequence[Issue]
) -> Iterator[Entry]:
    for held, one in page:
        all_served(held.name, [one])
        body = one.body
        if controls.is_part:
            body = subset(held, body, controls.summary, controls.elements)
        body = with_addresses(body, held.attachments)
        yield Entry(fhir_address(f"{held.name}/{one.id}"), body, MATCH)
    if issues:
        yield fhir_json.outcome(outcome.operation_outcome(issues))
