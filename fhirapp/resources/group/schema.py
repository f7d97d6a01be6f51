"""The FHIR JSON of Group. Source: FHIR R4 group."""

from __future__ import annotations

from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    CodeableConcept,
    Identifier,
    Period,
    Quantity,
    Range,
    Reference,
    backbone,
    one_of,
    string,
    unsigned,
)
from fhirapp.fhir.elements import boolean, choice
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

kind = one_of("person", "animal", "practitioner", "device", "medication", "substance")

Characteristic = backbone(
    required=("code", "exclude"),
    choices=("value",),
    summary=None,
    code=CodeableConcept,
    **choice(
        "value",
        CodeableConcept=CodeableConcept,
        Boolean=boolean,
        Quantity=Quantity,
        Range=Range,
        Reference=Reference,
    ),
    exclude=boolean,
    period=Period,
)
Member = backbone(required=("entity",), entity=Reference, period=Period, inactive=boolean)


class GroupSchema(DomainResourceSchema):
    """Group."""

    resource_type = "Group"
    narrative = (("Name", "name", narrative.plain), ("Type", "type", narrative.plain))

    identifier = Elements(Identifier, summary=True)
    active = Element(boolean, summary=True)
    type = Element(kind, required=True, summary=True)
    actual = Element(boolean, required=True, summary=True)
    code = Element(CodeableConcept, summary=True)
    name = Element(string, summary=True)
    quantity = Element(unsigned, summary=True)
    managing_entity = Element(Reference, summary=True)
    characteristic = Elements(Characteristic)
    member = Elements(Member)
