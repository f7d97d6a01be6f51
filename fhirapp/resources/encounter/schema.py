"""The FHIR JSON of Encounter. Source: FHIR R4 encounter."""

from __future__ import annotations

from fhirapp.fhir import narrative
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
    status_history = Elements(StatusHistory)
    class_ = Element(Coding, required=True, summary=True)
    class_history = Elements(ClassHistory)
    type = Elements(CodeableConcept, summary=True)
    service_type = Element(CodeableConcept, summary=True)
    priority = Element(CodeableConcept)
    subject = Element(Reference, summary=True)
    episode_of_care = Elements(Reference, summary=True)
    based_on = Elements(Reference)
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
