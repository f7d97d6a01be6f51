"""The demo: its home page with an example search."""

from __future__ import annotations

from fhirapp.feature import Feature

FEATURE = Feature(
    name="demo",
    requires=("explore",),
    # For its templates.
    blueprints=("fhirapp.features.demo.home:blueprint",),
    home="fhirapp.features.demo.home:home",
)
