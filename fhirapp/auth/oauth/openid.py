"""OpenID Connect: the id token that comes with an authorization code, and the userinfo endpoint.

Source: OpenID Connect Core §2, §3.1, §5.3;
SMART App Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from authlib.oidc.core import OpenIDCode, UserInfo
from joserfc.jwk import KeySet

from fhirapp import urls
from fhirapp.auth import scopes
from fhirapp.auth.models import User
from fhirapp.auth.oauth.signing_keys import ALGORITHM, active_key
from fhirapp.auth.protector import current_token, insufficient_scope
from fhirapp.auth.users.accounts import fhir_user_of
from fhirapp.db import db

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

    def encode_id_token(self, token: Any, request: Any) -> str:
        # Authlib tells generate_user_info() the scope, and not the consent.
        request.granted = token["scope"].split()
        return str(super().encode_id_token(token, request))

    def get_compatible_claims(self, request: Any) -> dict[str, Any]:
        now = int(time.time())
        return {
            **claims_about(request.user, request.granted, request.grant.patient_id),
            "iss": urls.base_url(),
            "aud": request.client.client_id,
            "iat": now,
            "exp": now + SECONDS,
            "auth_time": request.grant.signed_in_at,
        }

    def generate_user_info(self, user: User, scope: str) -> UserInfo:  # noqa: ARG002
        return UserInfo(sub=user.id)


def claims_about(user: User, granted: Collection[str], patient_id: str | None) -> UserInfo:
    """Return who a user is, as far as the granted scopes tell it, to the patient in context."""
    claims = UserInfo(sub=user.id)
    who = fhir_user_of(user, patient_id)
    if scopes.FHIR_USER in granted and who is not None:
        claims["fhirUser"] = f"{urls.base_url()}/fhir/{who}"
    if scopes.PROFILE in granted:
        claims["name"] = user.name
        claims["preferred_username"] = user.username
    return claims


def user_info() -> UserInfo:
    """Return who the user of the request's token is, as client and user are now. Raises FhirError.

    OpenID Connect Core §5.3; errors as RFC 6750 §3.1 has them.
    """
    user = None if current_token.user_id is None else db.session.get(User, current_token.user_id)
    session = scopes.grantable(
        current_token.scope.split(), current_token.registered, (scopes.SESSION,), scopes.enforceable
    )
    granted = [] if user is None else scopes.of_role(session, user.role)
    if user is None or scopes.OPENID not in granted:
        raise insufficient_scope(
            "Only a user's token with openid says who the user is.", scopes.OPENID
        )
    return claims_about(user, granted, current_token.patient_id)
