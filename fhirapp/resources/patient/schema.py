"""The FHIR JSON of Patient. Source: FHIR R4 patient."""

from __future__ import annotations

from fhirapp.fhir import datatypes, narrative
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

gender = datatypes.one_of("male", "female", "other", "unknown")

Contact = datatypes.backbone(
    relationship=many(datatypes.CodeableConcept),
    name=datatypes.HumanName,
    telecom=many(datatypes.ContactPoint),
    address=datatypes.Address,
    gender=gender,
    organization=datatypes.Reference,
    period=datatypes.Period,
)
Communication = datatypes.backbone(
    required=("language",), language=datatypes.CodeableConcept, preferred=boolean
)
Link = datatypes.backbone(
    required=("other", "type"),
    other=datatypes.Reference,
    type=datatypes.one_of("replaced-by", "replaces", "refer", "seealso"),
)


class PatientSchema(DomainResourceSchema):
    """Patient."""

    resource_type = "Patient"
    narrative = (
        ("Name", "name", narrative.names),
        ("Gender", "gender", narrative.plain),
        ("Born", "birthDate", narrative.plain),
    )

    identifier = Elements(datatypes.Identifier, summary=True)
    active = Element(boolean, summary=True, modifier=True)
    name = Elements(datatypes.HumanName, summary=True)
    telecom = Elements(datatypes.ContactPoint, summary=True)
    gender = Element(gender, summary=True)
    birth_date = Element(datatypes.date, summary=True)
    deceased_boolean = Element(boolean, choice="deceased", summary=True, modifier=True)
    deceased_date_time = Element(
        datatypes.date_time, choice="deceased", summary=True, modifier=True
    )
    address = Elements(datatypes.Address, summary=True)
    marital_status = Element(datatypes.CodeableConcept)
    multiple_birth_boolean = Element(boolean, choice="multipleBirth")
    multiple_birth_integer = Element(datatypes.integer, choice="multipleBirth")
    photo = Elements(datatypes.Attachment)
    contact = Elements(Contact)
    communication = Elements(Communication)
    general_practitioner = Elements(datatypes.Reference)
    managing_organization = Element(datatypes.Reference, summary=True)
    link = Elements(Link, summary=True, modifier=True)
