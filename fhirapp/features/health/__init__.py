"""The state of the server: doctor, overview, /metrics, /health, and the last errors of the log."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, SYSTEM, Feature, MenuLink

FEATURE = Feature(
    name="health",
    init=(
        "fhirapp.features.health.routes:init_app",
        "fhirapp.features.health.metrics:init_app",
    ),
    blueprints=(
        "fhirapp.features.health.routes:blueprint",
        "fhirapp.features.health.pages:blueprint",
    ),
    commands={
        "doctor": (
            "fhirapp.features.health.cli:doctor",
            "Check settings, disk, database, audit trail and backups.",
        ),
        "logs": ("fhirapp.features.health.cli:logs", "Show the latest warnings and errors."),
    },
    probes=("fhirapp.features.health.probes:PROBES",),
    setup_steps=(
        "fhirapp.features.health.address:set_time_zone",
        "fhirapp.features.health.address:name_clinic",
        "fhirapp.features.health.address:set_address",
    ),
    side_server="fhirapp.features.health.metrics:listen",
    navigation=(
        MenuLink(MAIN, 70, "/admin", N_("Administer"), roles=("administrator",)),
        MenuLink(SYSTEM, 10, "/admin", N_("Overview"), is_exact=True),
        MenuLink(SYSTEM, 120, "/admin/logs", N_("Errors")),
    ),
)
