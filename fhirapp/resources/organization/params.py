"""The search parameters of Organization. Source: FHIR R4; US Core.

An import resolves conditional references by them. Of R4's, `phonetic` is not here.
"""

from __future__ import annotations

from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.string import String
from fhirapp.search.token import Token

ORGANIZATION = "http://hl7.org/fhir/SearchParameter/Organization-"

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
            "Whether the record is in use",
            ORGANIZATION + "active",
            system="http://terminology.hl7.org/CodeSystem/special-values",
        ),
        Reference(
            "partof",
            ("partOf",),
            "Organization that this one is part of",
            ORGANIZATION + "partof",
            targets=("Organization",),
        ),
        Reference(
            "endpoint",
            ("endpoint",),
            "Technical endpoints",
            ORGANIZATION + "endpoint",
            targets=("Endpoint",),
        ),
    )
)
