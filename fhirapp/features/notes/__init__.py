"""Notes: the words of all of them, one note, its versions and what differs between two."""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink, Via

FEATURE = Feature(
    name="notes",
    blueprints=("fhirapp.features.notes.routes:blueprint",),
    vias=(Via("notes", N_("the notes")),),
    navigation=(MenuLink(MAIN, 40, "/notes", N_("Notes")),),
)
