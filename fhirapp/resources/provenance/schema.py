"""The FHIR JSON of Provenance. Source: FHIR R4 provenance."""

from __future__ import annotations

from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    CodeableConcept,
    Period,
    Reference,
    Signature,
    backbone,
    date_time,
    instant,
    one_of,
    uri,
)
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

Agent = backbone(
    required=("who",),
    summary=("type", "who"),
    type=CodeableConcept,
    role=many(CodeableConcept),
    who=Reference,
    onBehalfOf=Reference,
)
Entity = backbone(
    required=("role", "what"),
    role=one_of("derivation", "revision", "quotation", "source", "removal"),
    what=Reference,
    agent=many(Agent),
)


class ProvenanceSchema(DomainResourceSchema):
    """Provenance."""

    resource_type = "Provenance"
    narrative = (
        ("Target", "target", narrative.references),
        ("Recorded", "recorded", narrative.plain),
        ("Agent", "agent", narrative.agents),
    )

    target = Elements(Reference, required=True, summary=True)
    occurred_period = Element(Period, choice="occurred")
    occurred_date_time = Element(date_time, choice="occurred")
    recorded = Element(instant, required=True, summary=True)
    policy = Elements(uri)
    location = Element(Reference)
    reason = Elements(CodeableConcept)
    activity = Element(CodeableConcept)
    agent = Elements(Agent, required=True)
    entity = Elements(Entity)
    signature = Elements(Signature)
