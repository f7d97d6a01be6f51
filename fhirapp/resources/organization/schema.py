"""The FHIR JSON of Organization. Source: FHIR R4 organization."""

from __future__ import annotations

from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    Address,
    CodeableConcept,
    ContactPoint,
    HumanName,
    Identifier,
    Reference,
    backbone,
    string,
)
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

Contact = backbone(
    purpose=CodeableConcept, name=HumanName, telecom=many(ContactPoint), address=Address
)


class OrganizationSchema(DomainResourceSchema):
    """Organization."""

    resource_type = "Organization"
    narrative = (("Name", "name", narrative.plain),)

    identifier = Elements(Identifier, summary=True)
    active = Element(boolean, summary=True, modifier=True)
    type = Elements(CodeableConcept, summary=True)
    name = Element(string, summary=True)
    alias = Elements(string)
    telecom = Elements(ContactPoint)
    address = Elements(Address)
    part_of = Element(Reference, summary=True)
    contact = Elements(Contact)
    endpoint = Elements(Reference)
