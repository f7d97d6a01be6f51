"""`$everything`: a patient's record, as far as this server has it and the token may see it.

The patient, then what belongs to the patient's compartment, type by type in the order of its
publication; and on each page the practitioners, organizations and origins that its resources refer
to, which come with these and not by themselves. Attachments stand in the documents, or are read at
the addresses there. Pages are as of the first, like those of a search.

Care that was outside of [start, end] is left out; what has no time, and what is no care but stands,
such as an allergy, always comes. Source: FHIR R4 operation-patient-everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flask import Response

from fhirapp.auth.scopes import Access
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir.json import INCLUDE
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound, issue
from fhirapp.fhir.temporal import instant_of
from fhirapp.rest.access import check_not_merged, reach_of, require
from fhirapp.rest.bundle_answer import BundleAnswer
from fhirapp.rest.include import Inclusion, included_with
from fhirapp.rest.include_parameters import Join
from fhirapp.rest.operation import RequestParameters, parse_operation
from fhirapp.rest.paging import (
    BY_NUMBER,
    Match,
    Part,
    cursor_of,
    further_links,
    page_link,
    read_page,
    total_of,
    type_sort_key,
)
from fhirapp.rest.read import find_version
from fhirapp.rest.response import negotiate
from fhirapp.search.date import care_overlap
from fhirapp.search.query import select
from fhirapp.search.values import SHOWN, Condition

EVERYTHING = Operation(
    "everything",
    "http://hl7.org/fhir/OperationDefinition/Patient-everything",
    "The patient's record: every resource of the types served here.",
    (
        OperationParameter("start", "date", "Care from this day on; what is no care always comes"),
        OperationParameter("end", "date", "Care up to this day; what is no care always comes"),
        OperationParameter("_since", "instant", "What changed since"),
        OperationParameter("_type", "code", "Types wanted, separated by commas", repeats=True),
        OperationParameter("_count", "integer", "Results on a page"),
    ),
    instance=True,
)
_CUT = "more belongs to these resources than is brought at once; read the rest"


def everything(definition: Definition, resource_id: str) -> Response:
    """Return the record as a searchset Bundle. Raises NotFound, Gone, FhirError."""
    reach = require(definition, "r", resource_id)
    operation = parse_operation(EVERYTHING)
    layout = negotiate(operation.parameters)
    snapshot = reader()
    name = f"{definition.name}/{resource_id}"
    patient = find_version(snapshot, reach, resource_id)
    if patient is None:
        raise NotFound(f"{name} is not known here.")
    if patient.deleted:
        raise Gone(f"{name} was deleted.")
    path = f"{name}/$everything"
    check_not_merged(snapshot, resource_id, "id")
    query_fingerprint = operation.fingerprint(path)
    cursor = cursor_of(operation.cursor, query_fingerprint)
    wanted = _wanted_types(operation)
    parts = _parts(snapshot, reach.access, resource_id, operation, wanted)
    page = read_page(snapshot.all, parts, BY_NUMBER, cursor, operation.count)
    links = [("self", page_link(path, operation.parameters))]
    links += further_links(path, operation.applied, page, query_fingerprint)
    beside = resources_beside(snapshot, reach.access, page.matches, wanted)
    answer = BundleAnswer()
    answer.add_matches(page)
    for resource in beside.resources:
        answer.add(types()[resource.type], [resource], INCLUDE)
    answer.add_issues([issue("warning", "too-costly", _CUT)] if beside.is_cut else [])
    return answer.respond(links, total_of(snapshot, parts, page), layout)


def _wanted_types(operation: RequestParameters) -> frozenset[str]:
    """Return the types that are asked for, every one without `_type`. Raises InvalidParameter."""
    served = types()
    named = operation.values.get("_type", list(served))
    for name in named:
        if name not in served:
            raise InvalidParameter("_type", f"{name[:SHOWN]!r} is not served here")
    if not any(served[name].compartment for name in named):
        raise InvalidParameter("_type", f"{named[0]} comes with what refers to it; name that too")
    return frozenset(named)


def _parts(
    snapshot: Reader,
    access: Access,
    patient_id: str,
    operation: RequestParameters,
    wanted: Iterable[str],
) -> list[Part]:
    """Return what is searched of each type of the compartment. Raises InvalidParameter."""
    care, since = operation.care(), operation.time("_since")
    common = [Condition("r.patient_id = ?", (patient_id,), narrows=True)]
    if since:
        common.append(Condition("r.last_updated >= ?", (instant_of(since.low),)))
    parts = []
    for definition in _compartment(access, wanted):
        conditions = reach_of(definition, access, "r").limit(common)
        if care and definition.care:
            conditions.append(care_overlap(definition.tables, definition.care, care, undated=True))
        selection = select(definition.sql_table, conditions, snapshot.all)
        parts.append(Part(definition, selection))
    return parts


def _compartment(access: Access, wanted: Iterable[str]) -> list[Definition]:
    """Return the types of the compartment that the token may read: the patient, then by name."""
    found = [
        definition
        for name, definition in types().items()
        if definition.compartment and name in wanted and access.grants(name, "r")
    ]
    return sorted(found, key=lambda kind: type_sort_key(kind.name))


def resources_beside(
    snapshot: Reader,
    access: Access,
    page: Sequence[Match],
    wanted: Iterable[str],
) -> Inclusion:
    """Return what the page's resources refer to outside of the compartment, each once."""
    outside = [name for name in wanted if not types()[name].compartment]
    origins = Join("Provenance", ("target",), "", iterate=False, reverse=True)
    by_type: dict[str, list[Match]] = {}
    for match in page:
        by_type.setdefault(match.type, []).append(match)
    beside: dict[tuple[str, str, int], Match] = {}
    is_cut = False
    for name, matches in by_type.items():
        named = tuple(types()[name].references)
        joins = [Join(name, named, target, iterate=False) for target in outside]
        joins += [origins] if "Provenance" in outside else []
        included = included_with(snapshot, access, joins, matches, "r")
        beside.update((found[:3], found) for found in included.resources)
        is_cut = is_cut or included.is_cut
    return Inclusion(list(beside.values()), is_cut)
