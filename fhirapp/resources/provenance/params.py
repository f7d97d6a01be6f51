"""The search parameters of Provenance: what `_revinclude` looks it up by. Source: FHIR R4."""

from __future__ import annotations

from fhirapp.search.common import COMMON
from fhirapp.search.parameter import Parameters
from fhirapp.search.reference import Reference

PARAMS = Parameters(
    (
        *COMMON,
        Reference(
            "target",
            ("target",),
            "The resources that this says the origin of",
            "http://hl7.org/fhir/SearchParameter/Provenance-target",
        ),
    )
)
