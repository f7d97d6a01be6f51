"""JSON as FHIR needs it, and Bundles assembled from stored bytes.

Decimals keep every digit, and text that is not JSON is refused. A search or a history is answered
without parsing a resource: a body is its JSON, indented by two spaces from the left margin.
Source: FHIR R4 json §2.6.2.2, bundle §2.36; RFC 8259 (no NaN); service.md 2.1.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

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


_LINE = re.compile(rb"\n *")
# A resource in a Bundle stands three levels deep.
_DEEPER = b"\n      "
_WITH_URL = b'\n      "fullUrl": %s,\n      "resource": %s'


class Entry(NamedTuple):
    """An entry: its resource's body, None for a deletion, and what stands beside it."""

    full_url: str
    body: bytes | None
    beside: bytes


def searched(mode: str) -> bytes:
    """Return what stands beside the resource of a search's entry: match, include or outcome."""
    return b',\n      "search": {\n        "mode": "%s"\n      }' % mode.encode()


def scored(score: float) -> bytes:
    """Return what stands beside a match that has a score, from 0 to 1."""
    mode = b',\n      "search": {\n        "mode": "match",\n        "score": %s\n      }'
    return mode % dumps(round(score, 4))


MATCH = searched("match")
INCLUDE = searched("include")
OUTCOME = searched("outcome")


def outcome(content: Mapping[str, Any]) -> Entry:
    """Return the entry of an OperationOutcome; its fullUrl is made of what it says."""
    body = dumps_indented(content)
    name = UUID(bytes=blake2b(body, digest_size=16).digest(), version=5)
    return Entry(name.urn, body, OUTCOME)


def beside(**members: Mapping[str, Any]) -> bytes:
    """Return members that stand beside the resource of an entry: its request, its response."""
    return b"," + dumps_indented(members)[1:-2].replace(b"\n", b"\n    ")


def bundle(
    bundle_id: str,
    kind: str,
    total: int | None,
    links: Sequence[tuple[str, str]],
    entries: Iterable[Entry],
    **further: Any,
) -> bytes:
    """Return a Bundle of type kind; links are (relation, url). No entries, no `entry`.

    further are other elements of it, such as the identifier of a document.
    """
    head: dict[str, Any] = {"resourceType": "Bundle", "id": bundle_id, "type": kind, **further}
    if total is not None:
        head["total"] = total
    if links:
        head["link"] = [{"relation": relation, "url": url} for relation, url in links]
    parts = [dumps_indented(head)[:-2]]
    opening = b',\n  "entry": [\n    {'
    for full_url, body, beside in entries:
        if body is None:
            members = b'\n      "fullUrl": %s' % orjson.dumps(full_url) if full_url else b""
        elif full_url:
            members = _WITH_URL % (orjson.dumps(full_url), body.replace(b"\n", _DEEPER))
        else:
            members = b'\n      "resource": %s' % body.replace(b"\n", _DEEPER)
        parts += (opening, members, beside, b"\n    }")
        opening = b",\n    {"
    if len(parts) > 1:
        parts.append(b"\n  ]")
    parts.append(b"\n}")
    return b"".join(parts)


def members_of(body: bytes) -> dict[str, bytes]:
    """Return the members of a body by name, each one's JSON as it stands there.

    Only they stand two spaces from the margin, and text has no line ends.
    """
    inside = body[len(b'{\n  "') : -len(b"\n}")]
    parted = (member.partition(b'": ') for member in inside.split(b',\n  "'))
    return {name.decode(): text for name, _, text in parted}


def body_of(members: Mapping[str, bytes]) -> bytes:
    """Return the body that has these members."""
    inside = b",".join(b'\n  "%s": %s' % (name.encode(), text) for name, text in members.items())
    return b"{%s\n}" % inside


def member(content: Any) -> bytes:
    """Return the JSON of a member of a body."""
    return dumps_indented(content).replace(b"\n", b"\n  ")


def compact(indented: bytes) -> bytes:
    """Return indented JSON on one line; the text in it has no line ends, they are escaped."""
    return _LINE.sub(b"", indented)
