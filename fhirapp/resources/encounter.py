"""Encounter: a visit or stay of a patient. FHIR R4 encounter."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import narrative, terminology
from fhirapp.fhir.datatypes import (
    CodeableConcept,
    Coding,
    Identifier,
    Period,
    Quantity,
    Reference,
    backbone,
    one_of,
    positive,
)
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.quantity import Duration
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference as ReferenceParameter
from fhirapp.search.token import Token

status = one_of(
    "planned",
    "arrived",
    "triaged",
    "in-progress",
    "onleave",
    "finished",
    "cancelled",
    "entered-in-error",
    "unknown",
)
StatusHistory = backbone(required=("status", "period"), status=status, period=Period)
ClassHistory = backbone(required=("class", "period"), class_=Coding, period=Period)
Participant = backbone(
    summary=("type", "individual"), type=many(CodeableConcept), period=Period, individual=Reference
)
Diagnosis = backbone(
    required=("condition",),
    summary=("condition",),
    condition=Reference,
    use=CodeableConcept,
    rank=positive,
)
Hospitalization = backbone(
    preAdmissionIdentifier=Identifier,
    origin=Reference,
    admitSource=CodeableConcept,
    reAdmission=CodeableConcept,
    dietPreference=many(CodeableConcept),
    specialCourtesy=many(CodeableConcept),
    specialArrangement=many(CodeableConcept),
    destination=Reference,
    dischargeDisposition=CodeableConcept,
)
Location = backbone(
    required=("location",),
    location=Reference,
    status=one_of("planned", "active", "reserved", "completed"),
    physicalType=CodeableConcept,
    period=Period,
)


class EncounterSchema(DomainResourceSchema):
    """Encounter."""

    resource_type = "Encounter"
    narrative = (
        ("Encounter", "type", narrative.concepts),
        ("Status", "status", narrative.plain),
        ("Period", "period", narrative.period),
    )

    identifier = Elements(Identifier, summary=True)
    status = Element(status, required=True, summary=True, modifier=True)
    status_history = Elements(StatusHistory, column=False)
    class_ = Element(Coding, required=True, summary=True)
    class_history = Elements(ClassHistory, column=False)
    type = Elements(CodeableConcept, summary=True)
    service_type = Element(CodeableConcept, summary=True)
    priority = Element(CodeableConcept)
    subject = Element(Reference, summary=True)
    episode_of_care = Elements(Reference, summary=True)
    based_on = Elements(Reference, column=False)
    participant = Elements(Participant, summary=True)
    appointment = Elements(Reference, summary=True)
    period = Element(Period)
    length = Element(Quantity)
    reason_code = Elements(CodeableConcept, summary=True)
    reason_reference = Elements(Reference, summary=True)
    diagnosis = Elements(Diagnosis, summary=True)
    account = Elements(Reference)
    hospitalization = Element(Hospitalization)
    location = Elements(Location)
    service_provider = Element(Reference)
    part_of = Element(Reference)


SPEC = "http://hl7.org/fhir/SearchParameter/"
ENCOUNTER = SPEC + "Encounter-"
CLINICAL = SPEC + "clinical-"

# An import resolves conditional references by them.
PARAMS = Parameters(
    (
        *COMMON,
        ReferenceParameter(
            "patient",
            ("subject",),
            "The patient of the encounter",
            CLINICAL + "patient",
            targets=("Patient",),
            compartment=True,
        ),
        ReferenceParameter(
            "subject",
            ("subject",),
            "The patient or group present",
            ENCOUNTER + "subject",
            targets=("Patient", "Group"),
            compartment=True,
        ),
        Date("date", ("period",), "When the encounter took place", CLINICAL + "date"),
        Duration("length", ("length",), "How long the encounter lasted", ENCOUNTER + "length"),
        Token(
            "status",
            ("status",),
            "planned, arrived, triaged, in-progress, onleave, finished, cancelled …",
            ENCOUNTER + "status",
            system="http://hl7.org/fhir/encounter-status",
        ),
        Token("class", ("class",), "Inpatient, outpatient, emergency …", ENCOUNTER + "class"),
        Token("type", ("type",), "Kind of encounter", CLINICAL + "type"),
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the encounter",
            CLINICAL + "identifier",
            of_identifier=True,
        ),
        Token(
            "discharge-disposition",
            ("hospitalization.dischargeDisposition",),
            "Where the patient was discharged to",
            "http://hl7.org/fhir/us/core/SearchParameter/us-core-encounter-discharge-disposition",
        ),
        Token(
            "special-arrangement",
            ("hospitalization.specialArrangement",),
            "Wheelchair, translator, stretcher …",
            ENCOUNTER + "special-arrangement",
        ),
        Token("reason-code", ("reasonCode",), "Why it took place", ENCOUNTER + "reason-code"),
        ReferenceParameter(
            "reason-reference",
            ("reasonReference",),
            "Condition or other record that is the reason",
            ENCOUNTER + "reason-reference",
            targets=("Condition", "Procedure", "Observation", "ImmunizationRecommendation"),
        ),
        ReferenceParameter(
            "diagnosis",
            ("diagnosis.condition",),
            "Diagnosis or procedure of the encounter",
            ENCOUNTER + "diagnosis",
            targets=("Condition", "Procedure"),
        ),
        ReferenceParameter(
            "location",
            ("location.location",),
            "Location of the encounter",
            ENCOUNTER + "location",
            targets=("Location",),
        ),
        Date(
            "location-period",
            ("location.period",),
            "Time during which the patient was at a location",
            ENCOUNTER + "location-period",
        ),
        ReferenceParameter(
            "participant",
            ("participant.individual",),
            "Participant other than the patient",
            ENCOUNTER + "participant",
            targets=("Practitioner", "PractitionerRole", "RelatedPerson"),
        ),
        ReferenceParameter(
            "practitioner",
            ("participant.individual",),
            "Practitioner who participated",
            ENCOUNTER + "practitioner",
            targets=("Practitioner",),
        ),
        Token(
            "participant-type",
            ("participant.type",),
            "Role of the participant",
            ENCOUNTER + "participant-type",
        ),
        ReferenceParameter(
            "service-provider",
            ("serviceProvider",),
            "Organization responsible for the encounter",
            ENCOUNTER + "service-provider",
            targets=("Organization",),
        ),
        ReferenceParameter(
            "part-of",
            ("partOf",),
            "Encounter that this one is part of",
            ENCOUNTER + "part-of",
            targets=("Encounter",),
        ),
        ReferenceParameter(
            "episode-of-care",
            ("episodeOfCare",),
            "Episode of care that it belongs to",
            ENCOUNTER + "episode-of-care",
            targets=("EpisodeOfCare",),
        ),
        ReferenceParameter(
            "based-on",
            ("basedOn",),
            "Request that led to it",
            ENCOUNTER + "based-on",
            targets=("ServiceRequest",),
        ),
        ReferenceParameter(
            "appointment",
            ("appointment",),
            "Appointment that led to it",
            ENCOUNTER + "appointment",
            targets=("Appointment",),
        ),
        ReferenceParameter(
            "account",
            ("account",),
            "Account that it is billed to",
            ENCOUNTER + "account",
            targets=("Account",),
        ),
    )
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Encounter",
        schema=EncounterSchema(),
        table=versioned_table(EncounterSchema),
        params=PARAMS,
        compartment="subject",
        searchable=True,
        combinations=(
            "class+patient",
            "date+patient",
            "patient+_lastUpdated",
            "patient+discharge-disposition",
            "patient+location",
            "patient+status",
            "patient+type",
        ),
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-encounter",),
        care=("date",),
        doc="Visits and stays of a patient.",
        labels=Labels(
            singular=Marked("a visit"),
            plural=Marked("visits"),
            scope=Marked("visits"),
        ),
        table_columns=(
            TableColumn(Marked("Patient"), ("subject",), Marked("patient not recorded")),
            TableColumn(Marked("Time"), ("period",), Marked("time not recorded")),
            TableColumn(Marked("Type"), ("type", "class"), Marked("type not recorded")),
            TableColumn(Marked("Status"), ("status",), Marked("status not recorded")),
            TableColumn(Marked("Reason"), ("reasonCode",), Marked("reason not recorded")),
            TableColumn(Marked("Provider"), ("serviceProvider",), Marked("provider not recorded")),
        ),
    ),
)
