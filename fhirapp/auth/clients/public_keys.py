"""The public keys of clients that sign their assertions (RS384, ES384), as JSON Web Key Sets.

Source: RFC 7517, RFC 7518 §6; SMART App Launch 2.2 client-confidential-asymmetric.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from fhirapp.config import RefusedCommand

# The algorithm of each type of key.
_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}
_MOST_KEYS, _LONGEST_KID = 50, 255
# RFC 7518 §3.3 asks for 2048; beyond the other a signature takes long to check.
_RSA_BITS = range(2048, 8192 + 1)
# The parts of a public key; key_ops are left out, for those of a private one forbid to verify.
_PUBLIC = ("kty", "kid", "use", "alg", "n", "e", "crv", "x", "y")
# The parts of a JSON Web Key that are secret: RFC 7518 §6.2.2, §6.3.2, §6.4.
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


def public_keys(jwks: Any) -> dict[str, Any]:
    """Return a key set's public part; a single key counts as a set. Raises RefusedCommand.

    Keys that no assertion can be signed with are left out: sets serve other purposes too.
    """
    keys = jwks.get("keys", [jwks]) if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise RefusedCommand("Not a JSON Web Key Set: it must be an object with a list of keys.")
    if len(keys) > _MOST_KEYS:
        raise RefusedCommand("At most %(most)s keys.", most=_MOST_KEYS)
    public = [_public_key(key) for key in keys if _signs(key)]
    if not public:
        raise RefusedCommand(
            "The key set must contain RSA keys for RS384 or P-384 EC keys for ES384."
        )
    try:
        return dict(KeySet.import_key_set({"keys": public}).as_dict(private=False))
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise RefusedCommand("Not a JSON Web Key Set: %(reason)s", reason=error) from None


def has_private_part(jwks: Any) -> bool:
    """Say whether a key set, or a single key, contains what must stay secret."""
    keys = jwks.get("keys", [jwks]) if isinstance(jwks, dict) else ()
    return isinstance(keys, list) and any(
        isinstance(key, dict) and not _SECRET.isdisjoint(key) for key in keys
    )


def describe_keys(jwks: Any) -> list[str]:
    """Return the keys of a set, such as: RSA (RS384), kid 2024."""
    return [
        f"{key['kty']} ({_ALGORITHMS.get(key['kty'], 'unknown')}), kid {key.get('kid', 'unknown')}"
        for key in jwks["keys"]
    ]


def _signs(key: Mapping[str, object]) -> bool:
    """Say whether a key is for the algorithms of assertions."""
    algorithm = _ALGORITHMS.get(str(key.get("kty")))
    if algorithm is None or (algorithm == "ES384" and key.get("crv") != "P-384"):
        return False
    return key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm


def _public_key(key: Mapping[str, object]) -> dict[str, Any]:
    """Return the public part of a key. Raises RefusedCommand."""
    if key["kty"] == "RSA" and _bits(key.get("n")) not in _RSA_BITS:
        raise RefusedCommand(
            "An RSA key must have %(least)s to %(most)s bits.",
            least=_RSA_BITS.start,
            most=_RSA_BITS.stop - 1,
        )
    kid = key.get("kid", "")
    if not isinstance(kid, str) or len(kid) > _LONGEST_KID or not kid.isprintable():
        raise RefusedCommand(
            "A kid must have at most %(longest)s printable characters.", longest=_LONGEST_KID
        )
    return {name: key[name] for name in _PUBLIC if name in key}


def _bits(modulus: object) -> int:
    """Return the length of an RSA key, 0 where its modulus cannot be read."""
    try:
        return int.from_bytes(base64.urlsafe_b64decode(f"{modulus}==")).bit_length()
    except ValueError:
        return 0
