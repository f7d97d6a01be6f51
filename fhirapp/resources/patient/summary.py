"""`$summary`: a patient's International Patient Summary, a document to take along. IPS 2.0.0.

The allergies are all in it, save those that were entered in error. Medications and problems, which
IPS requires, are not held here: their sections say so, and that this does not mean that there are
none. A summary without some of the allergies would look whole, so a token that may not read each of
them is refused.

No profile is claimed: IPS requires of a record what its source may have left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from flask import Response

from fhirapp import config, urls
from fhirapp.auth.protector import insufficient_scope
from fhirapp.auth.scopes import Access
from fhirapp.clinical.assertion import SECTION
from fhirapp.clinical.narrative import section
from fhirapp.clinical.summary import entries_of
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Operation, OperationParameter, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import temporal, words
from fhirapp.fhir.identity import RFC_3986
from fhirapp.fhir.json import Entry, bundle
from fhirapp.fhir.narrative import generated, written
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.fhir.terminology import LOINC
from fhirapp.fhir.words import worded
from fhirapp.resources.patient.operations import resources_beside
from fhirapp.rest.access import Reach, check_not_merged, reach_of, require
from fhirapp.rest.capability import software_version
from fhirapp.rest.operation import RequestParameters, parse_operation
from fhirapp.rest.paging import Match
from fhirapp.rest.read import find_version
from fhirapp.rest.recorder import note_all_served
from fhirapp.rest.response import fhir_address, negotiate, respond, with_addresses
from fhirapp.search.page import COLUMNS, NEWEST_FIRST, find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import select
from fhirapp.search.token import Token
from fhirapp.search.values import Condition, unescape
from fhirapp.store.merge import merged_among

_IPS = "http://hl7.org/fhir/uv/ips/"
# Of IPS 2.0.0 and of 1.1.0.
_PROFILES = tuple(f"{_IPS}StructureDefinition/{name}-uv-ips" for name in ("Composition", "Bundle"))
_DOC = (
    "The patient's International Patient Summary, a document: allergies; of medications and"
    " problems, that they are not held here."
)
_PROFILE = OperationParameter("profile", "uri", "Profile of the document: that of IPS, the default")
_IDENTIFIER = OperationParameter(
    "identifier", "string", "Identifier of the patient: system|value", required=True
)
SUMMARY = Operation(
    "summary",
    f"{_IPS}OperationDefinition/summary",
    _DOC,
    (_PROFILE,),
    instance=True,
    answer="DocumentBundle",
    is_paged=False,
)
SUMMARY_BY_IDENTIFIER = SUMMARY._replace(
    parameters=(_IDENTIFIER, _PROFILE), instance=False, needs_record=True
)
_ALLERGIES = "AllergyIntolerance"
_BESIDE = ("Practitioner", "Organization")
_UNAVAILABLE = {
    "system": "http://terminology.hl7.org/CodeSystem/list-empty-reason",
    "code": "unavailable",
    "display": "Unavailable",
}
# So many patients with one identifier are looked at.
_FOUND = 10

Resource = Mapping[str, Any]


def summary(definition: Definition, resource_id: str = "") -> Response:
    """Return the summary as a document Bundle. Raises FhirError."""
    reach = require(definition, "r", resource_id or None)
    access = reach.access
    operation = parse_operation(SUMMARY if resource_id else SUMMARY_BY_IDENTIFIER)
    layout = negotiate(operation.parameters)
    profile = unescape(operation.value("profile") or _PROFILES[0])
    if profile.partition("|")[0] not in _PROFILES:
        raise InvalidParameter("profile", f"is not supported; use {_PROFILES[0]}")
    if not resource_id:
        searched = require(definition, "s")
    grants = [grant for grant in access.grants(_ALLERGIES, "r") if not grant.filters]
    if not grants:
        raise _incomplete()
    snapshot = reader()
    if not resource_id:
        resource_id = _identified(snapshot, searched, operation)
    version = find_version(snapshot, reach, resource_id)
    if version is None:
        raise NotFound(f"Patient/{resource_id} is not known here.")
    if version.deleted or version.body is None:
        raise Gone(f"Patient/{resource_id} was deleted.")
    if not any(grant.patient in (None, resource_id) for grant in grants):
        raise _incomplete()
    check_not_merged(
        snapshot, resource_id, "id" if operation.value("identifier") is None else "identifier"
    )
    patient = fhir_json.loads(version.body)
    allergies = _allergies(snapshot, access, resource_id)
    listed, text = section(patient, entries_of(fhir_json.loads(match.body) for match in allergies))
    named = {f"{_ALLERGIES}/{match.id}": match for match in allergies}
    own = Match(
        *(definition.name, version.id, version.version_id, version.last_updated, version.pk),
        *(version.body, version.patient_id),
    )
    page = [own, *(named[entry.reference] for entry in listed)]
    # What is beyond the most that comes with a page is read at its address.
    beside = resources_beside(snapshot, access, page, _BESIDE).resources
    shown = [*page, *beside]
    sections = _sections(text, [entry.reference for entry in listed])
    key = repr((sections, [row[:3] for row in shown], config.settings().inline_max))
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    for resource in shown:
        note_all_served(resource.type, [resource])
    return respond(_document(resource_id, sections, shown), layout, etag=f'W/"{digest}"')


def _incomplete() -> Exception:
    return insufficient_scope(
        "A summary has every allergy: the token's scope does not cover all of the patient's.",
        f"system/{_ALLERGIES}.r",
    )


def _identified(snapshot: Reader, reach: Reach, operation: RequestParameters) -> str:
    """Return the id of the one patient with an identifier. Raises NotFound, InvalidParameter.

    Of merged records, the surviving one.
    """
    definition, (value,) = reach.definition, operation.values["identifier"]
    parameter = definition.params.by_name["identifier"]
    assert isinstance(parameter, Token)
    if not parameter.parse(value)[0]:
        raise InvalidParameter("identifier", "has no value; use system|value")
    sought = parameter.condition("", value, Context(definition.tables, urls.base_url()))
    conditions = reach.limit([sought])
    selection = select(definition.sql_table, conditions, snapshot.all)
    rows = find_page(snapshot.all, selection, NEWEST_FIRST, None, _FOUND)
    ids = [str(row[0]) for row in rows]
    merged = merged_among(snapshot, ids)
    staying = [patient_id for patient_id in ids if merged.get(patient_id) not in ids]
    if not staying:
        raise NotFound("No patient with this identifier is known here.")
    if len(staying) > 1:
        message = "several patients have it; ask for one of them: Patient/<id>/$summary"
        raise InvalidParameter("identifier", message)
    return staying[0]


def _allergies(snapshot: Reader, access: Access, patient_id: str) -> list[Match]:
    """Return all the patient's allergies, whatever their status."""
    definition = types()[_ALLERGIES]
    own = Condition("r.patient_id = ?", (patient_id,), narrows=True)
    conditions = reach_of(definition, access, "r").limit([own])
    selection = select(definition.sql_table, conditions, snapshot.all).of_all()
    rows = snapshot.all(
        f"SELECT {', '.join(f'r.{name}' for name in COLUMNS)} FROM {selection.table} r"
        f" WHERE {selection.current}",
        selection.values,
    )
    return [Match.of(definition, row) for row in rows]


