"""Clients with a scope, records that access tests read, and the recorded refusal of a request."""

from __future__ import annotations

from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.auth.models import Refusal
from fhirapp.auth.protector import REQUEST_ID_HEADER
from fhirapp.auth.refusals import find_refusals
from tests.support.helpers import Fhir, token_for

ALLERGY = "AllergyIntolerance/al-p2-morphine"
DOCUMENT = "DocumentReference/doc-p2-pathology-2023"
P1_ALLERGIES = {
    *("al-p1-penicillin", "al-p1-sulfa", "al-p1-latex", "al-p1-ibuprofen", "al-p1-metformin"),
    "al-p1-ragweed",
}


def as_scope(app: Flask, scope: str, patient: str | None = None) -> Fhir:
    """Return a client with a token of this scope."""
    return Fhir(app, token_for(app, scope, patient=patient))


def refusal_of_request(app: Flask, response: TestResponse) -> Refusal:
    """Return the recorded refusal of a request, found by the id in its answer."""
    with app.app_context():
        found = find_refusals(response.headers[REQUEST_ID_HEADER])
        assert found, response.text
        return found[0]


def related_person(
    patient_id: str = "p3", row_id: str = "rp-lindqvist", **elements: Any
) -> dict[str, Any]:
    """Return a small RelatedPerson."""
    return {
        "resourceType": "RelatedPerson",
        "id": row_id,
        "active": True,
        "patient": {"reference": f"Patient/{patient_id}"},
        "name": [{"family": "Lindqvist", "given": ["Sara"]}],
        **elements,
    }
