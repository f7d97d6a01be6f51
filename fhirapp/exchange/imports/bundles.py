"""Bundles: what each entry asks for, and where the addresses within one lead.

Source: FHIR R4 bundle §2.36.4 (resolving references), http §3.1.0.11 (transaction and batch).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import quote

from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.search.values import escape

_URN = re.compile(r"urn:uuid:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_AT_SERVER = re.compile(
    rf"(https?://.+/)([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?"
)
_ITEM = re.compile(rf"([A-Z][A-Za-z]+)/({ID_PATTERN})")
# Bundles whose entries are resources to take; in searches some are the server's own words.
_PLAIN = ("collection", "document", "message", "searchset")
TYPES = (*_PLAIN, "transaction", "batch", "history")


class WhenFound(Enum):
    """What comes of a resource whose condition finds one."""

    # It is that one's next version.
    IT_IS = "it is"
    # Nothing: it was to be created where there is none.
    SKIP = "skip"
    # Nothing, unless it is that one itself.
    SKIP_OTHER = "skip other"


class InvalidEntry(ValueError):
    """An entry that asks for what no import does; str() says what, path where."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Entry(NamedTuple):
    """What an entry of a Bundle asks for.

    resource is None for a deletion, of which target is the Type/id. condition is the query that a
    creation or a change depends on, when_found what comes of it where one is found.
    """

    resource: dict[str, Any] | None
    full_url: str
    target: str = ""
    condition: str = ""
    when_found: WhenFound = WhenFound.IT_IS


def read_entry(entry: Any, bundle_type: str) -> Entry | None:
    """Return what an entry asks for, None where that is nothing to import. Raises InvalidEntry."""
    if type(entry) is not dict:
        raise InvalidEntry("Bundle.entry", "must be a JSON object")
    full_url, resource = entry.get("fullUrl", ""), entry.get("resource")
    if type(full_url) is not str:
        raise InvalidEntry("Bundle.entry.fullUrl", "must be a uri, written as a JSON string")
    if resource is not None and type(resource) is not dict:
        raise InvalidEntry("Bundle.entry.resource", "must be a resource, a JSON object")
    if bundle_type not in ("transaction", "batch"):
        search = entry.get("search")
        if type(search) is dict and search.get("mode") == "outcome":
            return None
        return None if resource is None else Entry(resource, full_url)
    request = entry.get("request")
    if type(request) is not dict:
        raise InvalidEntry("Bundle.entry.request", f"is required in a {bundle_type}")
    return _requested(request, resource, full_url)


def _requested(
    request: Mapping[str, Any], resource: dict[str, Any] | None, full_url: str
) -> Entry | None:
    method, url = request.get("method"), str(request.get("url", ""))
    if method in ("GET", "HEAD"):
        return None
    if method == "DELETE":
        if not _ITEM.fullmatch(url):
            raise InvalidEntry("Bundle.entry.request.url", "must be Type/id in a DELETE")
        return Entry(None, full_url, url)
    if method not in ("POST", "PUT"):
        where = "Bundle.entry.request.method"
        raise InvalidEntry(where, "must be POST, PUT or DELETE: no other is imported")
    if resource is None:
        raise InvalidEntry("Bundle.entry.resource", f"is required with {method}")
    type_name = str(resource.get("resourceType"))
    if method == "POST":
        condition = request.get("ifNoneExist")
        query = f"{type_name}?{str(condition).lstrip('?')}" if condition else ""
        return Entry(resource, full_url, condition=query, when_found=WhenFound.SKIP)
    if url.startswith(f"{type_name}?"):
        return Entry(resource, full_url, condition=url)
    if url != f"{type_name}/{resource.get('id')}":
        where = "Bundle.entry.request.url"
        raise InvalidEntry(where, "must be Type/id of the resource, or Type?condition, in a PUT")
    return Entry(resource, full_url)


def identity(entry: Entry) -> str | None:
    """Return the id that an entry's resource gets: its own, else that of its urn:uuid: address.

    Without one of them it is the same at every import that a new one would differ.
    """
    resource = entry.resource or {}
    if type(own := resource.get("id")) is str:
        return own
    if found := _URN.fullmatch(entry.full_url):
        return found[1].lower()
    found = _AT_SERVER.fullmatch(entry.full_url)
    return found[3] if found else None


def known_as(type_name: str, identifiers: Iterable[tuple[str, str]]) -> str:
    """Return the condition that finds a resource by any of these: (system, value)."""
    values = ",".join(f"{escape(system)}|{escape(value)}" for system, value in identifiers)
    return f"{type_name}?identifier={quote(values, safe=':/|,')}" if values else ""


def server_of(address: str) -> tuple[str, str] | None:
    """Return (base, Type/id) of an absolute address of a resource; None for any other address."""
    found = _AT_SERVER.fullmatch(address)
    return (found[1], f"{found[2]}/{found[3]}") if found else None
