"""The explorer: build a search, send it, look at request and answer."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink

FEATURE = Feature(
    name="explore",
    blueprints=(
        "fhirapp.features.explore.routes:blueprint",
        "fhirapp.features.explore.history:blueprint",
        "fhirapp.features.explore.inspector:blueprint",
        "fhirapp.features.explore.why:blueprint",
        "fhirapp.features.explore.api_docs:blueprint",
    ),
    navigation=(
        MenuLink(MAIN, 20, "/explore", N_("Explore")),
        MenuLink(MAIN, 50, "/api-docs", N_("API")),
    ),
    help={"/explore": "search", "/api-docs": "connect"},
)
