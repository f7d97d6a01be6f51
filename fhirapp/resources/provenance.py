"""Provenance: who made or sent a resource. FHIR R4 provenance; US Core Provenance."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

Agent = datatypes.backbone(
    required=("who",),
    summary=("type", "who"),
    type=datatypes.CodeableConcept,
    role=many(datatypes.CodeableConcept),
    who=datatypes.Reference,
    onBehalfOf=datatypes.Reference,
)
Entity = datatypes.backbone(
    required=("role", "what"),
    role=datatypes.one_of("derivation", "revision", "quotation", "source", "removal"),
    what=datatypes.Reference,
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

    target = fields.List(fields.Reference, required=True, summary=True)
    occurred_period = fields.Period(choice="occurred")
    occurred_date_time = fields.DateTime(choice="occurred")
    recorded = fields.Instant(required=True, summary=True)
    policy = fields.List(fields.Uri)
    location = fields.Reference()
    reason = fields.List(fields.CodeableConcept)
    activity = fields.CodeableConcept()
    agent = fields.List(Agent, required=True)
    entity = fields.List(Entity)
    signature = fields.List(fields.Signature)


PARAMS = Parameters(
    "Provenance",
    *COMMON,
    Reference("target", "target", "Target resources of the provenance"),
    # R4: target.where(resolve() is Patient), and not the patient of any other target.
    Reference("patient", "target", "Patient whose Patient resource is a target", "Patient"),
    Reference("agent", "agent.who", "Agent: who participated",
              "Practitioner | PractitionerRole | RelatedPerson | Patient | Device | Organization"),
    Token("agent-role", "agent.role", "Role of the participant"),
    Token("agent-type", "agent.type", "Role of the agent: author, transmitter …"),
    Date("recorded", "recorded", "When this was recorded"),
    Date("when", "occurredDateTime", "When the activity took place"),
    Reference("entity", "entity.what", "What the targets were made from"),
    Reference("location", "location", "Where the activity took place", "Location"),
    Token("signature-type", "signature.type", "Why the targets were signed"),
)  # fmt: skip


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Provenance",
        schema=ProvenanceSchema(),
        table=versioned_table(ProvenanceSchema),
        params=PARAMS,
        rank=2,
        searchable=True,
        visibility=Visibility.TARGETS,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-provenance",),
        doc="Who created or transmitted a resource.",
        labels=Labels(
            singular=Marked("a record of who made or sent a resource"),
            plural=Marked("records of who made or sent a resource"),
            scope=Marked("who recorded what, and when"),
        ),
        table_columns=(
            TableColumn(Marked("Target"), ("target",), Marked("target not recorded")),
            TableColumn(Marked("Activity"), ("activity",), Marked("activity not recorded")),
            TableColumn(Marked("Who"), ("agent.who",), Marked("agent not recorded")),
            TableColumn(Marked("Recorded"), ("recorded",), Marked("date not recorded")),
        ),
    ),
)
