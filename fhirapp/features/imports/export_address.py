"""Addresses of exports, which may be in a manifest that is imported."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import parse_qsl

from fhirapp.url_syntax import split_address

_LONGEST = 300
EXPORT = re.compile(r"(?P<base>.*?)/+(?P<level>Patient/+|Group/+[^/]+/+)?(?:\$|%24)export/*")
# Parameters of an export that say how it is written; any other may leave something out.
_OF_FORM = frozenset(
    {"_format", "_outputFormat", "_pretty", "allowPartialManifests", "organizeOutputBy"}
)


def sanitize(text: str, longest: int = _LONGEST) -> str:
    """Return another server's text on one line, without control characters, and cut."""
    # Cut first: it may be megabytes. Twice as much, since spaces may fall away.
    plain = "".join(
        " " if unicodedata.category(letter)[0] in "CZ" else letter for letter in text[: 2 * longest]
    )
    words = " ".join(plain.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def restriction_of(address: str) -> str:
    """Return by what the address of an export asks for less than all, empty where by nothing."""
    parts = split_address(address)
    found = EXPORT.fullmatch(parts.path)
    if found is None:
        return "another address than …/$export"
    query = parse_qsl(parts.query, keep_blank_values=True)
    narrows = [sanitize(name, 64) for name, _ in query if name not in _OF_FORM]
    if address.endswith("…"):
        narrows.append("more than can be read")
    if level := found["level"]:
        narrows.insert(0, f"{level.partition('/')[0]}/…$export")
    return " and ".join(dict.fromkeys(narrows))
