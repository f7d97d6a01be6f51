"""The search parameters of Patient. Source: FHIR R4; US Core.

An import resolves conditional references by them.
"""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.person import BIRTHDATE, INDIVIDUAL, NAMES, person
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Presence, Token

PARAMS = Parameters(
    "Patient",
    *COMMON,
    *person(
        "the patient",
        *NAMES,
        BIRTHDATE,
        Date("death-date", "deceasedDateTime", "When the patient died"),
        Presence("deceased", "deceasedBoolean | deceasedDateTime",
                 "Whether the patient is recorded as dead"),
    ),
    Token("language", "communication.language", "Language of communication with the patient"),
    Reference("general-practitioner", "generalPractitioner", "Primary care provider of the patient",
              "Practitioner | Organization | PractitionerRole"),
    Reference("organization", "managingOrganization", "Managing organization of the record",
              "Organization"),
    Reference("link", "link.other", "Other records of the same patient", "Patient | RelatedPerson"),
    shared=INDIVIDUAL,
)  # fmt: skip
