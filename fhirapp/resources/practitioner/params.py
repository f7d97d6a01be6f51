"""The search parameters of Practitioner. Source: FHIR R4; US Core.

An import resolves conditional references by them. Of R4's, `phonetic`, `email` and `phone` (a
telecom: `telecom=email|a@b.example`) are not here.
"""

from __future__ import annotations

from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.string import String
from fhirapp.search.token import Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
PRACTITIONER = SPEC + "Practitioner-"
INDIVIDUAL = SPEC + "individual-"

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
            "Whether the record is in use",
            PRACTITIONER + "active",
            system="http://terminology.hl7.org/CodeSystem/special-values",
        ),
        Token("telecom", ("telecom",), "Phone number, e-mail address …", INDIVIDUAL + "telecom"),
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
