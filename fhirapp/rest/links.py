"""The links and the id of a Bundle. service.md 2.1; decisions 2.1."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode
from uuid import UUID

from fhirapp.address import base_url


def page_link(path: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return the address of a page below /fhir, with the parameters that were applied."""
    query = urlencode(parameters, safe=":,/|$")
    return f"{base_url()}/fhir/{path}" + (f"?{query}" if query else "")


def self_link(resource_type: str) -> str:
    """Return the self link of a search.

    service.md 2.1: under /api, not /fhir, and without the query; FHIR would repeat the search.
    """
    return f"{base_url()}/api/{resource_type}"


def bundle_id(digest: str) -> str:
    """Return a Bundle's id, the same for the same answer; digest is 32 hexadecimal digits."""
    return str(UUID(digest))
