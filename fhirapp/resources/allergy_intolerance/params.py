"""The search parameters of AllergyIntolerance.

Source: service.md 4.2; FHIR R4; decisions 2.8, 2.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fhirapp.clinical.summary import is_entered_in_error
from fhirapp.fhir.words import worded
from fhirapp.search.date import Date
from fhirapp.search.index import IndexRow
from fhirapp.search.parameter import CLINICAL, Context, Parameters
from fhirapp.search.query import COMMON, WORDS
from fhirapp.search.reference import Reference, Subject
from fhirapp.search.token import HL7, Identifier, Token


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
        return worded("%(sought)s; what is entered in error has none", sought=description)


PARAMS = Parameters(
    "AllergyIntolerance",
    *COMMON,
    *WORDS,
    Subject("patient", "patient", "Patient that the entry is about"),
    # decisions 2.8: recordedDate, or else the onset; R4 has recordedDate only
    Date("date", "recordedDate | onsetDateTime | onsetPeriod",
         "Date when the entry was recorded, or else its onset", first_of=True, closed_range=True),
    # service.md 4.2 and decisions 2.9: not in R4
    Token("status", "clinicalStatus | verificationStatus",
          "Clinical status or verification status of the entry",
          searches=("clinical-status", "verification-status"), is_in_fhir=False),
    ClinicalStatus("clinical-status", "clinicalStatus",
                   "active, inactive or resolved; none of what is entered in error"),
    Token("verification-status", "verificationStatus",
          "unconfirmed, confirmed, refuted or entered-in-error"),
    Token("code", "code | reaction.substance", "Code that identifies the allergy or intolerance"),
    Token("category", "category", "food, medication, environment or biologic",
          system=HL7 + "allergy-intolerance-category"),
    Token("criticality", "criticality", "low, high or unable-to-assess",
          system=HL7 + "allergy-intolerance-criticality"),
    Token("type", "type", "allergy or intolerance", system=HL7 + "allergy-intolerance-type"),
    Identifier("identifier", "identifier", "External id of the entry"),
    Token("manifestation", "reaction.manifestation", "Symptom or sign of a reaction"),
    Token("route", "reaction.exposureRoute", "How the patient was exposed"),
    Token("severity", "reaction.severity", "mild, moderate or severe",
          system=HL7 + "reaction-event-severity"),
    Date("onset", "reaction.onset", "Onset of a reaction"),
    Date("last-date", "lastOccurrence", "Date of the last occurrence"),
    Reference("recorder", "recorder", "Who recorded the entry",
              "Practitioner | PractitionerRole | Patient | RelatedPerson"),
    Reference("asserter", "asserter", "Source of the information about the allergy",
              "Patient | RelatedPerson | Practitioner | PractitionerRole"),
    shared=CLINICAL,
)  # fmt: skip
