"""The demo: its records, accounts and clients, their reset, its home page and its sample app."""

from __future__ import annotations

from fhirapp.feature import Feature

FEATURE = Feature(
    name="demo",
    requires=("explore",),
    blueprints=(
        "fhirapp.features.demo.home:blueprint",
        "fhirapp.features.demo.sample:blueprint",
    ),
    commands={"demo": ("fhirapp.features.demo.cli:demo", "Start the demo anew.")},
    schedule_kinds=("fhirapp.features.demo.reset:SCHEDULE",),
    demo_data="fhirapp.features.demo.start:fill",
    public_accounts="fhirapp.features.demo.accounts:PUBLIC",
    greeting="fhirapp.features.demo.start:greeting",
    home="fhirapp.features.demo.home:home",
)
