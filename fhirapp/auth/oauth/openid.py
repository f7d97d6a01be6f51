"""OpenID Connect: the id token that comes with an authorization code. RS256.

Source: OpenID Connect Core §2, §3.1; SMART App Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import time
from typing import Any

from authlib.oidc.core import OpenIDCode, UserInfo
from joserfc.jwk import KeySet

from fhirapp.address import base_url
from fhirapp.auth.models import User
from fhirapp.auth.oauth.signing import ALGORITHM, active_key
from fhirapp.auth.people.users import fhir_user_of
from fhirapp.auth.scopes import FHIR_USER, PROFILE

SECONDS = 3600


class IdToken(OpenIDCode):  # type: ignore[misc]
    """Adds the id token to the answer, where openid was granted."""

    def exists_nonce(self, nonce: str, request: Any) -> bool:  # noqa: ARG002
        """Return False: the client compares its nonce; a code serves once anyway."""
        return False

    def resolve_client_private_key(self, client: Any) -> KeySet:  # noqa: ARG002
        # Of a set one is picked at random, and named in the header: so a set of one.
        return KeySet([active_key()])

    def get_client_algorithm(self, client: Any) -> str:  # noqa: ARG002
        return ALGORITHM

    def get_encode_header(self, client: Any) -> dict[str, str]:  # noqa: ARG002
        return {"alg": ALGORITHM, "typ": "JWT"}

    def get_compatible_claims(self, request: Any) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": base_url(),
            "aud": request.client.client_id,
            "iat": now,
            "exp": now + SECONDS,
            "auth_time": request.grant.signed_in_at,
        }

    def generate_user_info(self, user: User, scope: str) -> UserInfo:
        claims = UserInfo(sub=user.id)
        granted = scope.split()
        who = fhir_user_of(user)
        if FHIR_USER in granted and who is not None:
            claims["fhirUser"] = f"{base_url()}/fhir/{who}"
        if PROFILE in granted:
            claims["name"] = user.name
            claims["preferred_username"] = user.username
        return claims
