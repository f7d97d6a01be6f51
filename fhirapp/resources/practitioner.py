"""Practitioner: who wrote or recorded. FHIR R4 practitioner."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.config import Marked
from fhirapp.db import DomainVersioned
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir import narrative, terminology
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
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import SPECIAL_VALUES, ContactToken, Token


class Practitioner(DomainVersioned):
    """A practitioner, a row for each version."""

    __tablename__ = "practitioner"

    identifier: Mapped[Any | None]
    active: Mapped[bool | None]
    name: Mapped[Any | None]
    telecom: Mapped[Any | None]
    address: Mapped[Any | None]
    gender: Mapped[str | None]
    birth_date: Mapped[str | None]
    photo: Mapped[Any | None]
    qualification: Mapped[Any | None]
    communication: Mapped[Any | None]


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


SPEC = "http://hl7.org/fhir/SearchParameter/"
PRACTITIONER = SPEC + "Practitioner-"
INDIVIDUAL = SPEC + "individual-"

# An import resolves conditional references by them.
PARAMS = Parameters(
    (
        *COMMON,
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the practitioner",
            PRACTITIONER + "identifier",
            of_identifier=True,
        ),
        String("name", ("name",), "Any part of a name", PRACTITIONER + "name"),
        String("family", ("name.family",), "Family name", INDIVIDUAL + "family"),
        String("given", ("name.given",), "Given name", INDIVIDUAL + "given"),
        Phonetic("phonetic", ("name",), "Word of a name, by its sound", INDIVIDUAL + "phonetic"),
        Token(
            "gender",
            ("gender",),
            "male, female, other or unknown",
            INDIVIDUAL + "gender",
            system="http://hl7.org/fhir/administrative-gender",
        ),
        Token(
            "active",
            ("active",),
            "Whether the record is in active use",
            PRACTITIONER + "active",
            system=SPECIAL_VALUES,
        ),
        Token("telecom", ("telecom",), "Phone number, e-mail address …", INDIVIDUAL + "telecom"),
        ContactToken("email", (), "E-mail address", INDIVIDUAL + "email", system="email"),
        ContactToken("phone", (), "Phone number", INDIVIDUAL + "phone", system="phone"),
        String("address", ("address",), "Any part of an address", INDIVIDUAL + "address"),
        String("address-city", ("address.city",), "City", INDIVIDUAL + "address-city"),
        String("address-state", ("address.state",), "State", INDIVIDUAL + "address-state"),
        String(
            "address-postalcode",
            ("address.postalCode",),
            "Postal code",
            INDIVIDUAL + "address-postalcode",
        ),
        String("address-country", ("address.country",), "Country", INDIVIDUAL + "address-country"),
        Token(
            "address-use",
            ("address.use",),
            "home, work, temp, old or billing",
            INDIVIDUAL + "address-use",
            system="http://hl7.org/fhir/address-use",
        ),
        Token(
            "communication",
            ("communication",),
            "Language that the practitioner can use with patients",
            PRACTITIONER + "communication",
        ),
    )
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Practitioner",
        model=Practitioner,
        schema=PractitionerSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-practitioner",),
        doc="Practitioners: authors and recorders.",
        labels=Labels(
            one=Marked("a clinician"),
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
