"""SMART Backend Services as a client: tokens for signed assertions, renewed before they expire.

Source: SMART App Launch 2.2, Backend Services; RFC 7523.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from authlib.oauth2.rfc7523 import private_key_jwt_sign
from authlib.oauth2.rfc7523.client import ASSERTION_TYPE
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, RSAKey
from requests import Response

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.remote import (
    Bounds,
    Clock,
    RemoteError,
    RemoteServer,
    origin,
    possible_bases,
    redact_url,
    resolve_url,
    retry,
)
from fhirapp.fhir import json as fhir_json
from fhirapp.url_syntax import is_loopback

_ASSERTION_SECONDS = 240
# A token is renewed this long before it expires, or halfway if it lives shorter.
_EARLY_SECONDS = 30
_DEFAULT_SECONDS = 300
_ATTEMPTS = 4
_JSON = {"Accept": "application/json"}


class Credentials(NamedTuple):
    """A client that another server knows: its id, and the file of its private key (a JWK)."""

    client_id: str
    key: Path


def read_key(path: Path) -> RSAKey | ECKey:
    """Return the private key in a file: a JWK, or a set of one. Raises RemoteError.

    The kid of a key without one is its thumbprint (RFC 7638).
    """
    try:
        content = fhir_json.loads(path.read_bytes())
    except OSError as error:
        raise RemoteError(f"The key {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise RemoteError(f"The key {path} is not JSON; it must be a JSON Web Key.") from None
    try:
        keys = KeySet.import_key_set(content if "keys" in content else {"keys": [content]}).keys
        private = [key for key in keys if isinstance(key, RSAKey | ECKey) and key.is_private]
    except (JoseError, ValueError, TypeError, KeyError):
        private = []
    if len(private) != 1:
        raise RemoteError(
            f"The file {path} must hold one private key, a JSON Web Key for RS384 or ES384."
        )
    (key,) = private
    if isinstance(key, ECKey) and key.curve_name != "P-384":
        raise RemoteError(f"The key {path} is on {key.curve_name}; ES384 needs one on P-384.")
    return key


class AuthorizedServer(RemoteServer):
    """A server that knows this client; the token is sent to the server's origin alone."""

    _advice = ""

    def __init__(
        self,
        bounds: Bounds,
        clock: Clock,
        credentials: Credentials,
        address: str,
        say: Callable[[str], None],
    ) -> None:
        """address is any of the server's. Raises RemoteError if the key cannot be used."""
        super().__init__(bounds, clock)
        self._client_id, self._key = credentials.client_id, read_key(credentials.key)
        self._bases, self._origin = possible_bases(address), origin(address)
        # The token endpoint and the scope.
        self._endpoint: tuple[str, str] | None = None
        self._token: str | None = None
        self._renew_at = 0.0
        if self._origin.startswith("http:") and not is_loopback(self._origin[7:]):
            say(f"The token for {redact_url(address)} goes over the network without encryption.")

    def trusts(self, address: str) -> bool:
        return origin(address) == self._origin

    def _credentials(self, address: str) -> dict[str, str]:
        if not self.trusts(address):
            return {}
        if self._token is None or self.clock.now() >= self._renew_at:
            what = f"No token was given to client {sanitize(self._client_id)}"
            self._token = retry(what, _ATTEMPTS, self.clock, lambda: self._fetch_token(what))
        return {"Authorization": f"Bearer {self._token}"}

    def _renew(self) -> bool:
        self._token = None
        return True

    def _fetch_token(self, what: str) -> str:
        self._endpoint = self._endpoint or self._discover()
        endpoint, scope = self._endpoint
        form = {
            "grant_type": "client_credentials",
            "scope": scope,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self._assertion(endpoint),
        }
        with self.open("POST", endpoint, _JSON, form=form, with_token=False) as answer:
            if answer.status_code != 200:
                raise self.fault(what, endpoint, answer)
            content = self._object(answer, endpoint)
        token, seconds = content.get("access_token"), content.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RemoteError(f"{what}: {redact_url(endpoint)} answers without one.")
        lives = float(seconds) if isinstance(seconds, int) and seconds > 0 else _DEFAULT_SECONDS
        self._renew_at = self.clock.now() + lives - min(_EARLY_SECONDS, lives / 2)
        return token

    def _assertion(self, endpoint: str) -> str:
        now = int(self.clock.now())
        assertion: str = private_key_jwt_sign(
            self._key,
            self._client_id,
            endpoint,
            "RS384" if isinstance(self._key, RSAKey) else "ES384",
            header={"kid": self._key.kid},
            issued_at=now,
            expires_at=now + _ASSERTION_SECONDS,
        )
        return assertion

    def _discover(self) -> tuple[str, str]:
        """Return the token endpoint, and the scope for all types in the server's syntax."""
        for base in self._bases:
            address = f"{base}/.well-known/smart-configuration"
            with self.open("GET", address, _JSON, with_token=False) as answer:
                if answer.status_code in (429, 502, 503, 504):
                    raise self.fault("The server does not say where to get tokens", address, answer)
                if answer.status_code != 200:
                    continue
                content = self._object(answer, address)
            endpoint = content.get("token_endpoint")
            if isinstance(endpoint, str) and endpoint:
                listed = content.get("capabilities")
                is_second = isinstance(listed, list) and "permission-v2" in listed
                scope = "system/*.rs" if is_second else "system/*.read"
                return resolve_url(address, endpoint), scope
        raise RemoteError(
            f"{redact_url(self._bases[0])} does not say where to get tokens: there is no "
            "token_endpoint at /.well-known/smart-configuration under it."
        )

    def _object(self, answer: Response, address: str) -> dict[str, Any]:
        """Return the JSON object of an answer. Raises RemoteError, TransientError."""
        try:
            content = fhir_json.loads(self.read(answer, address, self.bounds.answer_bytes))
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RemoteError(
                f"{redact_url(address)} answers with something other than a JSON object."
            )
        return content
