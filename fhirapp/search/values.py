"""Values: where they stand in a resource, and how a request writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fhirapp.fhir.outcome import InvalidParameter

# So much of a value is repeated in an answer; of tokens and references nothing, they name people.
SHOWN = 40
# An explanation, which the client asked for, repeats what the client sent, these too.
_TOLD = 200


@cache
def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def values_at(resource: Mapping[str, Any], path: str) -> list[Any]:
    """Return the values at an element path, lists taken apart."""
    first, *rest = _steps(path)
    values = _members(resource.get(first))
    for step in rest:
        values = [
            member
            for value in values
            if isinstance(value, dict)
            for member in _members(value.get(step))
        ]
    return values


def _members(value: Any) -> list[Any]:
    """Return a list's members, or the value as the only one; null is none."""
    if isinstance(value, list):
        return [item for item in value if item is not None] if None in value else value
    return [] if value is None else [value]


def split(value: str, separator: str) -> list[str]:
    r"""Split at a separator that no backslash escapes; the escapes stay. FHIR R4 search §3.1.1.4.0.

    split(r"a\,b,c", ",") is [r"a\,b", "c"].
    """
    if "\\" not in value:
        return value.split(separator)
    pieces = re.findall(r"\\.|.", value, re.DOTALL)
    parts = [""]
    for piece in pieces:
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def escape(text: str) -> str:
    """Return text with a backslash before what separates values. FHIR R4 search §3.1.1.4.4."""
    return re.sub(r"([\\,|$])", r"\\\1", text)


def unescape(value: str) -> str:
    r"""Take the backslash off `\,`, `\|`, `\$` and `\\`."""
    return re.sub(r"\\([,|$\\])", r"\1", value) if "\\" in value else value


def told(value: str) -> str:
    """Return a value as an explanation repeats it to the client that sent it."""
    return repr(value if len(value) <= _TOLD else f"{value[:_TOLD]}…")


def parse_boolean(name: str, value: str) -> bool:
    """Read true or false. Raises InvalidParameter."""
    if value not in ("true", "false"):
        raise InvalidParameter(name, f"{value[:SHOWN]!r} is not a boolean; use true or false")
    return value == "true"
