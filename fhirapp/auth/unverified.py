"""What a JWT says, before anything proves it: read so that no bytes break the reader.

The libraries that verify JWTs fail in many ways on what no client sends: arrays nested a thousand
deep, a number where a list belongs. What is read here they can read.
Source: RFC 7515 §4.1.11, §7.1; RFC 7519 §4.1.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

_DEEPEST = 20
_HEADER: Mapping[str, Any] = dict.fromkeys(("alg", "typ", "cty", "kid", "jku"), str)
_CLAIMS: Mapping[str, Any] = {"iss": str, "sub": str, "jti": str, "aud": str | list}


class InvalidJwt(ValueError):
    """It is no JWT that can be verified; str() says why, and repeats nothing of it."""


class UnverifiedJwt(NamedTuple):
    """The header and the claims of a JWT, as it says."""

    header: dict[str, Any]
    claims: dict[str, Any]


def read_jwt(text: str) -> UnverifiedJwt:
    """Read a signed JWT in the compact form. Raises InvalidJwt."""
    parts = text.split(".")
    if len(parts) != 3:
        raise InvalidJwt("It is not a signed JWT.")
    header, claims = _json_object(parts[0]), _json_object(parts[1])
    if "crit" in header:
        raise InvalidJwt("Its header has crit, and no extension is known here.")
    for members, types in ((header, _HEADER), (claims, _CLAIMS)):
        for name, type_ in types.items():
            if name in members and not isinstance(members[name], type_):
                raise InvalidJwt(f"{name} is of the wrong type.")
    for name in ("exp", "nbf", "iat"):
        if name in claims and not _is_time(claims[name]):
            raise InvalidJwt(f"{name} is of the wrong type.")
    return UnverifiedJwt(header, claims)


def _json_object(part: str) -> dict[str, Any]:
    try:
        content = orjson.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        content = None
    if not isinstance(content, dict) or not _is_shallow(content):
        raise InvalidJwt("Its header or its claims are not a JSON object that can be read.")
    return content


def _is_shallow(content: Any) -> bool:
    """Say whether arrays and objects are nested less deep than where readers give up."""
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            member
            for value in level
            for member in (value.values() if isinstance(value, dict) else value)
            if isinstance(member, dict | list)
        ]
        if not level:
            return True
    return False


def _is_time(value: Any) -> bool:
    """Say whether a value is a NumericDate that fits a calendar."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
