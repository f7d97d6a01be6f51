"""`$everything`: a patient's record, as far as this server has it and the token may see it.

The patient, then what belongs to the patient's compartment, type by type in the order of its
publication; and on each page the practitioners, organizations and origins that its resources refer
to, which come with these and not by themselves. Attachments stand in the documents, or are read at
the addresses there. Pages are as of the first, like those of a search.

Care that was outside of [start, end] is left out; what has no time, and what is no care but stands,
such as an allergy, always comes. Source: FHIR R4 operation-patient-everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from flask import Response

from fhirapp.auth.scopes import Access
from fhirapp.config import settings
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import INCLUDE, MATCH, Entry, bundle
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound, issue, operation_outcome
from fhirapp.fhir.temporal import instant_of
from fhirapp.rest.access import access_to, check_not_merged, visible
from fhirapp.rest.include import Inclusion, PageResource, included_with
from fhirapp.rest.include_parameters import Join
from fhirapp.rest.operation import OperationRequest, parse_operation
from fhirapp.rest.paging import Match, bundle_id, page_link, total_of
from fhirapp.rest.read import find_version
from fhirapp.rest.recorder import note_all_served
from fhirapp.rest.response import fhir_address, negotiate, respond, with_addresses
from fhirapp.rest.walk import BY_NUMBER, Part, begin_at, cursor_after, part, rank, read_parts
from fhirapp.search.date import care_overlap
from fhirapp.search.query import select
from fhirapp.search.values import SHOWN, AnyCondition, Condition

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
    access = access_to(definition, "r", resource_id)
    operation = parse_operation(EVERYTHING)
    layout = negotiate(operation.parameters)
    snapshot = reader()
    name = f"{definition.name}/{resource_id}"
    patient = find_version(snapshot, definition, access, resource_id)
    if patient is None:
        raise NotFound(f"{name} is not known here.")
    if patient.deleted:
        raise Gone(f"{name} was deleted.")
    path = f"{name}/$everything"
    check_not_merged(snapshot, resource_id, "id")
    made_for = operation.fingerprint(path)
    begin = begin_at(operation.cursor, made_for)
    wanted = _wanted_types(operation)
    parts = _parts(snapshot, access, resource_id, operation, wanted, dict(begin.marks))
    found = read_parts(snapshot.all, parts, begin, operation.count + 1, BY_NUMBER)
    page = found[: operation.count]
    links = [
        ("self", page_link(path, operation.parameters)),
        ("first", page_link(path, operation.applied)),
    ]
    if page and len(found) > operation.count:
        further = [*operation.applied, ("_cursor", cursor_after(parts, *page[-1], made_for))]
        links.append(("next", page_link(path, further)))
    total = sum(total_of(snapshot, type_part.selection) for type_part in parts)
    beside = resources_beside(snapshot, access, page, wanted)
    config = settings()
    shown = [(kind.name, match.id, match.version_id) for kind, match in page]
    key = (links, total, shown, [resource.name for resource in beside.resources], beside.is_cut)
    rendering = (config.inline_max, config.empty_content)
    digest = blake2b(repr((key, rendering)).encode(), digest_size=16).hexdigest()
    body = bundle(bundle_id(digest), "searchset", total, links, _entries(page, beside))
    return respond(body, layout, etag=f'W/"{digest}"')


def _wanted_types(operation: OperationRequest) -> frozenset[str]:
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
    operation: OperationRequest,
    wanted: Iterable[str],
    marks: Mapping[str, int],
) -> list[Part]:
    """Return what is walked of each type of the compartment. Raises InvalidParameter."""
    care, since = operation.care(), operation.time("_since")
    common = [Condition("r.patient_id = ?", (patient_id,), narrows=True)]
    if since:
        common.append(Condition("r.last_updated >= ?", (instant_of(since.low),)))
    parts = []
    for definition in _compartment(access, wanted):
        conditions: list[AnyCondition] = [*common]
        if limit := visible(definition, access, "r"):
            conditions.append(limit)
        if care and definition.care:
            conditions.append(care_overlap(definition.tables, definition.care, care, undated=True))
        selection = select(definition.sql_table, conditions, snapshot.all)
        parts.append(part(snapshot.all, definition, selection, marks))
    return parts


def _compartment(access: Access, wanted: Iterable[str]) -> list[Definition]:
    """Return the types of the compartment that the token may read: the patient, then by name."""
    found = [
        definition
        for name, definition in types().items()
        if definition.compartment and name in wanted and access.grants(name, "r")
    ]
    return sorted(found, key=lambda kind: rank(kind.name))


def resources_beside(
    snapshot: Reader,
    access: Access,
    page: Sequence[tuple[Definition, Match]],
    wanted: Iterable[str],
) -> Inclusion:
    """Return what the page's resources refer to outside of the compartment, each once."""
    outside = [name for name in wanted if not types()[name].compartment]
    origins = Join("Provenance", ("target",), "", iterate=False, reverse=True)
    by_type: dict[str, list[Match]] = {}
    for definition, match in page:
        by_type.setdefault(definition.name, []).append(match)
    beside: dict[object, PageResource] = {}
    is_cut = False
    for name, matches in by_type.items():
        definition = types()[name]
        named = tuple(definition.references)
        joins = [Join(name, named, target, iterate=False) for target in outside]
        joins += [origins] if "Provenance" in outside else []
        included = included_with(snapshot, definition, access, joins, matches, "r")
        beside.update((found.name, found) for found in included.resources)
        is_cut = is_cut or included.is_cut
    return Inclusion(list(beside.values()), is_cut)


def _entries(page: Sequence[tuple[Definition, Match]], beside: Inclusion) -> Iterator[Entry]:
    for definition, match in page:
        note_all_served(definition.name, [match])
        body = with_addresses(match.body, definition.attachments)
        yield Entry(fhir_address(f"{definition.name}/{match.id}"), body, MATCH)
    for found in beside.resources:
        note_all_served(found.type, [found])
        body = with_addresses(found.body, types()[found.type].attachments)
        yield Entry(fhir_address(f"{found.type}/{found.id}"), body, INCLUDE)
    if beside.is_cut:
        cut = operation_outcome([issue("warning", "too-costly", _CUT)])
        yield fhir_json.outcome(cut)
