"""JSON as FHIR needs it: decimals keep every digit, and text that is not JSON is refused.

Source: FHIR R4 json §2.6.2.2 (decimals keep their precision), RFC 8259 (no NaN).
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

_INDENTED = orjson.OPT_INDENT_2
_CANONICAL = orjson.OPT_SORT_KEYS


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} stands twice in one object")
    return members


def _integer(text: str) -> int | Decimal:
    """Keep a number that no 64-bit integer holds to the digit, as a decimal."""
    return int(text) if len(text) < 19 else Decimal(text)


_decoder = json.JSONDecoder(
    parse_int=_integer, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique
)


def loads(text: str | bytes) -> Any:
    """Parse JSON; numbers with a fraction, and very large ones, become Decimal. Raises ValueError.

    A member that stands twice in one object is refused: keeping either would lose the other.
    """
    try:
        return _decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except InvalidOperation:
        raise ValueError("a number in it is beyond all bounds") from None


def dumps(content: Any) -> bytes:
    """Return compact JSON, keys in their order."""
    return orjson.dumps(content, _default)


def text(content: Any) -> str:
    """Return compact JSON as text."""
    return orjson.dumps(content, _default).decode()


def dumps_indented(content: Any) -> bytes:
    """Return JSON indented by two spaces, keys in their order."""
    return orjson.dumps(content, _default, _INDENTED)


def canonical(content: Any) -> bytes:
    """Return JSON that is the same for the same content: compact, keys sorted."""
    return orjson.dumps(content, _default, _CANONICAL)


def _default(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    if isinstance(value, bytes):
        return orjson.Fragment(f'"{base64.b64encode(value).decode()}"')
    raise TypeError(f"{type(value).__name__} has no JSON form")
