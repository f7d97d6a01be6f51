"""history-instance: a resource's versions, newest first. FHIR R4 http §3.1.0.12; decisions §5."""

from __future__ import annotations

from hashlib import blake2b

from flask import Response

from fhirapp.config import settings
from fhirapp.db import reader
from fhirapp.fhir.bundle import Entry, bundle, interaction
from fhirapp.fhir.outcome import InvalidParameter, NotFound, RepeatedParameter, UnsupportedParameter
from fhirapp.fhir.temporal import Interval, instant_of, interval
from fhirapp.rest.access import access_to
from fhirapp.rest.links import bundle_id, page_link
from fhirapp.rest.negotiation import arguments, wanted_form
from fhirapp.rest.read import COLUMNS, Version, reaches_newest, version_visible
from fhirapp.rest.response import fhir_address, respond, with_addresses
from fhirapp.rest.visibility import visible
from fhirapp.search.condition import Condition
from fhirapp.search.controls import parse_count
from fhirapp.search.values import SHOWN
from fhirapp.store.definition import Definition

_KNOWN = ("_count", "_since", "_at", "_format", "_pretty", "_before")


def history_instance(definition: Definition, resource_id: str) -> Response:
    """Return the history Bundle. Raises NotFound, InvalidParameter."""
    access = access_to(definition, "r")
    given = _given()
    form = wanted_form(arguments())
    snapshot = reader()
    parts = [Condition("r.id = ?", (resource_id,))]
    limit = visible(definition, access, "r")
    if limit is not None:
        parts.append(limit.where())
    rows = snapshot.all(
        f"SELECT {COLUMNS} FROM {definition.sql_table} r"
        f" WHERE {' AND '.join(part.sql for part in parts)} ORDER BY r.version_id DESC",
        [value for part in parts for value in part.values],
    )
    versions = [Version(*row) for row in rows]
    versions = [
        one for one in versions if version_visible(snapshot, definition, access, resource_id, one)
    ]
    if not versions or not reaches_newest(snapshot, definition, access, resource_id):
        raise NotFound(f"{definition.name}/{resource_id} is not known here.")
    matching = _in_time(versions, given)
    before = _before(given.get("_before"))
    config = settings()
    count = parse_count(given.get("_count"), config.page_size, config.page_max)
    rest = [one for one in matching if before is None or one.version_id < before]
    page = rest[:count]
    path = f"{definition.name}/{resource_id}/_history"
    kept = [(name, value) for name, value in given.items() if name != "_before"]
    links = [("self", page_link(path, list(given.items()))), ("first", page_link(path, kept))]
    if page and len(rest) > len(page):
        more = [*kept, ("_before", str(page[-1].version_id))]
        links.append(("next", page_link(path, more)))
    rendering = (config.inline_max, config.empty_content)
    key = repr((links, len(matching), [one.version_id for one in page], rendering))
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    body = bundle(
        bundle_id(digest),
        "history",
        len(matching),
        links,
        (_entry(definition, resource_id, one) for one in page),
    )
    return respond(body, form, etag=f'W/"{digest}"', last_modified=versions[0].last_updated)


def _given() -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in arguments():
        if name not in _KNOWN:
            raise UnsupportedParameter(name, "is not a parameter of history")
        if name in given:
            raise RepeatedParameter(name, "may be given once")
        if value:
            given[name] = value
    return given


def _in_time(versions: list[Version], given: dict[str, str]) -> list[Version]:
    """Return the versions that `_since` and `_at` leave, newest first."""
    found = versions
    if "_since" in given:
        since = instant_of(_interval("_since", given["_since"]).low)
        found = [one for one in found if one.last_updated >= since]
    if "_at" in given:
        low, high = map(instant_of, _interval("_at", given["_at"]))
        # A version was current at some time of the interval: published before its end, and not
        # replaced before its start.
        replaced = {one.version_id: one.last_updated for one in versions}
        found = [
            one
            for one in found
            if one.last_updated < high and replaced.get(one.version_id + 1, high) > low
        ]
    return found


def _interval(name: str, value: str) -> Interval:
    try:
        return interval(value.replace(" ", "+"))
    except ValueError as error:
        raise InvalidParameter(name, f"{value[:SHOWN]!r} {error}") from None


def _before(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise InvalidParameter("_before", "is not one of this server's; start from the first page")
    return int(value)


def _entry(definition: Definition, resource_id: str, version: Version) -> Entry:
    path = f"{definition.name}/{resource_id}"
    if version.deleted:
        method, status = "DELETE", "204 No Content"
    elif version.version_id == 1:
        method, status = "PUT", "201 Created"
    else:
        method, status = "PUT", "200 OK"
    beside = interaction(
        {"method": method, "url": path},
        {
            "status": status,
            "etag": f'W/"{version.version_id}"',
            "lastModified": version.last_updated,
        },
    )
    body = None if version.body is None else with_addresses(version.body, definition.attachments)
    return Entry(fhir_address(path), body, beside)
