"""The search parameters of Provenance: what `_revinclude` looks it up by. Source: FHIR R4."""

from __future__ import annotations

from fhirapp.search.parameter import Identity, Parameters
from fhirapp.search.reference import Reference

PARAMS = Parameters(
    (
        Identity(),
        Reference(
            "target",
            ("target",),
            "The resources that this says the origin of",
            "http://hl7.org/fhir/SearchParameter/Provenance-target",
        ),
    )
)
