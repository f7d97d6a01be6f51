"""`$summary`: a patient's allergies as a clinician wants them, for apps. Not an operation of FHIR.

FHIR R4 has none for this: IPS writes a document and codes "none known"; a List has an emptyReason,
but no place for groups or contradictions. So the answer is a Parameters resource: `conclusion`,
each `finding` that does not fit, then each `group` with its entries. Each statement has a code, a
sentence and, as `source`, the resources that it comes from. It covers all that the token may find
by a search; there are no pages.

Without entries and without the patient the answer is 404: "nothing is recorded" would suggest that
the patient is known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flask import Response

from fhirapp import urls
from fhirapp.auth.scopes import Access
from fhirapp.clinical.contradictions import Discrepancy, findings_of, other_records
from fhirapp.clinical.summary import SummaryEntry, SummaryGroup, conclusion_of, entries_of
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.fhir.words import ReactionWords
from fhirapp.rest.access import check_not_merged, reach_of, require
from fhirapp.rest.operation import parse_operation
from fhirapp.rest.read import find_version
from fhirapp.rest.recorder import note_all_served, note_served
from fhirapp.rest.response import document_etag, negotiate, respond
from fhirapp.search.parameter import Context
from fhirapp.search.query import select

_parameter = OperationParameter
_SOURCE = _parameter("source", "Reference", "A resource that this was made of", repeats=True)
_STATEMENT = (
    _parameter("code", "code", "What is said, for a program", required=True),
    _parameter("text", "string", "What is said, in a sentence", required=True),
    _SOURCE,
)
_REACTION = (
    _parameter("text", "string", "Its manifestations in words", required=True),
    _parameter("description", "string", "What the source says beside them"),
    _parameter("severity", "code", "mild, moderate or severe"),
    _parameter("severityText", "string", "The severity in the source's own words"),
    _parameter("onset", "string", "When it happened, in words"),
)
_ENTRY = (
    _parameter("source", "Reference", "The AllergyIntolerance", required=True),
    _parameter("kind", "code", "allergy, none-known, no-information, not-asked or words-only"),
    _parameter("about", "code", "What a statement that there is none is about"),
    _parameter("substance", "string", "What it is to, in words"),
    _parameter("codedAs", "string", "What its codes are called, where they differ", repeats=True),
    _parameter(
        "sameClass",
        "string",
        "A class of substances that it is in, and which others this server knows in it: not that"
        " who reacts to one reacts to another",
        repeats=True,
    ),
    _parameter("type", "code", "allergy or intolerance, as recorded"),
    _parameter(
        "severe",
        "boolean",
        "Whether it is recorded as severe, as anaphylaxis or with high criticality, or in words",
        required=True,
    ),
    _parameter(
        "severeBy", "code", "The reason for severity: words, reaction, or criticality alone"
    ),
    _parameter("whySevere", "string", "Why it is severe, in words"),
    _parameter("worstReaction", "string", "The worst reactions, life-threatening ones first"),
    _parameter("describedAs", "string", "The words that describe it as severe, if only words do"),
    _parameter("clinicalStatus", "code", "As recorded"),
    _parameter("verificationStatus", "code", "As recorded"),
    _parameter("criticality", "code", "As recorded"),
    _parameter("category", "code", "As recorded", repeats=True),
    OperationParameter("reaction", "", "A reaction to it", repeats=True, parts=_REACTION),
    _parameter("onset", "string", "When it began, in words"),
    _parameter("lastOccurrence", "string", "When it last happened, in words"),
    _parameter("recorded", "string", "When it was recorded, in words"),
    _parameter("recorder", "Reference", "Who recorded it"),
    _parameter("asserter", "Reference", "Who told of it"),
    _parameter("comment", "string", "What somebody wrote beside it", repeats=True),
    _parameter("note", "string", "What does not fit in it, or is not told", repeats=True),
)
_GROUP = (
    _parameter("code", "code", "Which group, for a program", required=True),
    _parameter("text", "string", "Which group, in words", required=True),
    OperationParameter("entry", "", "An entry", required=True, repeats=True, parts=_ENTRY),
)

RETURNED = (
    _parameter("patient", "Reference", "Whose allergies these are", required=True),
    _parameter("caveat", "string", "What this is not: decision support", required=True),
    _parameter(
        "limited",
        "boolean",
        "Whether the token may see a part of the allergies only",
        required=True,
    ),
    OperationParameter(
        "conclusion", "", "What the entries come to", required=True, parts=_STATEMENT
    ),
    OperationParameter(
        "finding", "", "What contradicts or does not fit", repeats=True, parts=_STATEMENT
    ),
    OperationParameter(
        "group",
        "",
        "Entries of one standing, the most urgent group first",
        repeats=True,
        parts=_GROUP,
    ),
)


SUMMARY = Operation(
    "summary",
    "",
    "A patient's allergies in the order in which they matter, what contradicts among them, and"
    " whether none is known, they were not asked about, there is no information, or nothing is"
    " recorded. Not clinical decision support.",
    (OperationParameter("patient", "id", "The patient's id", required=True),),
    answer="Parameters",
    is_paged=False,
    returns=RETURNED,
    needs_record=True,
)
_CAVEAT = (
    "This is no decision support. It is made of the AllergyIntolerance entries that this token may"
    " see, as they were recorded, and nothing else; read the entries before you rely on it."
)
_PATIENT = re.compile(f"(?:Patient/)?({ID_PATTERN})")

Part = dict[str, Any]
Resource = Mapping[str, Any]


def summary(definition: Definition) -> Response:
    """Return the summary as a Parameters resource. Raises FhirError."""
    reach = require(definition, "s")
    operation = parse_operation(SUMMARY)
    layout = negotiate(operation.parameters)
    patient_id = _patient(operation.values["patient"][0])
    context = Context(definition.tables, urls.base_url())
    reach.check_patients([("patient", patient_id)], context)
    about = definition.params.by_name["patient"].conditions("", [patient_id], context)
    conditions = reach.limit(about)
    snapshot = reader()
    selection = select(definition.sql_table, conditions, snapshot.all).of_all()
    rows = snapshot.all(
        f"SELECT r.id, r.version_id, r.body FROM {selection.table} r WHERE {selection.current}",
        selection.values,
    )
    if not rows:
        check_not_merged(snapshot, patient_id)
    patient = _record(snapshot, reach.access, patient_id, is_needed=not rows)
    for row_id, version_id, _ in rows:
        note_served(definition.name, row_id, version_id, patient_id)
    entries = entries_of(fhir_json.loads(body) for _, _, body in rows)
    findings = [*findings_of(entries), *other_records(patient)]
    is_limited = all(grant.filters for grant in reach.grants)
    content = {
        "resourceType": "Parameters",
        "parameter": list(_parameters(patient_id, entries, findings, is_limited=is_limited)),
    }
    body = fhir_json.dumps_indented(content)
    return respond(body, layout, etag=document_etag(body))


def _patient(value: str) -> str:
    """Return the one patient's id. Raises InvalidParameter."""
    found = _PATIENT.fullmatch(value)
    if found is None:
        raise InvalidParameter("patient", "is not the id of one patient")
    return found[1]


