"""The FHIR JSON of Patient. Source: FHIR R4 patient."""

from __future__ import annotations

from fhirapp.fhir import datatypes, fields, narrative
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema

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

    identifier = fields.List(fields.Identifier, summary=True)
    active = fields.Boolean(summary=True, modifier=True)
    name = fields.List(fields.HumanName, summary=True)
    telecom = fields.List(fields.ContactPoint, summary=True)
    gender = fields.Element(gender, summary=True)
    birth_date = fields.Date(summary=True)
    deceased_boolean = fields.Boolean(choice="deceased", summary=True, modifier=True)
    deceased_date_time = fields.DateTime(choice="deceased", summary=True, modifier=True)
    address = fields.List(fields.Address, summary=True)
    marital_status = fields.CodeableConcept()
    multiple_birth_boolean = fields.Boolean(choice="multipleBirth")
    multiple_birth_integer = fields.Integer(choice="multipleBirth")
    photo = fields.List(fields.Attachment)
    contact = fields.List(Contact)
    communication = fields.List(Communication)
    general_practitioner = fields.List(fields.Reference)
    managing_organization = fields.Reference(summary=True)
    link = fields.List(Link, summary=True, modifier=True)
