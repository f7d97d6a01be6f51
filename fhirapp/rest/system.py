"""Searches of several types at once: of all, by `GET /fhir`, and of a patient's, `Patient/p1/*`.

The types follow one another, each with its newest resources first. Every parameter must exist on
every searched type. The compartment of a patient is the resources whose `patient` parameter refers
to that patient, as for tokens and `$everything`.
Source: FHIR R4 http §3.1.0.9, search §3.1.1.2.1; decisions §1, §3.
"""

from __future__ import annotations

from collections.abc import Sequence

from flask import Blueprint, Response

from fhirapp.auth.protector import current_token, insufficient_scope, require_oauth
from fhirapp.auth.scopes import Access
from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import outcome
from fhirapp.rest.access import Reach, check_id, reach_of, reaches, require
from fhirapp.rest.blueprint import compartment_types, reject_reserved_ids
from fhirapp.rest.paging import (
    cursor_of,
    fingerprint,
    further_links,
    page_link,
    total_of,
    type_sort_key,
)
from fhirapp.rest.response import is_strict, negotiate
from fhirapp.rest.search import (
    TypeSearch,
    check_searches_not_merged,
    explain,
    issues_of,
    read_page,
    search_arguments,
    searchset,
)
from fhirapp.rest.subset import check_subset, unknown_elements
from fhirapp.search.explain import SPEC, explanation
from fhirapp.search.page import NEWEST_FIRST
from fhirapp.search.query import Arguments, Controls, parse_controls
from fhirapp.search.values import SHOWN

_TYPE = "_type"
_SPEC = f"{SPEC}#_type"
# What shapes the answer to a search of one type alone.
_OF_ONE_TYPE = "takes the search of one type; several types are searched here"

blueprint = Blueprint("system", __name__)


@blueprint.get("/fhir")
@blueprint.get("/fhir/")
@blueprint.route("/fhir/_search", methods=["GET", "POST"])
@require_oauth()
def search_system() -> Response:
    """Return the searchset Bundle of all types, or of those of `_type`. Raises FhirError."""
    return _answer("", [definition for definition in types().values() if definition.searchable], [])


@blueprint.get("/fhir/Patient/<resource_id>/*")
@blueprint.route("/fhir/Patient/<resource_id>/_search", methods=["GET", "POST"])
@reject_reserved_ids("Patient")
@require_oauth()
def search_record(resource_id: str) -> Response:
    """Return the searchset Bundle of a patient's compartment, of all types. Raises FhirError."""
    check_id(types()["Patient"], resource_id)
    return _answer(f"Patient/{resource_id}/*", compartment_types(), [("patient", resource_id)])


def _answer(path: str, searched: Sequence[Definition], within: Arguments) -> Response:
    """Answer a search of these types; within are the parameters that the path means."""
    access = current_token.access()
    parameters = search_arguments()
    layout, strict, config = negotiate(parameters), is_strict(), settings()
    requested = _requested_types(parameters, searched)
    wanted = sorted(requested or searched, key=lambda definition: type_sort_key(definition.name))
    chosen, uncovered = _searchable_types(access, wanted, is_named=bool(requested))
    rest = [(name, value) for name, value in parameters if name != _TYPE]
    controls = parse_controls(rest, default=config.page_size, greatest=config.page_max)
    _check_controls(controls)
    searches = [
        _read(reach_of(definition, access, "s"), [*within, *controls.rest], strict=strict)
        for definition in chosen
    ]
    ignored = _ignored(searches, controls, strict=strict)
    if uncovered:
        names = ", ".join(definition.name for definition in uncovered)
        ignored.append((_TYPE, f"{names} not searched: the token's scope does not cover it"))
    applied = [pair for pair in searches[0].query.applied if pair not in within]
    applied += [(_TYPE, ",".join(definition.name for definition in requested))] if requested else []
    query_fingerprint = fingerprint(path or "/", applied)

    snapshot = reader()
    cursor = cursor_of(controls.cursor, query_fingerprint)
    parts = [search.part(snapshot) for search in searches]
    page = read_page(snapshot.all, parts, NEWEST_FIRST, cursor, controls)
    total = total_of(snapshot, parts, page) if controls.with_total else None
    check_searches_not_merged(snapshot, searches, is_empty=not (page.matches or total))
    issues = issues_of(searches, ignored)
    if controls.explain:
        names = ", ".join(definition.name for definition in chosen)
        issues.append(explanation("type", f"Types: {names}; one after the other.", None, [_SPEC]))
        issues += explain(searches, controls)
    applied += controls.applied
    links = [("self", page_link(path, [*applied, *controls.cursor_parameter]))]
    links += further_links(path, applied, page, query_fingerprint)
    answer = searchset(page, controls)
    answer.add_issues(issues)
    return answer.respond(links, total, layout)


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
            require(definition, "s")
    reached = [definition for definition in searched if reaches(definition, access, "s")]
    if not reached:
        raise insufficient_scope("The token's scope covers no search.", "system/*.s")
    return reached, [definition for definition in searched if definition not in reached]


def _check_controls(controls: Controls) -> None:
    """Raises UnsupportedParameter for what is of a search of one type."""
    if controls.includes:
        raise outcome.UnsupportedParameter(controls.includes[0].name, _OF_ONE_TYPE)
    if controls.sort:
        raise outcome.UnsupportedParameter("_sort", _OF_ONE_TYPE)


def _read(reach: Reach, arguments: Arguments, *, strict: bool) -> TypeSearch:
    """Return what is asked of a type. Raises FhirError."""
    try:
        search = TypeSearch.read(reach, arguments, strict=strict)
    except outcome.UnsupportedParameter as error:
        error.diagnostics += f" (of {reach.definition.name})"
        raise
    search.check_access(strict=strict)
    return search


def _ignored(
    searches: Sequence[TypeSearch], controls: Controls, *, strict: bool
) -> list[tuple[str, str]]:
    """Return what no type has. Raises UnsupportedParameter for what some have: that would widen."""
    applied = {name for search in searches for name, _ in search.query.applied}
    for search in searches:
        for name, _ in search.query.ignored:
            if name in {known.partition(":")[0] for known in applied}:
                of_type = search.reach.definition.name
                reason = f"is not a search parameter of {of_type}; name others by _type"
                raise outcome.UnsupportedParameter(name, reason)
    ignored = [*searches[0].query.ignored]
    if controls.is_part:
        check_subset(searches[0].reach.definition, controls, strict=False)
        for name in controls.elements:
            unknown = [unknown_elements(search.reach.definition, [name]) for search in searches]
            if all(unknown):
                if strict:
                    raise outcome.InvalidParameter("_elements", unknown[0][0])
                ignored.append(("_elements", f"{unknown[0][0]}; it was ignored"))
    return ignored
