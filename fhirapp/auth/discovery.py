"""What the authorization server says of itself. It claims only what works.

Source: SMART App Launch 2.2 conformance §smart-configuration.
"""

from __future__ import annotations

from typing import Any

from fhirapp.address import token_url
from fhirapp.auth.assertion import ALGORITHMS

SCOPES = (
    "system/DocumentReference.rs",
    "system/AllergyIntolerance.rs",
    "system/*.read",
    "system/*.rs",
)


def smart_configuration() -> dict[str, Any]:
    """Return /.well-known/smart-configuration; without OpenID Connect it names no issuer."""
    return {
        "token_endpoint": token_url(),
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_basic"],
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "scopes_supported": list(SCOPES),
        "code_challenge_methods_supported": ["S256"],
        "capabilities": [
            "client-confidential-asymmetric",
            "permission-v1",
            "permission-v2",
        ],
    }
