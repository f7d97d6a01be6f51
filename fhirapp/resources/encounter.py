"""Encounter: a visit or stay of a patient. FHIR R4 encounter."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.datatypes import (
    CodeableConcept,
    Coding,
    Period,
    backbone,
    one_of,
    positive,
)
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.date import Date
from fhirapp.search.parameter import CLINICAL, Parameters
from fhirapp.search.quantity import Duration
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference, Subject
from fhirapp.search.token import HL7, Identifier, Token

status = one_of(
    *("planned", "arrived", "triaged", "in-progress", "onleave", "finished", "cancelled"),
    *("entered-in-error", "unknown"),
)
StatusHistory = backbone(required=("status", "period"), status=status, period=Period)
ClassHistory = backbone(required=("class", "period"), class_=Coding, period=Period)
Participant = backbone(
    summary=("type", "individual"),
    type=many(CodeableConcept),
    period=Period,
    individual=datatypes.Reference,
)
Diagnosis = backbone(
    required=("condition",),
    summary=("condition",),
    condition=datatypes.Reference,
    use=CodeableConcept,
    rank=positive,
)
Hospitalization = backbone(
    preAdmissionIdentifier=datatypes.Identifier,
    origin=datatypes.Reference,
    admitSource=CodeableConcept,
    reAdmission=CodeableConcept,
    dietPreference=many(CodeableConcept),
    specialCourtesy=many(CodeableConcept),
    specialArrangement=many(CodeableConcept),
    destination=datatypes.Reference,
    dischargeDisposition=CodeableConcept,
)
Location = backbone(
    required=("location",),
    location=datatypes.Reference,
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

    identifier = fields.List(fields.Identifier, summary=True)
    status = fields.Element(status, required=True, summary=True, modifier=True)
    status_history = fields.List(StatusHistory, column=False)
    class_ = fields.Coding(required=True, summary=True)
    class_history = fields.List(ClassHistory, column=False)
    type = fields.List(fields.CodeableConcept, summary=True)
    service_type = fields.CodeableConcept(summary=True)
    priority = fields.CodeableConcept()
    subject = fields.Reference(summary=True)
    episode_of_care = fields.List(fields.Reference, summary=True)
    based_on = fields.List(fields.Reference, column=False)
    participant = fields.List(Participant, summary=True)
    appointment = fields.List(fields.Reference, summary=True)
    period = fields.Period()
    length = fields.Quantity()
    reason_code = fields.List(fields.CodeableConcept, summary=True)
    reason_reference = fields.List(fields.Reference, summary=True)
    diagnosis = fields.List(Diagnosis, summary=True)
    account = fields.List(fields.Reference)
    hospitalization = fields.Element(Hospitalization)
    location = fields.List(Location)
    service_provider = fields.Reference()
    part_of = fields.Reference()


# An import resolves conditional references by them.
PARAMS = Parameters(
    "Encounter",
    *COMMON,
    Subject("patient", "subject", "The patient of the encounter"),
    Subject("subject", "subject", "The patient or group present", "Patient | Group"),
    Date("date", "period", "When the encounter took place"),
    Duration("length", "length", "How long the encounter lasted"),
    Token("status", "status",
          "planned, arrived, triaged, in-progress, onleave, finished, cancelled …",
          system=HL7 + "encounter-status"),
    Token("class", "class", "Inpatient, outpatient, emergency …"),
    Token("type", "type", "Kind of encounter"),
    Identifier("identifier", "identifier", "Identifier of the encounter"),
    Token("discharge-disposition", "hospitalization.dischargeDisposition",
          "Where the patient was discharged to",
          spec=f"{terminology.US_CORE}SearchParameter/us-core-encounter-discharge-disposition"),
    Token("special-arrangement", "hospitalization.specialArrangement",
          "Wheelchair, translator, stretcher …"),
    Token("reason-code", "reasonCode", "Why it took place"),
    Reference("reason-reference", "reasonReference", "Condition or other record that is the reason",
              "Condition | Procedure | Observation | ImmunizationRecommendation"),
    Reference("diagnosis", "diagnosis.condition", "Diagnosis or procedure of the encounter",
              "Condition | Procedure"),
    Reference("location", "location.location", "Location of the encounter", "Location"),
    Date("location-period", "location.period", "Time during which the patient was at a location"),
    Reference("participant", "participant.individual", "Participant other than the patient",
              "Practitioner | PractitionerRole | RelatedPerson"),
    Reference("practitioner", "participant.individual", "Practitioner who participated",
              "Practitioner"),
    Token("participant-type", "participant.type", "Role of the participant"),
    Reference("service-provider", "serviceProvider", "Organization responsible for the encounter",
              "Organization"),
    Reference("part-of", "partOf", "Encounter that this one is part of", "Encounter"),
    Reference("episode-of-care", "episodeOfCare", "Episode of care that it belongs to",
              "EpisodeOfCare"),
    Reference("based-on", "basedOn", "Request that led to it", "ServiceRequest"),
    Reference("appointment", "appointment", "Appointment that led to it", "Appointment"),
    Reference("account", "account", "Account that it is billed to", "Account"),
    shared=CLINICAL,
)  # fmt: skip


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