def _sections(allergies: str, references: Sequence[str]) -> list[Resource]:
    """Return the sections that IPS requires; allergies is the XHTML of theirs."""
    return [
        _section(worded("Allergies and intolerances"), SECTION, allergies, references),
        _section(
            worded("Medications"),
            {"code": "10160-0", "display": "History of Medication use Narrative"},
            _paragraph(
                worded(
                    "Medications are not held on this server. This does not mean that the patient"
                    " takes none."
                )
            ),
        ),
        _section(
            worded("Problems"),
            {"code": "11450-4", "display": "Problem list - Reported"},
            _paragraph(
                worded(
                    "Problems and diagnoses are not held on this server. This does not mean that"
                    " the patient has none."
                )
            ),
        ),
    ]


def _paragraph(text: str) -> str:
    return f"<p>{written(text)}</p>"


def _section(
    title: str, code: Mapping[str, str], text: str, references: Sequence[str] = ()
) -> Resource:
    """Return a section; without references it says why it is empty: not that there is none."""
    content: dict[str, Any] = {
        "title": title,
        "code": {"coding": [{"system": LOINC, **code}]},
        "text": generated(text, words.language()),
    }
    if references:
        return content | {"entry": [{"reference": fhir_address(ref)} for ref in references]}
    return content | {"emptyReason": {"coding": [_UNAVAILABLE]}}


def _document(patient_id: str, sections: Sequence[Resource], shown: Sequence[Match]) -> bytes:
    """Return the document, made anew: R4 bundle bdl-9 to bdl-11, each with its own identifier."""
    document, composition, device = (str(uuid4()) for _ in range(3))
    now = temporal.instant(temporal.now())
    head = {
        "resourceType": "Composition",
        "id": composition,
        "language": words.language(),
        "status": "final",
        "type": {
            "coding": [{"system": LOINC, "code": "60591-5", "display": "Patient summary Document"}]
        },
        "subject": {"reference": fhir_address(f"Patient/{patient_id}")},
        "date": now,
        "author": [{"reference": f"urn:uuid:{device}", "display": "fhirapp"}],
        "title": worded("International Patient Summary"),
        "section": sections,
    }
    author = {
        "resourceType": "Device",
        "id": device,
        "deviceName": [{"name": "fhirapp", "type": "user-friendly-name"}],
        "version": [{"value": software_version()}],
    }
    entries = [
        Entry(f"urn:uuid:{composition}", fhir_json.dumps_indented(head), b""),
        *(
            Entry(
                fhir_address(f"{resource.type}/{resource.id}"),
                with_addresses(resource.body, types()[resource.type].attachments),
                b"",
            )
            for resource in shown
        ),
        Entry(f"urn:uuid:{device}", fhir_json.dumps_indented(author), b""),
    ]
    identifier = {"system": RFC_3986, "value": f"urn:uuid:{document}"}
    return bundle(document, "document", None, (), entries, identifier=identifier, timestamp=now)
