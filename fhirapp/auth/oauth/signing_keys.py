"""The keys that sign id tokens with RS256: one is active, all are published at /oauth/jwks.json.

Source: RFC 7517; OpenID Connect Core §10.1.1.
"""

from __future__ import annotations

import json
import secrets
import time
from functools import lru_cache
from typing import Any, NamedTuple

from joserfc.jwk import RSAKey

from fhirapp.auth.server_secrets import server_secrets
from fhirapp.config import ConfigurationError, settings

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
