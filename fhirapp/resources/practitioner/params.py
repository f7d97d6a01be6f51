"""The search parameters of Practitioner.

An import resolves conditional references by them. Source: FHIR R4.
"""

from __future__ import annotations

from fhirapp.search.common import COMMON
from fhirapp.search.parameter import Parameters
from fhirapp.search.token import Token

PARAMS = Parameters(
    (
        *COMMON,
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the practitioner",
            "http://hl7.org/fhir/SearchParameter/Practitioner-identifier",
        ),
    )
)
