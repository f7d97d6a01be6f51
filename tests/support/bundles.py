"""Builders of Bundles and their entries."""

from __future__ import annotations

from typing import Any


def bundle(kind: str, *entries: Any) -> dict[str, Any]:
    """Return a Bundle."""
    return {"resourceType": "Bundle", "type": kind, "entry": [*entries]}


def asked(method: str, url: str, resource: Any = None, address: str = "", **more: str) -> Any:
    """Return an entry of a transaction or batch."""
    entry: dict[str, Any] = {"request": {"method": method, "url": url, **more}}
    if address:
        entry["fullUrl"] = address
    if resource is not None:
        entry["resource"] = resource
    return entry


def plain(resource: Any, address: str = "") -> dict[str, Any]:
    """Return an entry of a collection."""
    return {"fullUrl": address, "resource": resource} if address else {"resource": resource}


def put(resource: dict[str, Any]) -> Any:
    """Return an entry that puts a resource where its id says."""
    return asked("PUT", f"{resource['resourceType']}/{resource['id']}", resource)


def history(*versions: dict[str, Any] | str, numbers: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a history Bundle of versions of resources, oldest first; a deletion is Type/id.

    A version without meta has its place as its number, or that of `numbers`, and its month.
    """
    entries = []
    for place, version in enumerate(versions):
        number = numbers[place] if numbers else place + 1
        instant = f"2026-0{number}-01T00:00:00.000+00:00"
        if isinstance(version, str):
            entry = asked("DELETE", version)
        else:
            meta = version.get("meta", {"versionId": str(number), "lastUpdated": instant})
            number, instant = meta["versionId"], meta["lastUpdated"]
            entry = put({**version, "meta": meta})
        response = {"status": "200", "etag": f'W/"{number}"', "lastModified": instant}
        entries.append({"fullUrl": entry["request"]["url"], **entry, "response": response})
    # Newest first, as servers send it.
    return bundle("history", *reversed(entries))
