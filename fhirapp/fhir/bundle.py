"""Bundles put together from stored bytes: no resource is parsed to answer a search or a history.

A body is a resource's JSON, indented by two spaces from the left margin. Source: FHIR R4 bundle
§2.36; service.md 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fhirapp.fhir import json as fhir_json

_LINE = re.compile(rb"\n *")
# A resource in a Bundle stands three levels deep.
_DEEPER = b"\n      "


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
    return mode % fhir_json.dumps(round(score, 4))


MATCH = searched("match")
INCLUDE = searched("include")
OUTCOME = searched("outcome")


def interaction(request: Mapping[str, str], response: Mapping[str, str]) -> bytes:
    """Return what stands beside the resource of a history's entry."""
    text = fhir_json.dumps_indented({"request": request, "response": response})
    return b"," + text[1:-2].replace(b"\n", b"\n    ")


def bundle(
    bundle_id: str,
    kind: str,
    total: int | None,
    links: Sequence[tuple[str, str]],
    entries: Iterable[Entry],
) -> bytes:
    """Return a Bundle of type kind; links are (relation, url). No entries, no `entry`."""
    head: dict[str, Any] = {"resourceType": "Bundle", "id": bundle_id, "type": kind}
    if total is not None:
        head["total"] = total
    head["link"] = [{"relation": relation, "url": url} for relation, url in links]
    parts = [fhir_json.dumps_indented(head)[:-2]]
    opening = b',\n  "entry": [\n    {'
    for full_url, body, beside in entries:
        parts.append(opening)
        opening = b",\n    {"
        if full_url:
            parts.append(b'\n      "fullUrl": %s' % fhir_json.dumps(full_url))
            if body is not None:
                parts.append(b",")
        if body is not None:
            parts += (b'\n      "resource": ', body.replace(b"\n", _DEEPER))
        parts += (beside, b"\n    }")
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
    return fhir_json.dumps_indented(content).replace(b"\n", b"\n  ")


def compact(indented: bytes) -> bytes:
    """Return indented JSON on one line; the text in it has no line ends, they are escaped."""
    return _LINE.sub(b"", indented)
