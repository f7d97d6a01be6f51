"""Searches: of a type, and of a type in a patient's compartment. system.py searches several types.

Source: service.md 4; decisions §2, §3; FHIR R4 search §3.1.1.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from flask import Response, request

from fhirapp import urls
from fhirapp.config import settings
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir.elements import Binding
from fhirapp.fhir.json import INCLUDE
from fhirapp.fhir.outcome import UnsupportedMediaType, issue
from fhirapp.rest import paging, response
from fhirapp.rest.access import Reach, check_id, check_searched_not_merged, require
from fhirapp.rest.bundle_answer import BundleAnswer
from fhirapp.rest.chains import Chains
from fhirapp.rest.explain import Statements, explain_limits
from fhirapp.rest.include import included_with
from fhirapp.rest.include_parameters import ignored_includes, joined_types, parse_includes
from fhirapp.rest.paging import Match, Page, PageCursor, Part
from fhirapp.rest.subset import check_subset, subset
from fhirapp.rest.terminology import Terminology, class_warnings
from fhirapp.search.explain import Issue, explain_answer, explain_query
from fhirapp.search.page import BY_SCORE, Order, Run, parse_sort
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
from fhirapp.search.token import Token
from fhirapp.store.merge import merged_among


class TypeSearch(NamedTuple):
    """What a request asks of one type, and what the token may see of it."""

    reach: Reach
    query: Query
    context: Context

    @classmethod
    def read(
        cls, reach: Reach, arguments: Arguments, *, strict: bool, run: Statements | None = None
    ) -> TypeSearch:
        """Read search parameters; run keeps the SELECTs of chains. Raises FhirError."""
        definition = reach.definition
        context = Context(definition.tables, urls.base_url(), Terminology().resolve)
        chains = Chains(run, reach, context)
        query = parse_query(definition.params, arguments, context, strict=strict, chain=chains)
        return cls(reach, query, context)

    def check_access(self, *, strict: bool) -> None:
        """Raises Forbidden for another patient, MissingParameter where one has to be named."""
        self.reach.check_patients(self.query.direct, self.context)
        is_wide = self.reach.definition.patient_or_id and not self.reach.rows.narrows
        if is_wide and (strict or settings().require_patient_or_id):
            require_patient_or_id([name for name, _ in self.query.applied])

    def part(self, snapshot: Reader) -> Part:
        """Return the rows that are searched for. Raises FhirError."""
        conditions = self.reach.limit(self.query.conditions())
        definition = self.reach.definition
        return Part(definition, select(definition.sql_table, conditions, snapshot.all))


def search_compartment(definition: Definition, resource_id: str) -> Response:
    """Return the searchset Bundle of one type in a patient's compartment. Raises FhirError."""
    check_id(types()["Patient"], resource_id)
    return search_type(definition, [("patient", resource_id)])


