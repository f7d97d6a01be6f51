"""Practitioner: who wrote or recorded. FHIR R4 practitioner."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, narrative, terminology
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements
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

    identifier = Elements(datatypes.Identifier, summary=True)
    active = Element(boolean, summary=True)
    name = Elements(datatypes.HumanName, summary=True)
    telecom = Elements(datatypes.ContactPoint, summary=True)
    address = Elements(datatypes.Address, summary=True)
    gender = Element(datatypes.one_of("male", "female", "other", "unknown"), summary=True)
    birth_date = Element(datatypes.date, summary=True)
    photo = Elements(datatypes.Attachment)
    qualification = Elements(Qualification)
    communication = Elements(datatypes.CodeableConcept)


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
