"""Clients that sign: private_key_jwt, as SMART Backend Services has it.

Source: RFC 7523; SMART App Launch 2.2 client-confidential-asymmetric. RS384 and ES384 only; the
assertion lives five minutes at most; its jti serves once; keys are those that the client
registered, or those at the address that it registered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from authlib.oauth2.rfc6749 import InvalidClientError
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import delete, insert
from sqlalchemy.exc import IntegrityError

from fhirapp import config, urls
from fhirapp.auth.clients.fetch import KeySetUnavailable
from fhirapp.auth.clients.key_sets import KeySets
from fhirapp.auth.models import Client, UsedAssertion
from fhirapp.auth.unverified import InvalidJwt, read_jwt
from fhirapp.db import db, writing

ALGORITHMS = ["RS384", "ES384"]
LONGEST_SECONDS = 300
_LEEWAY_SECONDS = 60
_JTI = re.compile(r"[ -~]{1,255}")


# The key sets to try, in their order, and the address that they are registered with.
_Keys = tuple[Iterable[KeySet], str | None]


class ClientAssertion(JWTBearerClientAssertion):  # type: ignore[misc]
    """Authenticates a client by a JWT that it signed."""

    CLIENT_AUTH_METHOD = "private_key_jwt"

    def __init__(self) -> None:
        super().__init__(leeway=_LEEWAY_SECONDS)
        self._key_sets = KeySets()

    def get_audiences(self) -> list[str]:
        return [urls.token_url()]

    def resolve_client_public_key(self, client: Client) -> _Keys:
        """Return the client's keys; none is fetched before it is asked for."""
        if client.jwks_uri:
            return self._fetched(client.jwks_uri), client.jwks_uri
        if not client.jwks:
            raise InvalidClientError(description="The client has no registered key.")
        return [KeySet.import_key_set(client.jwks)], None

    def _fetched(self, uri: str) -> Iterator[KeySet]:
        # Nothing of the database is held while another server is waited for.
        db.session.close()
        try:
            yield from self._key_sets.at(uri, config.settings())
        except KeySetUnavailable:
            # The same whatever was found there, so that nobody explores a network by our answers.
            raise InvalidClientError(
                description="The client's keys could not be fetched."
            ) from None

    def __call__(self, query_client: Any, request: Any) -> Any:
        """Return the client that signed, None where the request has no assertion."""
        if assertion := request.form.get("client_assertion"):
            try:
                read_jwt(assertion)
            except InvalidJwt as error:
                raise InvalidClientError(description=f"The assertion: {error}") from None
        client = super().__call__(query_client, request)
        body_id = request.form.get("client_id")
        if client is not None and body_id is not None and body_id != client.client_id:
            raise InvalidClientError(description="client_id contradicts the assertion.")
        return client

    def process_assertion_claims(self, assertion: str, resolve_key: _Keys) -> Any:
        headers, _ = self.extract_assertion(assertion)
        key_sets, address = resolve_key
        if headers.get("jku") not in (None, address):
            # A key fetched from where the client says proves nothing.
            raise InvalidClientError(
                description="jku must be the address of the keys that is registered."
            )
        if headers.get("alg") not in ALGORITHMS:
            raise InvalidClientError(description="The assertion must be signed RS384 or ES384.")
        claims = _signed_claims(assertion, key_sets)
        self.verify_claims(claims)
        return claims

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


def _signed_claims(assertion: str, key_sets: Iterable[KeySet]) -> Any:
    for keys in key_sets:
        with suppress(JoseError, ValueError):
            return jwt.decode(assertion, keys, algorithms=ALGORITHMS).claims
    raise InvalidClientError(description="The signature does not fit a registered key.")
