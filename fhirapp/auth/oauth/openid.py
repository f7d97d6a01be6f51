"""OpenID Connect: the id token that comes with an authorization code, the keys that sign it, and
who the user is.

Keys are for RS256; one is active, and all are published at /oauth/jwks.json.
Source: OpenID Connect Core §2, §3.1, §5.3;
SMART App Launch 2.2 §Scopes for requesting identity data.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

from authlib.oidc.core import OpenIDCode, UserInfo
from joserfc.jwk import KeySet, RSAKey

from fhirapp import urls
from fhirapp.auth import scopes
from fhirapp.auth.models import User
from fhirapp.auth.protector import current_token, insufficient_scope
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.auth.users.accounts import fhir_user_of
from fhirapp.config import ConfigurationError, settings
from fhirapp.db import db

ALGORITHM = "RS256"
NAME = "signing-keys.json"
# Longer than clients may keep the published keys (JWKS_SECONDS).
PUBLISHED_BEFORE_SECONDS = 600
JWKS_SECONDS = 300
# Longer than an id token lives.
KEPT_SECONDS = 86_400
# RFC 7517 §4, RFC 7518 §6.3.1: what of an RSA key may be told.
_PUBLIC = ("kty", "n", "e", "kid", "alg", "use")


class PublishedKey(NamedTuple):
    """A published key; signs_from is in seconds since 1970, 0 for the one of the first start."""

    kid: str
    signs_from: int


def active_key(now: float | None = None) -> RSAKey:
    """Return the key that signs now: the newest of those whose time has come."""
    moment = time.time() if now is None else now
    stored = [entry for entry in _read_keys() if entry["signs_from"] <= moment]
    newest = max(stored, key=lambda entry: entry["signs_from"])
    return _import_key(json.dumps(newest["key"]))


@lru_cache(maxsize=2)
def _import_key(key: str) -> RSAKey:
    """Return a key from its JSON; to check its primes takes 0.15 s."""
    return RSAKey.import_key(json.loads(key))


def public_keys() -> dict[str, Any]:
    """Return the JSON Web Key Set of the keys to check id tokens with."""
    keys = [entry["key"] for entry in _read_keys()]
    return {"keys": [{name: key[name] for name in _PUBLIC if name in key} for key in keys]}


def published() -> list[PublishedKey]:
    """Return which keys are published, the one that signs last first."""
    keys = [PublishedKey(entry["key"]["kid"], entry["signs_from"]) for entry in _read_keys()]
    return sorted(keys, key=lambda key: key.signs_from, reverse=True)


def rotate(now: int) -> int:
    """Add a key; return the second from which it signs. now is in seconds.

    Keys that no living token was signed with are dropped. Raises ConfigurationError.
    """
    signs_from = now + PUBLISHED_BEFORE_SECONDS
    # Before other writers have to wait.
    new = _new(signs_from)
    server_secrets().change(NAME, make_first, lambda content: _with(content, new, now))
    return signs_from


def make_first() -> bytes:
    """Return what is kept at first: one key, which signs from the beginning."""
    return _format_keys([_new(0)])


def prepare() -> None:
    """Check that the keys can be read, and make them where there are none.

    Raises ConfigurationError.
    """
    _read_keys()


def _with(content: bytes, new: dict[str, Any], now: int) -> bytes:
    """Return the keys with another one, without those that are of no use any more."""
    stored = _parse_keys(content)
    begun = sorted(entry["signs_from"] for entry in stored if entry["signs_from"] <= now)
    # The active one, and those it took over from not long ago.
    current = [
        entry
        for place, entry in enumerate(sorted(stored, key=lambda entry: entry["signs_from"]))
        if place + 1 >= len(begun) or begun[place + 1] > now - KEPT_SECONDS
    ]
    return _format_keys([*current, new])


def _read_keys() -> list[dict[str, Any]]:
    return _parse_keys(server_secrets().read(NAME, make_first))


def _parse_keys(content: bytes) -> list[dict[str, Any]]:
    try:
        keys: list[dict[str, Any]] = json.loads(content)["keys"]
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"The signing keys {settings().instance / NAME} cannot be read; delete the file, and a "
            "new one is made."
        ) from None
    return keys


def _new(signs_from: int) -> dict[str, Any]:
    kid = secrets.token_hex(8)
    # Of 128 bits of security (NIST SP 800-57), as all else here.
    key = RSAKey.generate_key(3072, {"kid": kid, "alg": ALGORITHM, "use": "sig"})
    return {"signs_from": signs_from, "key": key.as_dict(private=True)}


def _format_keys(stored: list[dict[str, Any]]) -> bytes:
    return json.dumps({"keys": stored}, indent=2).encode()


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
