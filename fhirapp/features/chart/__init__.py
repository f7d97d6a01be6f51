"""A patient's chart: allergies and notes as a clinician wants them."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink, Via

FEATURE = Feature(
    name="chart",
    requires=("notes",),
    blueprints=("fhirapp.features.chart.routes:blueprint",),
    vias=(
        Via("chart", N_("the chart")),
        Via("patients", N_("the list of patients")),
    ),
    navigation=(
        MenuLink(MAIN, 30, "/patients", N_("Patients"), roles=("", "clinician", "administrator")),
        MenuLink(MAIN, 30, "/patients", N_("Health records"), roles=("patient",)),
    ),
)
