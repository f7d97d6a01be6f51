"""What the authorization server says of itself. It claims only what works.

Source: SMART App Launch 2.2 conformance §smart-configuration; RFC 8414; OpenID Connect Discovery.
"""

from __future__ import annotations

from typing import Any

from fhirapp import config, urls
from fhirapp.auth.oauth.client_assertion import ALGORITHMS
from fhirapp.auth.oauth.pkce import METHOD
from fhirapp.auth.oauth.signing_keys import ALGORITHM
from fhirapp.auth.scopes import supported

_CLAIMS = [
    *("iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash"),
    *("fhirUser", "name", "preferred_username"),
]
_METHODS = ("client_secret_basic", "private_key_jwt")
# By their sets in SMART App Launch 2.2 §capabilities.
_CAPABILITIES = [
    *("launch-ehr", "launch-standalone", "authorize-post"),
    *("client-public", "client-confidential-symmetric", "client-confidential-asymmetric"),
    "sso-openid-connect",
    *("context-banner", "context-style", "context-ehr-patient", "context-ehr-encounter"),
    *("context-standalone-patient", "context-standalone-encounter"),
    *("permission-offline", "permission-online", "permission-patient", "permission-user"),
    *("permission-v1", "permission-v2"),
]


def endpoints() -> dict[str, str]:
    """Return the addresses, by their names in every kind of metadata."""
    base = urls.base_url()
    can_register = config.settings().dynamic_registration
    return {
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": urls.token_url(),
        "introspection_endpoint": f"{base}/oauth/introspect",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "userinfo_endpoint": f"{base}/oauth/userinfo",
        "jwks_uri": f"{base}/oauth/jwks.json",
        **({"registration_endpoint": f"{base}/oauth/register"} if can_register else {}),
    }


def smart_configuration() -> dict[str, Any]:
    """Return /.well-known/smart-configuration."""
    base = urls.base_url()
    return {
        **_metadata(),
        "management_endpoint": f"{base}/account/apps",
        "capabilities": _CAPABILITIES,
    }


def openid_configuration() -> dict[str, Any]:
    """Return /.well-known/openid-configuration, which is RFC 8414's metadata too."""
    return {
        **_metadata(),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "claims_supported": _CLAIMS,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
    }


def _metadata() -> dict[str, Any]:
    return {
        "issuer": urls.base_url(),
        **endpoints(),
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "scopes_supported": supported(),
        "code_challenge_methods_supported": [METHOD],
        "token_endpoint_auth_methods_supported": [*_METHODS, "none"],
        "token_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "introspection_endpoint_auth_methods_supported": [*_METHODS, "Bearer"],
        "introspection_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
        "revocation_endpoint_auth_methods_supported": [*_METHODS, "none"],
        "revocation_endpoint_auth_signing_alg_values_supported": ALGORITHMS,
    }
