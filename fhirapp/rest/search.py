"""search-type: from the request's parameters to a searchset Bundle.

Source: service.md 4; decisions §2, §3; FHIR R4 search §3.1.1.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from typing import NamedTuple

from flask import Response, request

from fhirapp import urls
from fhirapp.config import settings
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.elements import Binding
from fhirapp.fhir.json import INCLUDE, MATCH, Entry, bundle, scored
from fhirapp.fhir.outcome import UnsupportedMediaType, issue, operation_outcome
from fhirapp.rest import paging, response
from fhirapp.rest.access import access_to, check_id, check_merged, check_patients, visible
from fhirapp.rest.chains import Chains
from fhirapp.rest.explain import Statements, explain_limits
from fhirapp.rest.include import Inclusion, included_with
from fhirapp.rest.include_parameters import ignored_includes, joined_types, parse_includes
from fhirapp.rest.recorder import note_all_served
from fhirapp.rest.subset import check_subset, subset
from fhirapp.rest.terminology import Terminology, class_warnings
from fhirapp.search.explain import Issue, explain_answer, explain_query
from fhirapp.search.page import BY_SCORE, parse_sort
from fhirapp.search.parameter import Context
from fhirapp.search.query import (
    Arguments,
    Controls,
    parse_controls,
    parse_query,
    require_patient_or_id,
    select,
)
from fhirapp.search.token import Token
from fhirapp.store.merge import merged_among


def search_compartment(definition: Definition, resource_id: str) -> Response:
    """Return the searchset Bundle of what is about a patient. Raises FhirError."""
    check_id(types()["Patient"], resource_id)
    return search_type(definition, [("patient", resource_id)])


def search_type(definition: Definition, within: Arguments = ()) -> Response:
    """Return the searchset Bundle; within are parameters that the path means. Raises FhirError."""
    access = access_to(definition, "s")
    parameters = [*within, *search_arguments()]
    layout, strict, config = response.negotiate(parameters), response.is_strict(), settings()

    controls = parse_controls(parameters, default=config.page_size, greatest=config.page_max)
    context = Context(definition.tables, urls.base_url(), Terminology().resolve)
    statements = Statements() if controls.explain and config.demo else None
    chain = Chains(statements, definition, access, context)
    query = parse_query(definition.params, controls.rest, context, strict=strict, chain=chain)
    order = parse_sort(controls.sort, definition.params, context)
    joins = parse_includes(definition, access, controls.includes)
    ignored = [*query.ignored]
    if controls.is_part:
        ignored += check_subset(definition, controls, strict=strict)
    ignored += ignored_includes(joins, access, controls.includes)

    direct = query.direct
    check_patients(definition, access, direct, context)
    limit = visible(definition, access, "s")
    is_wide = limit is None or not limit.narrows
    if is_wide and definition.patient_or_id and (strict or config.require_patient_or_id):
        require_patient_or_id([name for name, _ in query.applied])

    snapshot = reader()
    run = statements or snapshot.all
    conditions = query.conditions if limit is None else (*query.conditions, limit)
    selection = select(definition.sql_table, conditions, snapshot.all)
    query_fingerprint = paging.fingerprint(
        definition.name, [*query.applied, ("_sort", controls.sort)]
    )
    if controls.sort == BY_SCORE:
        is_limited = limit is not None
        page = paging.ranked_page(
            run, definition, query, selection, controls, is_limited=is_limited
        )
        ignored += page.unranked
    else:
        page = paging.read_page(run, selection, order, controls, query_fingerprint)
    total = None
    if controls.only_total or controls.total != "none":
        is_all = page.is_single and controls.sort != BY_SCORE
        total = len(page.matches) if is_all else paging.total_of(snapshot, selection)
    is_empty = not (page.matches or total)
    check_merged(snapshot, definition, access, direct, context, is_empty=is_empty)
    links = paging.links_of(definition.name, query.applied, controls, page, query_fingerprint)
    inclusion = included_with(snapshot, definition, access, joins, page.matches)

    if definition.compartment == "id" and any(join.reverse for join in joins):
        ignored += _merged(snapshot, page.matches)
    issues = [*warnings(ignored, is_cut=inclusion.is_cut)]
    issues += class_warnings(query.applied)
    for impossible in impossible_values(definition, direct):
        if (warning := impossible.issue()) not in issues:
            issues.append(warning)
    if controls.explain:
        issues += explain_query(definition.params, query, context)
        issues += explain_answer(controls)
        led_to = [name for chained in query.chains.values() for name in chained.types]
        issues += explain_limits([definition.name, *led_to, *joined_types(joins)], access)
        issues += statements.explain() if statements else ()
    matched = [(match.id, match.version_id) for match in page.matches]
    included = [resource.name for resource in inclusion.resources]
    # Bodies depend on these two settings beside the version.
    rendering = (config.inline_max, config.empty_content)
    content = (links, total, matched, page.scores, included, issues, rendering)
    digest = blake2b(repr(content).encode(), digest_size=16).hexdigest()
    entries = _entries(definition, controls, page, inclusion, issues)
    body = bundle(paging.bundle_id(digest), "searchset", total, links, entries)
    return response.respond(body, layout, etag=f'W/"{digest}"')


def search_arguments() -> list[tuple[str, str]]:
    """Return the parameters of URL and form body together, as if repeated (decisions §1).

    Raises UnsupportedMediaType for any other body.
    """
    parameters = response.arguments()
    if request.method == "POST":
        if request.mimetype != response.FORM and (request.mimetype or request.content_length):
            raise UnsupportedMediaType(f"A search by POST takes a body of type {response.FORM}.")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise UnsupportedMediaType("A search by POST takes a body without Content-Encoding.")
        parameters += response.parse_form(request.get_data())
    return parameters


def _merged(snapshot: Reader, patients: Sequence[paging.Match]) -> Iterator[tuple[str, str]]:
    """Yield, as Query.ignored has it, the patients of a page whose record is in another's now."""
    for patient_id, into in merged_among(snapshot, [match.id for match in patients]).items():
        reason = f"Patient/{patient_id} was merged into Patient/{into}, which has the record"
        yield "_revinclude", reason


