"""The FHIR JSON of Practitioner. Source: FHIR R4 practitioner."""

from __future__ import annotations

from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    Address,
    Attachment,
    CodeableConcept,
    ContactPoint,
    HumanName,
    Identifier,
    Period,
    Reference,
    backbone,
    date,
    one_of,
)
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

Qualification = backbone(
    required=("code",),
    identifier=many(Identifier),
    code=CodeableConcept,
    period=Period,
    issuer=Reference,
)


class PractitionerSchema(DomainResourceSchema):
    """Practitioner."""

    resource_type = "Practitioner"
    narrative = (("Name", "name", narrative.names),)

    identifier = Elements(Identifier, summary=True)
    active = Element(boolean, summary=True)
    name = Elements(HumanName, summary=True)
    telecom = Elements(ContactPoint, summary=True)
    address = Elements(Address, summary=True)
    gender = Element(one_of("male", "female", "other", "unknown"), summary=True)
    birth_date = Element(date, summary=True)
    photo = Elements(Attachment)
    qualification = Elements(Qualification)
    communication = Elements(CodeableConcept)
