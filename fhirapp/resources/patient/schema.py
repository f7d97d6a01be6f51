"""The FHIR JSON of Patient. Source: FHIR R4 patient."""

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
    date_time,
    integer,
    one_of,
)
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

gender = one_of("male", "female", "other", "unknown")

Contact = backbone(
    relationship=many(CodeableConcept),
    name=HumanName,
    telecom=many(ContactPoint),
    address=Address,
    gender=gender,
    organization=Reference,
    period=Period,
)
Communication = backbone(required=("language",), language=CodeableConcept, preferred=boolean)
Link = backbone(
    required=("other", "type"),
    other=Reference,
    type=one_of("replaced-by", "replaces", "refer", "seealso"),
)


class PatientSchema(DomainResourceSchema):
    """Patient."""

    resource_type = "Patient"
    narrative = (
        ("Name", "name", narrative.names),
        ("Gender", "gender", narrative.plain),
        ("Born", "birthDate", narrative.plain),
    )

    identifier = Elements(Identifier, summary=True)
    active = Element(boolean, summary=True, modifier=True)
    name = Elements(HumanName, summary=True)
    telecom = Elements(ContactPoint, summary=True)
    gender = Element(gender, summary=True)
    birth_date = Element(date, summary=True)
    deceased_boolean = Element(boolean, choice="deceased", summary=True, modifier=True)
    deceased_date_time = Element(date_time, choice="deceased", summary=True, modifier=True)
    address = Elements(Address, summary=True)
    marital_status = Element(CodeableConcept)
    multiple_birth_boolean = Element(boolean, choice="multipleBirth")
    multiple_birth_integer = Element(integer, choice="multipleBirth")
    photo = Elements(Attachment)
    contact = Elements(Contact)
    communication = Elements(Communication)
    general_practitioner = Elements(Reference)
    managing_organization = Element(Reference, summary=True)
    link = Elements(Link, summary=True, modifier=True)
