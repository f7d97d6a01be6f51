"""Allergies for the tests of what is made of them, and patients who have them."""

from __future__ import annotations

from itertools import count
from typing import Any

from flask import Flask
from hypothesis import given, settings

from fhirapp.fhir import terminology
from tests.support.publishing import TIMES, publish
from tests.support.round_trips import REPEATABLE, resources

RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
SNOMED = terminology.SNOMED_CT
SEVERE = {"reaction": [{"manifestation": [{"text": "Anaphylaxis"}], "severity": "severe"}]}
MEDICINE, FOOD = {"category": ["medication"]}, {"category": ["food"]}
VACCINE = {"category": ["biologic"]}
REFUTED, IN_ERROR = {"verified": "refuted"}, {"verified": "entered-in-error", "status": None}
RESOLVED = {"status": "resolved"}

_ids = (f"x{number}" for number in count())


def coded(*codings: tuple[str, str] | tuple[str, str, str], text: str | None = None) -> Any:
    """Return a CodeableConcept of (system, code) or (system, code, display)."""
    names = ("system", "code", "display")
    found: dict[str, Any] = {}
    if codings:
        found["coding"] = [
            {name: value for name, value in zip(names, one, strict=False) if value}
            for one in codings
        ]
    return {**found, **({"text": text} if text else {})}


def allergy(
    code: Any, status: str | None = "active", verified: str | None = "confirmed", **elements: Any
) -> dict[str, Any]:
    """Return an allergy of the patient p; code is a CodeableConcept or its text."""
    one = {"resourceType": "AllergyIntolerance", "id": next(_ids), **elements}
    one["patient"] = {"reference": "Patient/p"}
    one["code"] = coded(text=code) if isinstance(code, str) else code
    for name, system, value in (
        ("clinicalStatus", terminology.ALLERGY_CLINICAL, status),
        ("verificationStatus", terminology.ALLERGY_VERIFICATION, verified),
    ):
        if value:
            one[name] = coded((system, value))
    return one


PENICILLIN = coded((SNOMED, "764146007", "Penicillin"), text="Penicillin")
PEANUT = coded((SNOMED, "762952008", "Peanut"))
NKA = coded((SNOMED, "716186003"), text="No known allergies")
NKDA = coded((SNOMED, "409137002", "No known drug allergy"))
NKFA = coded((SNOMED, "429625007"))
NO_INFORMATION = coded((terminology.NULL_FLAVOR, "NI"), text="No information")


def patient_with(app: Flask, *resources: dict[str, Any], **elements: Any) -> str:
    """Publish a patient with these allergies; return the id."""
    patient_id = next(_ids)
    publish(app, TIMES[0], {"resourceType": "Patient", "id": patient_id, **elements})
    if resources:
        reference = {"reference": f"Patient/{patient_id}"}
        publish(app, TIMES[0], *({**one, "patient": reference} for one in resources))
    return patient_id


def rich(app: Flask) -> tuple[str, list[str]]:
    """Publish a patient with allergies of every element that R4 has; return both ids."""
    patient = patient_with(app)
    published: list[str] = []

    @settings(REPEATABLE, max_examples=20)
    @given(resources("AllergyIntolerance"))
    def put(resource: dict[str, Any]) -> None:
        one = {**resource, "id": f"{patient}-{len(published)}"}
        publish(app, TIMES[0], {**one, "patient": {"reference": f"Patient/{patient}"}})
        published.append(one["id"])

    put()
    return patient, published
