"""Token revocation. Source: RFC 7009."""

from __future__ import annotations

from typing import Any

from authlib.oauth2.rfc7009 import RevocationEndpoint

from fhirapp.auth.models import RefreshToken
from fhirapp.auth.oauth.introspection import TokenQuery, TokenRecord
from fhirapp.auth.tokens import revoke_access_token, revoke_replayed


class Revocation(TokenQuery, RevocationEndpoint):  # type: ignore[misc]
    """Ends a token; a refresh token with all that came of the same consent."""

    CLIENT_AUTH_METHODS = ["client_secret_basic", "private_key_jwt", "none"]

    def revoke_token(self, token: TokenRecord, request: Any) -> None:  # noqa: ARG002
        if isinstance(token.token, RefreshToken):
            revoke_replayed(token.token)
        else:
            revoke_access_token(token.token.digest)
