"""Patients' records for administrators: found, corrected, merged, deleted or erased."""

from __future__ import annotations

from fhirapp.feature import N_, PEOPLE, Feature, MenuLink

FEATURE = Feature(
    name="patients",
    blueprints=("fhirapp.features.patients.pages:blueprint",),
    commands={
        "patient": (
            "fhirapp.features.patients.cli:patient",
            "Delete a patient's record, or merge two.",
        ),
    },
    navigation=(MenuLink(PEOPLE, 30, "/admin/patients", N_("Patients")),),
)
