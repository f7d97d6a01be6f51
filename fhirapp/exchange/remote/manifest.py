"""What a server says that an export brought: its files, and what was deleted meanwhile.

Source: FHIR Bulk Data Access 2.0, §2.5.6 (complete status).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from fhirapp.exchange.remote.address import following, place
from fhirapp.exchange.remote.faults import RemoteError, shown
from fhirapp.fhir import json as fhir_json

OUTPUT, DELETED, ERROR = KINDS = ("output", "deleted", "error")
# Whole, since what narrows an export may stand at its end.
_LONGEST_REQUEST = 20_000


class Entry(NamedTuple):
    """A file that is offered; resources and size in bytes where they are told."""

    kind: str
    type: str
    address: str
    resources: int | None
    size: int | None


class Offer(NamedTuple):
    """A page of a manifest; next is the address of the page after it."""

    transaction_time: str | None
    request: str | None
    requires_token: bool | None
    entries: tuple[Entry, ...]
    next: str | None


def read_manifest(body: bytes, address: str) -> Offer:
    """Return what a manifest at an address says. Raises RemoteError where it is none."""
    try:
        content = fhir_json.loads(body)
    except ValueError:
        raise _no_manifest(address, "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get(OUTPUT), list):
        raise _no_manifest(address, "it has no list of output")
    needs = content.get("requiresAccessToken")
    return Offer(
        _text(content.get("transactionTime")),
        _text(content.get("request"), _LONGEST_REQUEST),
        needs if isinstance(needs, bool) else None,
        tuple(_entries(content, address)),
        _next(content, address),
    )


def _entries(content: dict[str, Any], address: str) -> Iterator[Entry]:
    for kind in KINDS:
        listed = content.get(kind) or []
        if not isinstance(listed, list):
            raise _no_manifest(address, f"its {kind} is no list")
        for one in listed:
            url = one.get("url") if isinstance(one, dict) else None
            if not isinstance(url, str) or not url:
                raise _no_manifest(address, f"a file of its {kind} has no url")
            type_name = _text(one.get("type")) or ""
            size = _number(one.get("fileSize"))
            yield Entry(kind, type_name, following(address, url), _number(one.get("count")), size)


def _next(content: dict[str, Any], address: str) -> str | None:
    """Return where a manifest that comes in pages goes on."""
    links = content.get("link")
    for one in links if isinstance(links, list) else ():
        if isinstance(one, dict) and one.get("relation") == "next":
            url = one.get("url")
            if not isinstance(url, str):
                raise _no_manifest(address, "its next page has no url")
            return following(address, url)
    return None


def _text(value: Any, longest: int = 300) -> str | None:
    return shown(value, longest) if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_whole else None


def _no_manifest(address: str, why: str) -> RemoteError:
    where = place(address)
    return RemoteError(
        f"{where} is no manifest of a Bulk Data export ({why}); to export from a FHIR server, name "
        f"its export address, such as {where.rstrip('/')}/$export."
    )
