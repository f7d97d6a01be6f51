"""The search parameters of AllergyIntolerance.

Source: service.md 4.2; FHIR R4; decisions 2.8, 2.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fhirapp.clinical.summary import is_entered_in_error
from fhirapp.search.date import Date
from fhirapp.search.index import IndexRow
from fhirapp.search.parameter import Context, Parameters
from fhirapp.search.query import COMMON, WORDS
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
ALLERGY = SPEC + "AllergyIntolerance-"
CLINICAL = SPEC + "clinical-"


@dataclass(frozen=True)
class ClinicalStatus(Token):
    """`clinical-status`: what is entered in error has none, also where one is stated.

    FHIR R4 allergyintolerance, ait-2. An app that asks for the active allergies must not get it.
    """

    # So that the resource is asked, not each of its values.
    first_of: bool = True

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:
        return [] if is_entered_in_error(resource) else super().rows(resource)

    def describe(self, modifier: str, value: str, context: Context) -> str:
        description = super().describe(modifier, value, context)
        return f"{description}; what is entered in error has none"


PARAMS = Parameters(
    (
        *COMMON,
        *WORDS,
        Reference(
            "patient",
            ("patient",),
            "Patient that the entry is about",
            CLINICAL + "patient",
            targets=("Patient",),
            compartment=True,
        ),
        # decisions 2.8: recordedDate, or else the onset; R4 has recordedDate only
        Date(
            "date",
            ("recordedDate", "onsetDateTime", "onsetPeriod"),
            "Date when the entry was recorded, or else its onset",
            CLINICAL + "date",
            first_of=True,
            closed_range=True,
        ),
        # service.md 4.2 and decisions 2.9: not in R4
        Token(
            "status",
            ("clinicalStatus", "verificationStatus"),
            "Clinical status or verification status of the entry",
            searches=("clinical-status", "verification-status"),
        ),
        ClinicalStatus(
            "clinical-status",
            ("clinicalStatus",),
            "active, inactive or resolved; none of what is entered in error",
            ALLERGY + "clinical-status",
        ),
        Token(
            "verification-status",
            ("verificationStatus",),
            "unconfirmed, confirmed, refuted or entered-in-error",
            ALLERGY + "verification-status",
        ),
        Token(
            "code",
            ("code", "reaction.substance"),
            "Code that identifies the allergy or intolerance",
            CLINICAL + "code",
        ),
        Token(
            "category",
            ("category",),
            "food, medication, environment or biologic",
            ALLERGY + "category",
            system="http://hl7.org/fhir/allergy-intolerance-category",
        ),
        Token(
            "criticality",
            ("criticality",),
            "low, high or unable-to-assess",
            ALLERGY + "criticality",
            system="http://hl7.org/fhir/allergy-intolerance-criticality",
        ),
        Token(
            "type",
            ("type",),
            "allergy or intolerance",
            CLINICAL + "type",
            system="http://hl7.org/fhir/allergy-intolerance-type",
        ),
        Token(
            "identifier",
            ("identifier",),
            "External id of the entry",
            CLINICAL + "identifier",
            of_identifier=True,
        ),
        Token(
            "manifestation",
            ("reaction.manifestation",),
            "Symptom or sign of a reaction",
            ALLERGY + "manifestation",
        ),
        Token(
            "route", ("reaction.exposureRoute",), "How the patient was exposed", ALLERGY + "route"
        ),
        Token(
            "severity",
            ("reaction.severity",),
            "mild, moderate or severe",
            ALLERGY + "severity",
            system="http://hl7.org/fhir/reaction-event-severity",
        ),
        Date("onset", ("reaction.onset",), "Onset of a reaction", ALLERGY + "onset"),
        Date(
            "last-date", ("lastOccurrence",), "Date of the last occurrence", ALLERGY + "last-date"
        ),
        Reference(
            "recorder",
            ("recorder",),
            "Who recorded the entry",
            ALLERGY + "recorder",
            targets=("Practitioner", "PractitionerRole", "Patient", "RelatedPerson"),
        ),
        Reference(
            "asserter",
            ("asserter",),
            "Source of the information about the allergy",
            ALLERGY + "asserter",
            targets=("Patient", "RelatedPerson", "Practitioner", "PractitionerRole"),
        ),
    )
)
