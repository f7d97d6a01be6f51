"""The explorer: build a search, send it, look at request and answer."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink, Via

FEATURE = Feature(
    name="explore",
    blueprints=(
        "fhirapp.features.explore.routes:blueprint",
        "fhirapp.features.explore.history:blueprint",
        "fhirapp.features.explore.inspector:blueprint",
        "fhirapp.features.explore.why:blueprint",
        "fhirapp.features.explore.compare:blueprint",
        "fhirapp.features.explore.api_docs:blueprint",
    ),
    vias=(
        Via("explore", N_("the explorer")),
        Via("explain", N_("the explorer's explanations"), N_("the explorer")),
        Via("suggestions", N_("the explorer's suggestions"), N_("the explorer")),
        Via("names", N_("patient names in the explorer"), N_("the explorer")),
        Via("history", N_("the explorer's versions"), N_("the explorer")),
    ),
    navigation=(
        MenuLink(MAIN, 20, "/explore", N_("Explore")),
        MenuLink(MAIN, 50, "/api-docs", N_("API")),
    ),
    help={"/explore": "search", "/api-docs": "connect"},
)
