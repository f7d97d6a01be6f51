"""Practitioner: who wrote or recorded. FHIR R4 practitioner."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.person import INDIVIDUAL, NAMES, person
from fhirapp.search.query import COMMON
from fhirapp.search.token import Token

Qualification = datatypes.backbone(
    required=("code",),
    identifier=many(datatypes.Identifier),
    code=datatypes.CodeableConcept,
    period=datatypes.Period,
    issuer=datatypes.Reference,
)


class PractitionerSchema(DomainResourceSchema):
    """Practitioner."""

    resource_type = "Practitioner"
    narrative = (("Name", "name", narrative.names),)

    identifier = fields.List(fields.Identifier, summary=True)
    active = fields.Boolean(summary=True)
    name = fields.List(fields.HumanName, summary=True)
    telecom = fields.List(fields.ContactPoint, summary=True)
    address = fields.List(fields.Address, summary=True)
    gender = fields.Code("male", "female", "other", "unknown", summary=True)
    birth_date = fields.Date(summary=True)
    photo = fields.List(fields.Attachment)
    qualification = fields.List(Qualification)
    communication = fields.List(fields.CodeableConcept)


# An import resolves conditional references by them.
PARAMS = Parameters(
    "Practitioner",
    *COMMON,
    *person("the practitioner", *NAMES),
    Token("communication", "communication", "Language that the practitioner can use with patients"),
    shared=INDIVIDUAL,
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Practitioner",
        schema=PractitionerSchema(),
        table=versioned_table(PractitionerSchema),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-practitioner",),
        doc="Practitioners: authors and recorders.",
        labels=Labels(
            singular=Marked("a clinician"),
            plural=Marked("clinicians"),
            scope=Marked("names of clinicians"),
        ),
        table_columns=(
            TableColumn(Marked("Name"), ("name",), Marked("name not recorded")),
            TableColumn(
                Marked("Qualification"),
                ("qualification.code",),
                Marked("qualification not recorded"),
            ),
            TableColumn(Marked("Identifier"), ("identifier",), Marked("identifier not recorded")),
            TableColumn(Marked("Active"), ("active",), Marked("not recorded")),
        ),
    ),
)
