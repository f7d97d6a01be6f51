"""Backend services, the client's side: a signed assertion for a token, renewed when it ends.

The token goes to the origin of the FHIR base, and to no other that the administrator has not named.
Source: SMART App Launch 2.2, Backend Services; RFC 7523.

Requests to the other server carry the token only where it belongs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, RSAKey

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.address import (
    RemoteError,
    following,
    origin,
    place,
    possible_bases,
)
from fhirapp.features.pull.connection import Clock, Wire, retry
from fhirapp.fhir import json as fhir_json
from fhirapp.url_syntax import LOOPBACK

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS = 240
# A token is renewed so long before it ends, or halfway where it lives shorter.
_EARLY_SECONDS = 30
_DEFAULT_SECONDS = 300
ATTEMPTS = 4


class Credentials(NamedTuple):
    """A client that another server knows: its id, and the file of its private key (a JWK).

    scope is what the server says that it supports unless given; origins are others to which the
    token may go, as https://files.example.
    """

    client_id: str
    key: Path
    scope: str | None = None
    origins: tuple[str, ...] = ()


class _Key(NamedTuple):
    key: RSAKey | ECKey
    algorithm: str


def read_key(path: Path) -> _Key:
    """Return the private key in a file: a JWK, or a set of one. Raises RemoteError.

    One without a kid has its thumbprint as such (RFC 7638).
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
    if isinstance(key, RSAKey):
        return _Key(key, "RS384")
    if key.curve_name != "P-384":
        raise RemoteError(f"The key {path} is on {key.curve_name}; ES384 needs one on P-384.")
    return _Key(key, "ES384")


class Authorization:
    """A client at one server, and the token that it has now."""

    def __init__(
        self,
        wire: Wire,
        credentials: Credentials,
        address: str,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        """address is any of the server's. Raises RemoteError where the key does not serve."""
        self._wire, self._credentials, self._clock = wire, credentials, clock
        self._key = read_key(credentials.key)
        self._bases = possible_bases(address)
        self._home = origin(address)
        self._origins = {self._home, *(origin(url) for url in credentials.origins)}
        self._endpoint: tuple[str, str] | None = None
        self._token: str | None = None
        self._renew_at = 0.0
        if self._home.scheme == "http" and self._home.host not in LOOPBACK:
            say(f"The token for {place(address)} goes over the network without encryption.")

    def goes_to(self, address: str) -> bool:
        """Say whether the token may be sent to an address."""
        return origin(address) in self._origins

    def header(self, address: str) -> str | None:
        """Return the Authorization header for an address, None where the token must not go."""
        if not self.goes_to(address):
            return None
        if self._token is None or self._clock.now() >= self._renew_at:
            what = f"No token was given to client {sanitize(self._credentials.client_id)}"
            self._token = retry(what, ATTEMPTS, self._clock, lambda: self._fetch(what))
        return f"Bearer {self._token}"

    def forget(self) -> None:
        """Have the token renewed, which a server did not take."""
        self._token = None

    def _fetch(self, what: str) -> str:
        if self._endpoint is None:
            self._endpoint = _discovered(self._wire, self._bases)
        endpoint, scope = self._endpoint
        form = {
            "grant_type": "client_credentials",
            "scope": self._credentials.scope or scope,
            "client_assertion_type": _ASSERTION,
            "client_assertion": self._assertion(endpoint),
        }
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        with self._wire.open("POST", endpoint, headers, body=urlencode(form).encode()) as answer:
            if answer.status != 200:
                raise self._wire.fault(what, endpoint, answer)
            content = _object(self._wire, answer, endpoint)
        token, seconds = content.get("access_token"), content.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RemoteError(f"{what}: {place(endpoint)} answers without one.")
        lives = float(seconds) if isinstance(seconds, int) and seconds > 0 else _DEFAULT_SECONDS
        self._renew_at = self._clock.now() + lives - min(_EARLY_SECONDS, lives / 2)
        return token

    def _assertion(self, endpoint: str) -> str:
        now = int(self._clock.now())
        claims = {
            "iss": self._credentials.client_id,
            "sub": self._credentials.client_id,
            "aud": endpoint,
            "iat": now,
            "exp": now + _ASSERTION_SECONDS,
            "jti": secrets.token_urlsafe(24),
        }
        key, algorithm = self._key
        header = {"alg": algorithm, "typ": "JWT", "kid": key.kid}
        return jwt.encode(header, claims, key, algorithms=[algorithm])


def _discovered(wire: Wire, bases: Sequence[str]) -> tuple[str, str]:
    """Return the token endpoint, and the scope for everything in the syntax of the server."""
    for base in bases:
        address = f"{base}/.well-known/smart-configuration"
        with wire.open("GET", address, {"Accept": "application/json"}) as answer:
            if answer.status in (429, 502, 503, 504):
                raise wire.fault("The server does not say where to get tokens", address, answer)
            if answer.status != 200:
                continue
            content = _object(wire, answer, address)
        endpoint = content.get("token_endpoint")
        if isinstance(endpoint, str) and endpoint:
            listed = content.get("capabilities")
            is_second = isinstance(listed, list) and "permission-v2" in listed
            scope = "system/*.rs" if is_second else "system/*.read"
            return following(address, endpoint), scope
    raise RemoteError(
        f"{place(bases[0])} does not say where to get tokens: there is no token_endpoint at "
        "/.well-known/smart-configuration under it."
    )


def _object(wire: Wire, answer: Any, address: str) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises RemoteError, TransientError."""
    body = wire.read(answer, wire.bounds.answer_bytes, place(address))
    try:
        content = fhir_json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise RemoteError(f"{place(address)} answers with something other than a JSON object.")
    return content


class RemoteServer:
    """The other server, asked with a token where one belongs."""

    def __init__(self, wire: Wire, authorization: Authorization | None) -> None:
        self.wire, self.bounds = wire, wire.bounds
        self.authorization = authorization
        self.requires_token: bool | None = None

    @contextmanager
    def open(
        self, method: str, address: str, headers: dict[str, str], *, with_token: bool = True
    ) -> Iterator[HTTPResponse]:
        """Open an answer; renew a refused token once. Raises TransientError, RemoteError."""
        authorization = self.authorization if with_token else None
        authorize = authorization.header if authorization else _nothing
        for is_last in (False, True):
            with self.wire.open(method, address, headers, authorize=authorize) as answer:
                if authorization and answer.status == 401 and not is_last:
                    authorization.forget()
                    continue
                yield answer
                return

    @contextmanager
    def get(self, address: str, headers: dict[str, str]) -> Iterator[HTTPResponse]:
        """Open a file, with a token where the manifest wants one.

        Raises TransientError, RemoteError.
        """
        # False: the address is the proof, and a token beside it is too much (Bulk Data §2.5.6).
        with_token = self.requires_token is not False
        authorization = self.authorization
        if self.requires_token and authorization and not authorization.goes_to(address):
            raise RemoteError(
                f"{place(address)} wants a token, which only goes to the server of the export; "
                "if it may, name the origin of that address too."
            )
        with self.open("GET", address, headers, with_token=with_token) as answer:
            yield answer

    def fault(self, what: str, address: str, answer: HTTPResponse) -> Exception:
        """Return what to raise for an answer that is none of those that were hoped for."""
        if answer.status == 401 and self.authorization is None:
            what += "; the server wants a client that it knows (--client-id and --key)"
        return self.wire.fault(what, address, answer)


def _nothing(_address: str) -> None:
    return None
