"""The search parameters of Patient. Source: FHIR R4; US Core.

An import resolves conditional references by them. Of R4's, `phonetic`, `deceased` (which is worked
out of two elements), `email` and `phone` (a telecom: `telecom=email|a@b.example`) are not here.
"""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.string import String
from fhirapp.search.token import Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
PATIENT = SPEC + "Patient-"
INDIVIDUAL = SPEC + "individual-"

PARAMS = Parameters(
    (
        *COMMON,
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the patient",
            PATIENT + "identifier",
            of_identifier=True,
        ),
        String("name", ("name",), "Any part of a name", PATIENT + "name"),
        String("family", ("name.family",), "Family name", INDIVIDUAL + "family"),
        String("given", ("name.given",), "Given name", INDIVIDUAL + "given"),
        Date("birthdate", ("birthDate",), "Date of birth", INDIVIDUAL + "birthdate"),
        Date("death-date", ("deceasedDateTime",), "When the patient died", PATIENT + "death-date"),
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
            PATIENT + "active",
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
            "language",
            ("communication.language",),
            "Language of communication with the patient",
            PATIENT + "language",
        ),
        Reference(
            "general-practitioner",
            ("generalPractitioner",),
            "Primary care provider of the patient",
            PATIENT + "general-practitioner",
            targets=("Practitioner", "Organization", "PractitionerRole"),
        ),
        Reference(
            "organization",
            ("managingOrganization",),
            "Managing organization of the record",
            PATIENT + "organization",
            targets=("Organization",),
        ),
        Reference(
            "link",
            ("link.other",),
            "Other records of the same patient",
            PATIENT + "link",
            targets=("Patient", "RelatedPerson"),
        ),
    )
)