def warnings(ignored: Iterable[tuple[str, str]], *, is_cut: bool = False) -> Iterator[Issue]:
    """Yield an issue for each parameter that was not followed, or not wholly (decisions §3)."""
    for name, reason in ignored:
        yield issue("warning", "not-supported", f"{name}: {reason}", name)
    if is_cut:
        message = "_include: more belongs to these matches than is included at once; read the rest"
        yield issue("warning", "too-costly", message, "_include")


class ImpossibleValue(NamedTuple):
    """A value that no resource can have: its parameter, why, and a code that is similar, if any."""

    parameter: str
    value: str
    reason: str
    similar: str = ""

    def issue(self) -> Issue:
        hint = f"; did you mean {self.similar}?" if self.similar else ""
        message = f"{self.parameter}: {self.reason}{hint}"
        return issue("warning", "code-invalid", message, self.parameter)


def impossible_values(
    definition: Definition, applied: Iterable[tuple[str, str]]
) -> Iterator[ImpossibleValue]:
    """Yield the codes among a search's values that no resource of the type can have."""
    for name, value in applied:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name[base]
        if not isinstance(parameter, Token) or modifier not in ("", "not"):
            continue
        bindings = definition.bindings(parameter)
        for choice in parameter.choices(value) if bindings else ():
            reason, similar = _why_impossible(parameter, bindings, choice)
            if reason:
                yield ImpossibleValue(name, choice, reason, similar)


def _why_impossible(parameter: Token, bindings: Sequence[Binding], choice: str) -> tuple[str, str]:
    """Return why no resource can have a value, and a code that one can; empty where one can."""
    code, system = parameter.parse(choice)
    if system and system not in {parameter.system, *(binding.system for binding in bindings)}:
        # Beside the coding that it must have, a concept may have others.
        system = parameter.system
        return (f"all values are of the system {system}" if system else ""), ""
    codes = [known for binding in bindings for known in binding.codes]
    if not code or code in codes:
        return "", ""
    near = get_close_matches(code.casefold(), codes, n=1)
    return f"one value is none of {', '.join(codes)}", "".join(near)


def _entries(
    definition: Definition,
    controls: Controls,
    page: paging.Page,
    inclusion: Inclusion,
    issues: Sequence[Issue],
) -> Iterator[Entry]:
    """Yield the matches, then what is included with them, then the outcome."""
    name, base, known = definition.name, response.fhir_address(""), types()
    is_part = controls.is_part
    note_all_served(name, page.matches)
    for resource in inclusion.resources:
        note_all_served(resource.type, [resource])

    def shown(definition: Definition, body: bytes, elements: Sequence[str]) -> bytes:
        if is_part:
            body = subset(definition, body, controls.summary, elements)
        return response.with_addresses(body, definition.attachments, base)

    for match in page.matches:
        body = shown(definition, match.body, controls.elements)
        score = page.scores.get(match.pk)
        beside = MATCH if score is None else scored(score)
        yield Entry(f"{base}{name}/{match.id}", body, beside)
    for resource in inclusion.resources:
        # FHIR R4 search §3.1.1.5.9: _elements is about the matches alone.
        body = shown(known[resource.type], resource.body, ())
        yield Entry(f"{base}{resource.type}/{resource.id}", body, INCLUDE)
    if issues:
        yield fhir_json.outcome(operation_outcome(issues))
