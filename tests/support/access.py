"""Clients with a scope, and the records that access tests read."""

from __future__ import annotations

from flask import Flask

from tests.support.helpers import Fhir, token_for

ALLERGY = "AllergyIntolerance/al-p2-morphine"


DOCUMENT = "DocumentReference/doc-p2-pathology-2023"


P1_ALLERGIES = {
    "al-p1-penicillin",
    "al-p1-sulfa",
    "al-p1-latex",
    "al-p1-ibuprofen",
    "al-p1-metformin",
    "al-p1-ragweed",
}


def as_scope(app: Flask, scope: str, patient: str | None = None) -> Fhir:
    """Return a client with a token of this scope."""
    return Fhir(app, token_for(app, scope, patient=patient))
