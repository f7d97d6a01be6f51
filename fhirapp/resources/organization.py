"""Organization: who keeps or sends records. FHIR R4 organization."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import datatypes, narrative, terminology
from fhirapp.fhir.elements import boolean, many
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference as ReferenceParameter
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import SPECIAL_VALUES, Token

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

    identifier = Elements(datatypes.Identifier, summary=True)
    active = Element(boolean, summary=True, modifier=True)
    type = Elements(datatypes.CodeableConcept, summary=True)
    name = Element(datatypes.string, summary=True)
    alias = Elements(datatypes.string)
    telecom = Elements(datatypes.ContactPoint)
    address = Elements(datatypes.Address)
    part_of = Element(datatypes.Reference, summary=True)
    contact = Elements(Contact)
    endpoint = Elements(datatypes.Reference)


ORGANIZATION = "http://hl7.org/fhir/SearchParameter/Organization-"

# An import resolves conditional references by them.
PARAMS = Parameters(
    (
        *COMMON,
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the organization",
            ORGANIZATION + "identifier",
            of_identifier=True,
        ),
        String("name", ("name", "alias"), "Name or alias", ORGANIZATION + "name"),
        Phonetic("phonetic", ("name",), "Word of a name, by its sound", ORGANIZATION + "phonetic"),
        String("address", ("address",), "Any part of an address", ORGANIZATION + "address"),
        String("address-city", ("address.city",), "City", ORGANIZATION + "address-city"),
        String("address-state", ("address.state",), "State", ORGANIZATION + "address-state"),
        String(
            "address-postalcode",
            ("address.postalCode",),
            "Postal code",
            ORGANIZATION + "address-postalcode",
        ),
        String(
            "address-country", ("address.country",), "Country", ORGANIZATION + "address-country"
        ),
        Token(
            "address-use",
            ("address.use",),
            "home, work, temp, old or billing",
            ORGANIZATION + "address-use",
            system="http://hl7.org/fhir/address-use",
        ),
        Token("type", ("type",), "Kind of organization", ORGANIZATION + "type"),
        Token(
            "active",
            ("active",),
            "Whether the record is in active use",
            ORGANIZATION + "active",
            system=SPECIAL_VALUES,
        ),
        ReferenceParameter(
            "partof",
            ("partOf",),
            "Organization that this one is part of",
            ORGANIZATION + "partof",
            targets=("Organization",),
        ),
        ReferenceParameter(
            "endpoint",
            ("endpoint",),
            "Technical endpoints",
            ORGANIZATION + "endpoint",
            targets=("Endpoint",),
        ),
    )
)


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
