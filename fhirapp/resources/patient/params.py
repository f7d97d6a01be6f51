"""The search parameters of Patient. Source: FHIR R4; US Core.

An import resolves conditional references by them.
"""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import SPECIAL_VALUES, ContactToken, Presence, Token

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
        Phonetic("phonetic", ("name",), "Word of a name, by its sound", INDIVIDUAL + "phonetic"),
        Date("birthdate", ("birthDate",), "Date of birth", INDIVIDUAL + "birthdate"),
        Date("death-date", ("deceasedDateTime",), "When the patient died", PATIENT + "death-date"),
        Presence(
            "deceased",
            ("deceasedBoolean", "deceasedDateTime"),
            "Whether the patient is recorded as dead",
            PATIENT + "deceased",
        ),
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
