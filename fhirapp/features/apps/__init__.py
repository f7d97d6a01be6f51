"""Apps: their registration and approval, consent, launches, and requests that were refused."""

from __future__ import annotations

from fhirapp.feature import ACCOUNT, APPS, N_, Feature, MenuLink, Via

FEATURE = Feature(
    name="apps",
    blueprints=(
        "fhirapp.features.apps.authorize:blueprint",
        "fhirapp.features.apps.registration:blueprint",
        "fhirapp.features.apps.launch:blueprint",
        "fhirapp.features.apps.admin:blueprint",
        "fhirapp.features.apps.consents:blueprint",
    ),
    commands={
        "client": (
            "fhirapp.features.apps.cli:client",
            "Register apps and backend systems, approve and disable them.",
        ),
        "token": ("fhirapp.features.apps.cli:token", "Issue access tokens."),
    },
    vias=(
        Via("launch", N_("the app launch page")),
        Via("picker", N_("the record selection page")),
    ),
    probes=("fhirapp.features.apps.probes:PROBES",),
    setup_steps=("fhirapp.features.apps.probes:register_app",),
    navigation=(
        MenuLink(APPS, 40, "/admin/clients", N_("Apps")),
        MenuLink(APPS, 50, "/admin/grants", N_("Consents")),
        MenuLink(APPS, 110, "/admin/refusals", N_("Refused requests")),
        MenuLink(ACCOUNT, 30, "/launch", N_("Start an app"), roles=("clinician", "administrator")),
    ),
    help={"/apps": "connect", "/launch": "connect"},
)
