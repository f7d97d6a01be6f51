"""Bundles: what each entry requests, and where the addresses within one lead.

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
_ON_SERVER = re.compile(
    rf"(https?://.+/)([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?"
)
_NAME = re.compile(rf"([A-Z][A-Za-z]+)/({ID_PATTERN})")
_REQUESTS = ("transaction", "batch")
BUNDLE_TYPES = ("collection", "document", "message", "searchset", *_REQUESTS, "history")


class OnMatch(Enum):
    """What comes of a resource whose condition finds another."""

    # It becomes the next version of that one.
    UPDATE = "update"
    # Nothing: it was to be created only where there is none.
    SKIP = "skip"
    # Nothing, unless it is that one itself.
    SKIP_OTHER = "skip other"


class InvalidEntry(ValueError):
    """An entry that cannot be imported; str() says what is expected at path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Entry(NamedTuple):
    """What an entry of a Bundle requests.

    resource is None for a deletion, whose Type/id is target. condition is the query that a creation
    or an update depends on.
    """

    resource: dict[str, Any] | None
    full_url: str
    target: str = ""
    condition: str = ""
    on_match: OnMatch = OnMatch.UPDATE


def read_entry(entry: Any, bundle_type: str) -> Entry | None:
    """Return what an entry requests, None for nothing to import. Raises InvalidEntry."""
    if type(entry) is not dict:
        raise InvalidEntry("Bundle.entry", "must be a JSON object")
    full_url, resource = entry.get("fullUrl", ""), entry.get("resource")
    if type(full_url) is not str:
        raise InvalidEntry("Bundle.entry.fullUrl", "must be a uri, written as a JSON string")
    if resource is not None and type(resource) is not dict:
        raise InvalidEntry("Bundle.entry.resource", "must be a resource, a JSON object")
    if bundle_type not in _REQUESTS:
        search = entry.get("search")
        # The server's own remarks on a search are no records.
        is_outcome = type(search) is dict and search.get("mode") == "outcome"
        return None if resource is None or is_outcome else Entry(resource, full_url)
    request = entry.get("request")
    if type(request) is not dict:
        raise InvalidEntry("Bundle.entry.request", f"is required in a {bundle_type}")
    return _read_request(request, resource, full_url)


def _read_request(
    request: Mapping[str, Any], resource: dict[str, Any] | None, full_url: str
) -> Entry | None:
    method, url = request.get("method"), str(request.get("url", ""))
    if method in ("GET", "HEAD"):
        return None
    if method == "DELETE":
        if not _NAME.fullmatch(url):
            raise InvalidEntry("Bundle.entry.request.url", "must be Type/id in a DELETE")
        return Entry(None, full_url, url)
    if method not in ("POST", "PUT"):
        path = "Bundle.entry.request.method"
        raise InvalidEntry(path, "must be POST, PUT or DELETE: no other is imported")
    if resource is None:
        raise InvalidEntry("Bundle.entry.resource", f"is required with {method}")
    type_name = str(resource.get("resourceType"))
    if method == "POST":
        query = str(request.get("ifNoneExist") or "").lstrip("?")
        condition = f"{type_name}?{query}" if request.get("ifNoneExist") else ""
        return Entry(resource, full_url, condition=condition, on_match=OnMatch.SKIP)
    if url.startswith(f"{type_name}?"):
        return Entry(resource, full_url, condition=url)
    if url != f"{type_name}/{resource.get('id')}":
        path = "Bundle.entry.request.url"
        raise InvalidEntry(path, "must be Type/id of the resource, or Type?condition, in a PUT")
    return Entry(resource, full_url)


def entry_id(entry: Entry) -> str | None:
    """Return the id that an entry's resource gets: its own, else the one in its fullUrl.

    It is the same at every import; without one of them a new id would differ each time.
    """
    own = (entry.resource or {}).get("id")
    if type(own) is str:
        return own
    if urn := _URN.fullmatch(entry.full_url):
        return urn[1].lower()
    address = _ON_SERVER.fullmatch(entry.full_url)
    return address[3] if address else None


def identifier_condition(type_name: str, identifiers: Iterable[tuple[str, str]]) -> str:
    """Return the condition that finds a resource by any of these (system, value), "" for none."""
    values = ",".join(f"{escape(system)}|{escape(value)}" for system, value in identifiers)
    return f"{type_name}?identifier={quote(values, safe=':/|,')}" if values else ""


def split_address(address: str) -> tuple[str, str] | None:
    """Return (base, Type/id) of an absolute address of a resource, None for any other address."""
    parts = _ON_SERVER.fullmatch(address)
    return (parts[1], f"{parts[2]}/{parts[3]}") if parts else None
