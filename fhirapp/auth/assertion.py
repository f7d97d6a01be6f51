"""Clients that sign: private_key_jwt, as SMART Backend Services has it.

Source: RFC 7523; SMART App Launch 2.2 client-confidential-asymmetric. RS384 and ES384 only; the
assertion lives five minutes at most; its jti serves once; keys are those registered inline.
"""

from __future__ import annotations

import re
import time
from typing import Any

from authlib.oauth2.rfc6749 import InvalidClientError
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import delete, insert
from sqlalchemy.exc import IntegrityError

from fhirapp.address import token_url
from fhirapp.auth.models import Client, UsedAssertion
from fhirapp.db import writing

ALGORITHMS = ["RS384", "ES384"]
LONGEST_SECONDS = 300
_LEEWAY_SECONDS = 60
_JTI = re.compile(r"[ -~]{1,255}")


class ClientAssertion(JWTBearerClientAssertion):  # type: ignore[misc]
    """Authenticates a client by a JWT that it signed."""

    CLIENT_AUTH_METHOD = "private_key_jwt"

    def __init__(self) -> None:
        super().__init__(leeway=_LEEWAY_SECONDS)

    def get_audiences(self) -> list[str]:
        return [token_url()]

    def resolve_client_public_key(self, client: Client) -> KeySet:
        if not client.jwks:
            raise InvalidClientError(description="The client has no registered key.")
        return KeySet.import_key_set(client.jwks)

    def __call__(self, query_client: Any, request: Any) -> Any:
        """Return the client that signed, None where the request has no assertion."""
        client = super().__call__(query_client, request)
        body_id = request.form.get("client_id")
        if client is not None and body_id is not None and body_id != client.client_id:
            raise InvalidClientError(description="client_id contradicts the assertion.")
        return client

    def process_assertion_claims(self, assertion: str, resolve_key: KeySet) -> Any:
        headers, _ = self.extract_assertion(assertion)
        if "jku" in headers:
            # A key fetched from where the client says proves nothing.
            raise InvalidClientError(description="jku is not supported; register the keys inline.")
        if headers.get("alg") not in ALGORITHMS:
            raise InvalidClientError(description="The assertion must be signed RS384 or ES384.")
        try:
            token = jwt.decode(assertion, resolve_key, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            raise InvalidClientError(
                description="The signature does not fit a registered key."
            ) from None
        self.verify_claims(token.claims)
        return token.claims

    def verify_claims(self, claims: Any) -> None:
        expires = claims.get("exp")
        latest = time.time() + LONGEST_SECONDS + _LEEWAY_SECONDS
        if not isinstance(expires, int | float) or expires > latest:
            raise InvalidClientError(description="exp must be within five minutes.")
        if not isinstance(claims.get("jti"), str) or not _JTI.fullmatch(claims["jti"]):
            raise InvalidClientError(description="jti must be 1 to 255 printable characters.")
        super().verify_claims(claims)

    def validate_jti(self, claims: Any, jti: str) -> bool:
        """Record a jti; False where it was used before, by whichever process."""
        now = int(time.time())
        row = {
            "client_id": claims["sub"],
            "jti": jti,
            "expires_at": int(claims["exp"]) + _LEEWAY_SECONDS,
        }
        try:
            with writing() as connection:
                connection.execute(delete(UsedAssertion).where(UsedAssertion.expires_at < now))
                connection.execute(insert(UsedAssertion), [row])
        except IntegrityError:
            return False
        return True
