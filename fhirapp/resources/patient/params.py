"""The search parameters of Patient.

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
            "Identifier of the patient",
            "http://hl7.org/fhir/SearchParameter/Patient-identifier",
        ),
    )
)
