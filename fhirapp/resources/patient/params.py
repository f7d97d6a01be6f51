"""The search parameters of Patient. Source: FHIR R4; US Core.

An import resolves conditional references by them.
"""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.person import BIRTHDATE, NAMES, person
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Presence, Token

PATIENT = "http://hl7.org/fhir/SearchParameter/Patient-"

PARAMS = Parameters(
    (
        *COMMON,
        *person(
            PATIENT,
            "the patient",
            *NAMES,
            BIRTHDATE,
            Date(
                "death-date", ("deceasedDateTime",), "When the patient died", PATIENT + "death-date"
            ),
            Presence(
                "deceased",
                ("deceasedBoolean", "deceasedDateTime"),
                "Whether the patient is recorded as dead",
                PATIENT + "deceased",
            ),
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