def search_type(definition: Definition, within: Arguments = ()) -> Response:
    """Return the searchset Bundle; within are parameters that the path means. Raises FhirError."""
    reach = require(definition, "s")
    parameters = [*within, *search_arguments()]
    layout, strict, config = response.negotiate(parameters), response.is_strict(), settings()
    controls = parse_controls(parameters, default=config.page_size, greatest=config.page_max)
    statements = Statements() if controls.explain and config.demo else None
    search = TypeSearch.read(reach, controls.rest, strict=strict, run=statements)
    order = parse_sort(controls.sort, definition.params, search.context)
    joins = parse_includes(definition, reach.access, controls.includes)
    ignored = [*search.query.ignored]
    if controls.is_part:
        ignored += check_subset(definition, controls, strict=strict)
    ignored += ignored_includes(joins, reach.access, controls.includes)
    search.check_access(strict=strict)

    snapshot = reader()
    run, parts = statements or snapshot.all, [search.part(snapshot)]
    applied = search.query.applied
    query_fingerprint = paging.fingerprint(definition.name, [*applied, ("_sort", controls.sort)])
    if controls.sort == BY_SCORE:
        page = paging.ranked_page(run, parts[0], search.query, controls, reach)
        ignored += page.unranked
    else:
        cursor = paging.cursor_of(controls.cursor, query_fingerprint)
        page = read_page(run, parts, order, cursor, controls)
    total = paging.total_of(snapshot, parts, page) if controls.with_total else None
    check_searches_not_merged(snapshot, [search], is_empty=not (page.matches or total))
    inclusion = included_with(snapshot, reach.access, joins, page.matches)

    if definition.compartment == "id" and any(join.reverse for join in joins):
        ignored += _merged(snapshot, page.matches)
    issues = issues_of([search], ignored, is_cut=inclusion.is_cut)
    if controls.explain:
        issues += explain([search], controls, joined_types(joins))
        issues += statements.explain() if statements else ()
    linked = [*applied, *controls.applied]
    links = [("self", paging.self_link(definition.name))]
    if config.self_link == "fhir":
        links = [("self", paging.page_link(definition.name, [*linked, *controls.cursor_parameter]))]
    links += paging.further_links(
        definition.name, linked, page, query_fingerprint, with_previous=True
    )
    answer = searchset(page, controls, inclusion.resources)
    answer.add_issues(issues)
    return answer.respond(links, total, layout)


def read_page(
    run: Run,
    parts: Sequence[Part],
    order: Order,
    cursor: PageCursor | None,
    controls: Controls,
) -> Page:
    """Return the page that is asked for."""
    if controls.only_total:
        return Page(())
    # decisions 2.5: where _id is given, one page holds all
    count = MAX_IDS * len(parts) if controls.count is None else controls.count
    return paging.read_page(run, parts, order, cursor, count)


def check_searches_not_merged(
    snapshot: Reader, searches: Sequence[TypeSearch], *, is_empty: bool
) -> None:
    """Raises InvalidParameter where the answer lacks the record of a merged patient."""
    for search in searches:
        check_searched_not_merged(
            snapshot, search.reach, search.query.direct, search.context, is_empty=is_empty
        )


def searchset(page: Page, controls: Controls, included: Sequence[Match] = ()) -> BundleAnswer:
    """Return the Bundle of the matches and what comes with them, as much of each as is asked for.

    FHIR R4 search §3.1.1.5.9: _elements is about the matches alone.
    """

    def part_of_match(definition: Definition, body: bytes) -> bytes:
        return subset(definition, body, controls.summary, controls.elements)

    def part_of_included(definition: Definition, body: bytes) -> bytes:
        return subset(definition, body, controls.summary, ())

    answer = BundleAnswer()
    answer.add_matches(page, part_of_match if controls.is_part else None)
    for resource in included:
        part = part_of_included if controls.is_part else None
        answer.add(types()[resource.type], [resource], INCLUDE, part)
    return answer


def issues_of(
    searches: Sequence[TypeSearch], ignored: Iterable[tuple[str, str]], *, is_cut: bool = False
) -> list[Issue]:
    """Return the warnings of a search, each once."""
    issues = [*warnings(ignored, is_cut=is_cut), *class_warnings(searches[0].query.applied)]
    for search in searches:
        for impossible in impossible_values(search.reach.definition, search.query.direct):
            if (warning := impossible.issue()) not in issues:
                issues.append(warning)
    return issues


def explain(
    searches: Sequence[TypeSearch], controls: Controls, further: Iterable[str] = ()
) -> Iterator[Issue]:
    """Yield how a search was read, which is the same of each type; further are types beside."""
    first = searches[0]
    yield from explain_query(first.reach.definition.params, first.query, first.context)
    yield from explain_answer(controls)
    names = [search.reach.definition.name for search in searches]
    led_to = [name for chained in first.query.chains.values() for name in chained.types]
    yield from explain_limits([*names, *led_to, *further], first.reach.access)


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


def _merged(snapshot: Reader, patients: Sequence[Match]) -> Iterator[tuple[str, str]]:
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
