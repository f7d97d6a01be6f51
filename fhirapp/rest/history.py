"""history: the versions of a resource, of a type, or of all, newest first, deletions among them.

A page begins after a place, that of the last version of the page before in the order of all. A
version and its place never change, so a walk through the pages meets each version that was there
at its start once, whatever is published meanwhile. The order of a type's history is that of time,
which FHIR asks for and `_since` compares; of versions that share one, as those of one import do,
the greater row number is the newer.

Source: FHIR R4 http §3.1.0.12, §3.1.0.16; decisions §5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from flask import Blueprint, Response, current_app
from itsdangerous import BadData, URLSafeSerializer

from fhirapp.auth.protector import authenticate, insufficient_scope
from fhirapp.auth.scopes import Access
from fhirapp.config import settings
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir.json import Entry, beside, bundle
from fhirapp.fhir.outcome import InvalidParameter, NotFound, RepeatedParameter, UnsupportedParameter
from fhirapp.fhir.temporal import Interval, instant_of, interval
from fhirapp.keys import key_of
from fhirapp.rest import response
from fhirapp.rest.access import access_to, reaches
from fhirapp.rest.paging import bundle_id, page_link
from fhirapp.rest.read import COLUMNS, StoredVersion, find_version, visible_versions
from fhirapp.rest.recorder import note_all_served
from fhirapp.search.query import parse_count
from fhirapp.search.values import SHOWN, Condition, all_of, is_in

blueprint = Blueprint("history", __name__)
_KNOWN = ("_count", "_since", "_at", "_cursor", *response.FORM_PARAMETERS)
_UNSUPPORTED = {
    "_list": "is not supported here",
    "_sort": "is not supported here; a history is sorted newest first",
}


@dataclass(frozen=True)
class _Parameters:
    """What a request asks of a history; since and at are instants, at the two ends of an interval.

    values are the parameters that have a value, as they stand in links.
    """

    layout: response.Layout
    count: int
    values: Mapping[str, str]
    since: str | None
    at: tuple[str, str] | None

    @property
    def cursor(self) -> str | None:
        return self.values.get("_cursor")


@dataclass(frozen=True)
class _History:
    """What is walked: its path below /fhir, what its versions have in common, their order.

    order are columns whose values together name a version. is_counted says whether every page tells
    the total. The versions of a type are counted only where nothing else is asked, by `_count=0`,
    and an index alone can tell; but a page that holds all has its total anyway.
    """

    path: str
    conditions: tuple[Condition, ...]
    order: tuple[str, ...]
    is_counted: bool


def history_instance(definition: Definition, resource_id: str) -> Response:
    """Return the history of a resource. Raises NotFound or a ParameterError."""
    access, parameters = access_to(definition, "r", resource_id), _parameters()
    path = f"{definition.name}/{resource_id}"
    if find_version(reader(), definition, access, resource_id) is None:
        raise NotFound(f"{path} is not known here.")
    own = Condition("h.id = ?", (resource_id,))
    history = _History(f"{path}/_history", (own,), ("version_id",), is_counted=True)
    return _answer(definition, access, parameters, history)


def history_type(definition: Definition) -> Response:
    """Return the history of all resources of a type. Raises a ParameterError."""
    access, parameters = access_to(definition, "r"), _parameters()
    order = ("last_updated", "pk")
    history = _History(f"{definition.name}/_history", (), order, is_counted=False)
    return _answer(definition, access, parameters, history)


@blueprint.get("/fhir/_history")
def history_system() -> Response:
    """Return the history of all types that the token may read. Raises FhirError.

    What two types published at one time is in the order of their names.
    """
    access = authenticate().access()
    served = [
        definition
        for _, definition in sorted(types().items())
        if definition.searchable and reaches(definition, access, "r")
    ]
    if not served:
        raise insufficient_scope("The token's scope covers no read.", "system/*.r")
    parameters = _parameters()
    history = _History("_history", (), ("last_updated", "pk"), is_counted=False)
    snapshot, signer = reader(), _signer(history, parameters)
    place = _place(signer, parameters.cursor, 3)
    keys: list[tuple[str, int, int, Definition]] = []
    for rank, definition in enumerate(served):
        selecting = [*visible_versions(definition, access), *_in_time(definition, parameters)]
        if place is not None:
            updated, name, pk = place
            if definition.name == name:
                selecting.append(Condition("(h.last_updated, h.pk) < (?, ?)", (updated, pk)))
            else:
                sign = "<=" if definition.name > name else "<"
                selecting.append(Condition(f"h.last_updated {sign} ?", (updated,)))
        where = all_of(selecting)
        rows = snapshot.all(
            f"SELECT h.last_updated, h.pk FROM {definition.sql_table} h WHERE {where.sql}"
            f" ORDER BY h.last_updated DESC, h.pk DESC LIMIT {parameters.count + 1}",
            where.values,
        )
        keys += [(updated, -rank, pk, definition) for updated, pk in rows]
    keys.sort(key=lambda key: key[:3], reverse=True)
    chosen, more = keys[: parameters.count], len(keys) > parameters.count
    page = _versions_of(snapshot, chosen)
    total = len(page) if place is None and not more else None
    links = _links(history, parameters.values)
    if chosen and more:
        updated, _, pk, last = chosen[-1]
        further = signer.dumps([updated, last.name, pk])
        links.append(("next", _link(history, {**parameters.values, "_cursor": further})))
    return _respond(page, links, total, parameters)


def _versions_of(
    snapshot: Reader, chosen: Sequence[tuple[str, int, int, Definition]]
) -> list[tuple[Definition, StoredVersion]]:
    """Return the versions of these keys, in their order: a SELECT for each type."""
    by_type: dict[str, tuple[Definition, list[int]]] = {}
    for _, _, pk, definition in chosen:
        by_type.setdefault(definition.name, (definition, []))[1].append(pk)
    versions: dict[tuple[str, int], StoredVersion] = {}
    for name, (definition, numbers) in by_type.items():
        where = is_in("h.pk", numbers)
        sql = f"SELECT {COLUMNS} FROM {definition.sql_table} h WHERE {where.sql}"
        for row in snapshot.all(sql, where.values):
            version = StoredVersion(*row)
            versions[name, version.pk] = version
    return [(definition, versions[definition.name, pk]) for _, _, pk, definition in chosen]


def _answer(
    definition: Definition, access: Access, parameters: _Parameters, history: _History
) -> Response:
    snapshot, signer = reader(), _signer(history, parameters)
    place = _place(signer, parameters.cursor, len(history.order))
    selecting = [
        *history.conditions,
        *visible_versions(definition, access),
        *_in_time(definition, parameters),
    ]
    versions = _versions(snapshot, definition, history, selecting, place, parameters.count + 1)
    page, more = versions[: parameters.count], len(versions) > parameters.count
    total: int | None = None
    if place is None and not more:
        total = len(page)
    elif history.is_counted or (parameters.count == 0 and not access.is_granular):
        total = _total(snapshot, definition, selecting)
    links = _links(history, parameters.values)
    if page and more:
        further = signer.dumps([getattr(page[-1], name) for name in history.order])
        links.append(("next", _link(history, {**parameters.values, "_cursor": further})))
    return _respond([(definition, version) for version in page], links, total, parameters)


def _respond(
    page: Sequence[tuple[Definition, StoredVersion]],
    links: Sequence[tuple[str, str]],
    total: int | None,
    parameters: _Parameters,
) -> Response:
    config = settings()
    rendering = (config.inline_max, config.empty_content)
    shown = [(definition.name, row.id, row.version_id, row.deleted) for definition, row in page]
    digest = blake2b(repr((links, total, shown, rendering)).encode(), digest_size=16).hexdigest()
    entries = (_entry(definition, row) for definition, row in page)
    body = bundle(bundle_id(digest), "history", total, links, entries)
    # Without Last-Modified: a history also changes where a resource is taken out of reach.
    return response.respond(body, parameters.layout, etag=f'W/"{digest}"')


def _parameters() -> _Parameters:
    """Read the request's parameters. Raises NotAcceptable or a ParameterError.

    What is unknown is refused always: it may have been meant to narrow, and there is no place for
    a warning (FHIR R4 bundle, bdl-3: every entry of a history is of a request).
    """
    values: dict[str, str] = {}
    for name, value in response.arguments():
        if name not in _KNOWN:
            raise UnsupportedParameter(
                name, _UNSUPPORTED.get(name, "is not a parameter of history")
            )
        if name in values:
            raise RepeatedParameter(name, "may be given once")
        values[name] = value
    values = {name: value for name, value in values.items() if value}
    config = settings()
    count = parse_count(values.get("_count"), config.page_size, config.page_max)
    if "_count" in values:
        values["_count"] = str(count)
    since, at = _interval("_since", values), _interval("_at", values)
    return _Parameters(
        layout=response.negotiate(values.items()),
        count=count,
        values=values,
        since=instant_of(since.low) if since else None,
        at=(instant_of(at.low), instant_of(at.high)) if at else None,
    )


def _in_time(definition: Definition, parameters: _Parameters) -> Iterable[Condition]:
    """Yield what `_since` and `_at` ask of a version."""
    if parameters.since is not None:
        yield Condition("h.last_updated >= ?", (parameters.since,))
    if parameters.at is not None:
        start, end = parameters.at
        # Current within the interval: published before its end, and not replaced by its start.
        yield Condition("h.last_updated < ?", (end,))
        yield Condition(
            f"NOT EXISTS (SELECT 1 FROM {definition.sql_table} n WHERE n.id = h.id"
            " AND n.version_id > h.version_id AND n.last_updated <= ?)",
            (start,),
        )


def _interval(name: str, values: Mapping[str, str]) -> Interval | None:
    value = values.get(name)
    if value is None:
        return None
    try:
        # A plus sign that the client did not escape arrives as a space.
        return interval(value.replace(" ", "+"))
    except ValueError as error:
        raise InvalidParameter(name, f"{value[:SHOWN]!r} {error}") from None


def _signer(history: _History, parameters: _Parameters) -> URLSafeSerializer:
    """Return what signs places, so that they fit this history between these times alone."""
    fits = repr((history.path, parameters.since, parameters.at))
    return URLSafeSerializer(key_of(current_app), salt=f"history {fits}")


def _place(signer: URLSafeSerializer, cursor: str | None, length: int) -> Sequence[Any] | None:
    """Return the place, of so many values, that a page begins after. Raises InvalidParameter."""
    if cursor is None:
        return None
    try:
        place: Sequence[Any] = signer.loads(cursor)
        if len(place) != length:
            # Of a server that read replicas: it has one value more.
            raise ValueError("another number of values")
    except (BadData, ValueError):
        raise InvalidParameter(
            "_cursor", "is not one of this history's; start again from its first page"
        ) from None
    return place


def _versions(
    snapshot: Reader,
    definition: Definition,
    history: _History,
    selecting: Sequence[Condition],
    place: Sequence[Any] | None,
    limit: int,
) -> list[StoredVersion]:
    """Read versions, newest first, from a place on."""
    if place is not None:
        columns = ", ".join(f"h.{name}" for name in history.order)
        after = Condition(f"({columns}) < ({', '.join('?' * len(place))})", tuple(place))
        selecting = [*selecting, after]
    where = all_of(selecting)
    order = ", ".join(f"h.{name} DESC" for name in history.order)
    rows = snapshot.all(
        f"SELECT {COLUMNS} FROM {definition.sql_table} h WHERE {where.sql}"
        f" ORDER BY {order} LIMIT {limit}",
        where.values,
    )
    return [StoredVersion(*row) for row in rows]


def _total(snapshot: Reader, definition: Definition, selecting: Sequence[Condition]) -> int:
    where = all_of(selecting)
    sql = f"SELECT count(*) FROM {definition.sql_table} h WHERE {where.sql}"
    return int(snapshot.all(sql, where.values)[0][0])


def _links(history: _History, values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the links that every page has."""
    first = {name: value for name, value in values.items() if name != "_cursor"}
    return [("self", _link(history, values)), ("first", _link(history, first))]


def _link(history: _History, values: Mapping[str, str]) -> str:
    return page_link(history.path, list(values.items()))


def _entry(definition: Definition, version: StoredVersion) -> Entry:
    """Return the entry of a version.

    The first is an update as create (http §3.1.0.4.1): a POST of it elsewhere would lose its id.
    """
    path = f"{definition.name}/{version.id}"
    note_all_served(definition.name, [version])
    if version.deleted:
        method, status = "DELETE", "204 No Content"
    elif version.version_id == 1:
        method, status = "PUT", "201 Created"
    else:
        method, status = "PUT", "200 OK"
    members = beside(
        request={"method": method, "url": path},
        response={
            "status": status,
            "etag": f'W/"{version.version_id}"',
            "lastModified": version.last_updated,
        },
    )
    body = (
        None
        if version.body is None
        else response.with_addresses(version.body, definition.attachments)
    )
    return Entry(response.fhir_address(path), body, members)
