"""RelatedPerson: people who are related to a patient and are not staff. FHIR R4 relatedperson."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.elements import boolean
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.person import BIRTHDATE, INDIVIDUAL, person
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Subject
from fhirapp.search.token import Token

Communication = datatypes.backbone(
    required=("language",), language=datatypes.CodeableConcept, preferred=boolean
)


class RelatedPersonSchema(DomainResourceSchema):
    """RelatedPerson."""

    resource_type = "RelatedPerson"
    narrative = (
        ("Name", "name", narrative.names),
        ("Relationship", "relationship", narrative.concepts),
        ("Patient", "patient", narrative.reference),
    )

    identifier = fields.List(fields.Identifier, summary=True)
    active = fields.Boolean(summary=True, modifier=True)
    patient = fields.Reference(required=True, summary=True)
    relationship = fields.List(fields.CodeableConcept, summary=True)
    name = fields.List(fields.HumanName, summary=True)
    telecom = fields.List(fields.ContactPoint, summary=True)
    gender = fields.Code("male", "female", "other", "unknown", summary=True)
    birth_date = fields.Date(summary=True)
    address = fields.List(fields.Address, summary=True)
    photo = fields.List(fields.Attachment)
    period = fields.Period()
    communication = fields.List(Communication)


# An import resolves conditional references by them.
PARAMS = Parameters(
    "RelatedPerson",
    *COMMON,
    Subject("patient", "patient", "The patient whom the person is related to"),
    Token("relationship", "relationship", "What the person is to the patient"),
    *person("the related person", BIRTHDATE),
    shared=INDIVIDUAL,
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="RelatedPerson",
        schema=RelatedPersonSchema(),
        table=versioned_table(RelatedPersonSchema),
        params=PARAMS,
        compartment="patient",
        searchable=True,
        combinations=("patient+name",),
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-relatedperson",),
        doc="Related persons: parents, carers and others who are close to a patient.",
        labels=Labels(
            singular=Marked("a related person"),
            plural=Marked("related persons"),
            scope=Marked("names, contact details and dates of birth of related persons"),
        ),
        table_columns=(
            TableColumn(Marked("Patient"), ("patient",), Marked("patient not recorded")),
            TableColumn(Marked("Name"), ("name",), Marked("name not recorded")),
            TableColumn(
                Marked("Relationship"), ("relationship",), Marked("relationship not recorded")
            ),
            TableColumn(Marked("Active"), ("active",), Marked("not recorded")),
        ),
    ),
)
