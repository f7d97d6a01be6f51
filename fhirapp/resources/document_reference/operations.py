"""`$docref`: the documents of a patient. US Core 6.1.0 OperationDefinition docref.

What is stored is found; nothing is generated, so asked for on-demand documents alone the answer is
empty. Found are current documents of the care in [start, end]: by context.period, or by date where
there is none. Without start and end all current ones are, the newest first; of several types, or
profiles, those that have one of them.
"""

from __future__ import annotations

import re

from flask import Response

from fhirapp import urls
from fhirapp.db import reader
from fhirapp.definition import Definition, Operation, OperationParameter
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.access import check_not_merged, require
from fhirapp.rest.bundle_answer import BundleAnswer
from fhirapp.rest.operation import RequestParameters, parse_operation
from fhirapp.rest.paging import Part, cursor_of, further_links, page_link, read_page, total_of
from fhirapp.rest.response import negotiate
from fhirapp.search.date import care_overlap
from fhirapp.search.page import NEWEST_FIRST
from fhirapp.search.parameter import Context
from fhirapp.search.query import select
from fhirapp.search.values import AnyCondition, Condition, parse_boolean

DOCREF = Operation(
    "docref",
    "http://hl7.org/fhir/us/core/OperationDefinition/docref",
    # US Core: what several types or profiles mean is for the server to say.
    "The current documents of a patient, of any of the types and any of the profiles that are asked"
    " for; stored ones, none is generated.",
    (
        OperationParameter("patient", "id", "The patient's id", required=True),
        OperationParameter("start", "dateTime", "Care from this time on"),
        OperationParameter("end", "dateTime", "Care up to this time"),
        OperationParameter("type", "Coding", "Kind of document: system|code", repeats=True),
        OperationParameter("on-demand", "boolean", "Only documents made on demand: there are none"),
        OperationParameter("profile", "canonical", "Profile that it claims", repeats=True),
    ),
)
_PATIENT = re.compile(f"(?:Patient/)?({ID_PATTERN})")


def docref(definition: Definition) -> Response:
    """Return the documents as a searchset Bundle. Raises FhirError."""
    reach = require(definition, "s")
    operation = parse_operation(DOCREF)
    layout = negotiate(operation.parameters)
    context = Context(definition.tables, urls.base_url())
    patient = _patient(operation)
    reach.check_patients([("patient", patient)], context)
    conditions = reach.limit(_conditions(definition, operation, patient, context))
    snapshot = reader()
    parts = [Part(definition, select(definition.sql_table, conditions, snapshot.all))]
    path = f"{definition.name}/$docref"
    query_fingerprint = operation.fingerprint(path)
    cursor = cursor_of(operation.cursor, query_fingerprint)
    page = read_page(snapshot.all, parts, NEWEST_FIRST, cursor, operation.count)
    total = total_of(snapshot, parts, page)
    if not total:
        check_not_merged(snapshot, patient)
    links = [("self", page_link(path, operation.parameters))]
    links += further_links(path, operation.applied, page, query_fingerprint, with_previous=True)
    answer = BundleAnswer()
    answer.add_matches(page)
    return answer.respond(links, total, layout)


def _patient(operation: RequestParameters) -> str:
    """Return the one patient's id. Raises InvalidParameter."""
    found = _PATIENT.fullmatch(operation.values["patient"][0])
    if found is None:
        raise InvalidParameter("patient", "is not the id of one patient")
    return found[1]


def _conditions(
    definition: Definition, operation: RequestParameters, patient: str, context: Context
) -> list[AnyCondition]:
    """Return what a document must fulfil. Raises InvalidParameter."""
    searched = [("patient", patient), ("status", "current")]
    for name, parameter in (("type", "type"), ("profile", "_profile")):
        if name in operation.values:
            searched.append((parameter, ",".join(operation.values[name])))
    conditions = [
        condition
        for name, value in searched
        for condition in definition.params.by_name[name].conditions("", [value], context)
    ]
    if care := operation.care():
        conditions.append(care_overlap(definition.tables, definition.care, care, undated=False))
    if parse_boolean("on-demand", operation.value("on-demand") or "false"):
        conditions.append(Condition("1 = 0", narrows=True))
    return conditions
