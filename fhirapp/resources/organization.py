"""Organization: who keeps or sends records. FHIR R4 organization."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.person import ADDRESS
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import SPECIAL_VALUES, Identifier, Token

Contact = datatypes.backbone(
    purpose=datatypes.CodeableConcept,
    name=datatypes.HumanName,
    telecom=many(datatypes.ContactPoint),
    address=datatypes.Address,
)


class OrganizationSchema(DomainResourceSchema):
    """Organization."""

    resource_type = "Organization"
    narrative = (("Name", "name", narrative.plain),)

    identifier = fields.List(fields.Identifier, summary=True)
    active = fields.Boolean(summary=True, modifier=True)
    type = fields.List(fields.CodeableConcept, summary=True)
    name = fields.String(summary=True)
    alias = fields.List(fields.String)
    telecom = fields.List(fields.ContactPoint)
    address = fields.List(fields.Address)
    part_of = fields.Reference(summary=True)
    contact = fields.List(Contact)
    endpoint = fields.List(fields.Reference)


# An import resolves conditional references by them.
PARAMS = Parameters(
    "Organization",
    *COMMON,
    Identifier("identifier", "identifier", "Identifier of the organization"),
    String("name", "name | alias", "Name or alias"),
    Phonetic("phonetic", "name", "Word of a name, by its sound"),
    *ADDRESS,
    Token("type", "type", "Kind of organization"),
    Token("active", "active", "Whether the record is in active use", system=SPECIAL_VALUES),
    Reference("partof", "partOf", "Organization that this one is part of", "Organization"),
    Reference("endpoint", "endpoint", "Technical endpoints", "Endpoint"),
)  # fmt: skip


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Organization",
        schema=OrganizationSchema(),
        table=versioned_table(OrganizationSchema),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-organization",),
        doc="Organizations: custodians and senders of records.",
        labels=Labels(
            singular=Marked("a clinic or hospital"),
            plural=Marked("clinics and hospitals"),
            scope=Marked("clinics and hospitals"),
        ),
        table_columns=(
            TableColumn(Marked("Name"), ("name",), Marked("name not recorded")),
            TableColumn(Marked("Type"), ("type",), Marked("type not recorded")),
            TableColumn(Marked("Place"), ("address.city",), Marked("place not recorded")),
            TableColumn(Marked("Identifier"), ("identifier",), Marked("identifier not recorded")),
        ),
    ),
)