def _record(snapshot: Reader, access: Access, patient_id: str, *, is_needed: bool) -> Resource:
    """Return the Patient, as far as the token may read it.

    is_needed where nothing else says that there is one: a patient who is not here is not one of
    whom nothing is recorded. Raises NotFound, Gone.
    """
    patients = types()["Patient"]
    if not access.grants(patients.name, "r"):
        return {}
    version = find_version(snapshot, reach_of(patients, access, "r"), patient_id)
    if version is not None and version.body is not None:
        note_all_served(patients.name, [version])
        found: Resource = fhir_json.loads(version.body)
        return found
    if is_needed and version is None:
        raise NotFound(f"Patient/{patient_id} is not known here.")
    if is_needed:
        raise Gone(f"Patient/{patient_id} was deleted.")
    return {}


def _parameters(
    patient_id: str,
    entries: Sequence[SummaryEntry],
    findings: Iterable[Discrepancy],
    *,
    is_limited: bool,
) -> Iterator[Part]:
    yield {"name": "patient", "valueReference": {"reference": f"Patient/{patient_id}"}}
    yield _string("caveat", _CAVEAT)
    yield {"name": "limited", "valueBoolean": is_limited}
    yield _statement("conclusion", *conclusion_of(entries, is_limited=is_limited))
    for finding in findings:
        yield _statement("finding", *finding)
    for group in SummaryGroup:
        members = [_entry(entry) for entry in entries if entry.group is group]
        if members:
            about = [_code("code", group.code), _string("text", group.title)]
            yield {"name": "group", "part": [*about, *members]}


def _statement(name: str, code: str, text: str, sources: Iterable[str]) -> Part:
    named = [{"name": "source", "valueReference": {"reference": source}} for source in sources]
    return {"name": name, "part": [_code("code", code), _string("text", text), *named]}


def _entry(entry: SummaryEntry) -> Part:
    """Return an entry; what is not recorded has no part."""
    parts = [
        {"name": "source", "valueReference": {"reference": entry.reference}},
        _code("kind", entry.assertion.kind.value),
        *([] if entry.is_allergy else [_code("about", entry.assertion.about.value)]),
        _string("substance", entry.substance),
        *(_string("codedAs", name) for name in entry.coded_as),
        *(_string("sameClass", drug) for drug in entry.same_class),
        _code("type", entry.type),
        {"name": "severe", "valueBoolean": entry.is_severe},
        _code("severeBy", entry.severe_by),
        _string("whySevere", entry.why_severe),
        _string("worstReaction", entry.worst_reaction if entry.is_severe else ""),
        _string("describedAs", entry.severity.words),
        _code("clinicalStatus", entry.clinical_status),
        _code("verificationStatus", entry.verification_status),
        _code("criticality", entry.criticality),
        *(_code("category", category) for category in entry.categories),
        *(_reaction(reaction) for reaction in entry.reactions),
        _string("onset", entry.onset),
        _string("lastOccurrence", entry.last_occurrence),
        _string("recorded", entry.recorded),
        _reference("recorder", entry.recorder),
        _reference("asserter", entry.asserter),
        *(_string("comment", comment) for comment in entry.comments),
        *(_string("note", note) for note in (*entry.faults, *entry.missing)),
    ]
    return {"name": "entry", "part": [part for part in parts if len(part) > 1]}


def _reaction(reaction: ReactionWords) -> Part:
    parts = [
        _string("text", reaction.text or "not recorded"),
        _string("description", reaction.description),
        _code("severity", reaction.severity),
        _string("severityText", reaction.severity_text),
        _string("onset", reaction.onset),
    ]
    return {"name": "reaction", "part": [part for part in parts if len(part) > 1]}


def _reference(name: str, value: Resource) -> Part:
    return {"name": name, "valueReference": value} if value else {"name": name}


def _string(name: str, text: str) -> Part:
    return {"name": name, "valueString": text} if text else {"name": name}


def _code(name: str, code: str) -> Part:
    return {"name": name, "valueCode": code} if code else {"name": name}
