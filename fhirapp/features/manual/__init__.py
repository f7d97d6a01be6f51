"""The manual: pages of Markdown in docs/, shown at /docs and printed by `fhirapp docs`."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink

FEATURE = Feature(
    name="manual",
    blueprints=("fhirapp.features.manual.pages:blueprint",),
    commands={
        "docs": (
            "fhirapp.features.manual.cli:docs",
            "Print a page of the manual; without NAME, list the pages.",
        ),
    },
    navigation=(MenuLink(MAIN, 60, "/docs", N_("Manual"), is_manual=True),),
)
