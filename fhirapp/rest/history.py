"""history: the versions of a resource, of a type, or of all, newest first, deletions among them.

Versions are sorted by lastUpdated, which `_since` compares. Versions of one time, as those of one
import, are sorted by the name of the type, then by row number, the greatest first. A cursor names
the last version of the page before. Positions never change, so the pages have each version that was
there at the first page once, whatever is published meanwhile.

Source: FHIR R4 http §3.1.0.12, §3.1.0.16; decisions §5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flask import Blueprint, Response

from fhirapp.auth.protector import current_token, insufficient_scope, require_oauth
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, OperationParameter, types
from fhirapp.fhir.json import beside
from fhirapp.fhir.outcome import NotFound, UnsupportedParameter
from fhirapp.fhir.temporal import Interval, instant_of
from fhirapp.rest import response
from fhirapp.rest.access import Reach, reach_of, reaches, require
from fhirapp.rest.bundle_answer import BundleAnswer
from fhirapp.rest.operation import RequestParameters, read_parameters
from fhirapp.rest.paging import cursors, fingerprint, page_link
from fhirapp.rest.read import COLUMNS, FoundVersion, find_version
from fhirapp.search.values import Condition, all_of, is_in

blueprint = Blueprint("history", __name__)
_PARAMETERS = (
    OperationParameter("_since", "instant", "Versions published since"),
    OperationParameter("_at", "dateTime", "Versions that were current at some time of it"),
)
_UNSUPPORTED = {
    "_list": "is not supported here",
    "_sort": "is not supported here; a history is sorted newest first",
}


class _Request(NamedTuple):
    """What a request asks of a history."""

    parameters: RequestParameters
    layout: response.Layout
    since: Interval | None
    at: Interval | None

    @classmethod
    def read(cls) -> _Request:
        """Read the request's parameters. Raises NotAcceptable or a ParameterError.

        What is unknown is refused always: it may have been meant to narrow, and there is no place
        for a warning (FHIR R4 bundle, bdl-3: every entry of a history is of a request).
        """
        sent = response.arguments()
        for name, _ in sent:
            if reason := _UNSUPPORTED.get(name):
                raise UnsupportedParameter(name, reason)
        parameters = read_parameters(_PARAMETERS, sent, "history", is_paged=True)
        since, at = parameters.time("_since"), parameters.time("_at")
        return cls(parameters, response.negotiate(parameters.parameters), since, at)


class _Position(NamedTuple):
    """The place of a version in a history."""

    last_updated: str
    type: str
    pk: int


class _History(NamedTuple):
    """A history: its path below /fhir, and what the token may see of its types.

    conditions hold for each of its versions. With is_counted every page tells the
    total; else a first page that holds all versions does.
    """

    path: str
    reaches: Sequence[Reach]
    conditions: Sequence[Condition] = ()
    is_counted: bool = False


def history_instance(definition: Definition, resource_id: str) -> Response:
    """Return the history of a resource. Raises NotFound or a ParameterError."""
    reach, wanted = require(definition, "r", resource_id), _Request.read()
    path = f"{definition.name}/{resource_id}"
    if find_version(reader(), reach, resource_id) is None:
        raise NotFound(f"{path} is not known here.")
    own = Condition("h.id = ?", (resource_id,))
    return _answer(_History(f"{path}/_history", [reach], [own], is_counted=True), wanted)


def history_type(definition: Definition) -> Response:
    """Return the history of all resources of a type. Raises a ParameterError."""
    reach, wanted = require(definition, "r"), _Request.read()
    is_counted = wanted.parameters.count == 0 and not reach.access.is_granular
    history = _History(f"{definition.name}/_history", [reach], is_counted=is_counted)
    return _answer(history, wanted)


@blueprint.get("/fhir/_history")
@require_oauth()
def history_system() -> Response:
    """Return the history of all types that the token may read. Raises FhirError."""
    access = current_token.access()
    served = [
        reach_of(definition, access, "r")
        for _, definition in sorted(types().items())
        if definition.searchable and reaches(definition, access, "r")
    ]
    if not served:
        raise insufficient_scope("The token's scope covers no read.", "system/*.r")
    return _answer(_History("_history", served), _Request.read())


def _answer(history: _History, wanted: _Request) -> Response:
    """Return the page that is asked for. Raises InvalidParameter."""
    parameters, snapshot = wanted.parameters, reader()
    query_fingerprint = fingerprint(
        history.path, [("_since", repr(wanted.since)), ("_at", repr(wanted.at))]
    )
    after = None
    if parameters.cursor is not None:
        after = _Position(*cursors().read(parameters.cursor, query_fingerprint, "history"))
    conditions = {
        reach.definition.name: [
            *history.conditions,
            *reach.versions(),
            *_in_time(reach.definition, wanted),
        ]
        for reach in history.reaches
    }
    places = [
        place
        for name, selecting in conditions.items()
        for place in _places(snapshot, types()[name], selecting, after, parameters.count + 1)
    ]
    # Stable: at one time the types stay in the order of their names, and a type's rows in theirs.
    places.sort(key=lambda place: place.last_updated, reverse=True)
    page, more = places[: parameters.count], len(places) > parameters.count
    total: int | None = None
    if after is None and not more:
        total = len(page)
    elif history.is_counted:
        total = sum(_count(snapshot, types()[name], conditions[name]) for name in conditions)
    links = [
        ("self", page_link(history.path, parameters.parameters)),
        ("first", page_link(history.path, parameters.applied)),
    ]
    if page and more:
        further = [*parameters.applied, ("_cursor", cursors().write(page[-1], query_fingerprint))]
        links.append(("next", page_link(history.path, further)))
    answer = BundleAnswer("history")
    for definition, version in _versions(snapshot, page):
        answer.add(definition, [version], _beside(f"{definition.name}/{version.id}", version))
    return answer.respond(links, total, wanted.layout)


def _in_time(definition: Definition, wanted: _Request) -> Iterator[Condition]:
    """Yield what `_since` and `_at` ask of a version."""
    if wanted.since is not None:
        yield Condition("h.last_updated >= ?", (instant_of(wanted.since.low),))
    if wanted.at is not None:
        # Current within the interval: published before its end, and not replaced by its start.
        yield Condition("h.last_updated < ?", (instant_of(wanted.at.high),))
        yield Condition(
            f"NOT EXISTS (SELECT 1 FROM {definition.sql_table} n WHERE n.id = h.id"
            " AND n.version_id > h.version_id AND n.last_updated <= ?)",
            (instant_of(wanted.at.low),),
        )


def _places(
    snapshot: Reader,
    definition: Definition,
    conditions: Sequence[Condition],
    after: _Position | None,
    limit: int,
) -> list[_Position]:
    """Return the places of versions of a type, newest first, after a place."""
    selecting = [*conditions]
    if after is not None and after.type == definition.name:
        selecting.append(
            Condition("(h.last_updated, h.pk) < (?, ?)", (after.last_updated, after.pk))
        )
    elif after is not None:
        sign = "<=" if after.type < definition.name else "<"
        selecting.append(Condition(f"h.last_updated {sign} ?", (after.last_updated,)))
    where = all_of(selecting)
    rows = snapshot.all(
        f"SELECT h.last_updated, h.pk FROM {definition.sql_table} h WHERE {where.sql}"
        f" ORDER BY h.last_updated DESC, h.pk DESC LIMIT {limit}",
        where.values,
    )
    return [_Position(last_updated, definition.name, pk) for last_updated, pk in rows]


def _count(snapshot: Reader, definition: Definition, conditions: Sequence[Condition]) -> int:
    where = all_of(conditions)
    sql = f"SELECT count(*) FROM {definition.sql_table} h WHERE {where.sql}"
    return int(snapshot.all(sql, where.values)[0][0])


def _versions(
    snapshot: Reader, places: Sequence[_Position]
) -> list[tuple[Definition, FoundVersion]]:
    """Return the versions at these places, in their order: a SELECT for each type."""
    numbers: dict[str, list[int]] = {}
    for place in places:
        numbers.setdefault(place.type, []).append(place.pk)
    versions: dict[tuple[str, int], FoundVersion] = {}
    for name, rows in numbers.items():
        where = is_in("h.pk", rows)
        sql = f"SELECT {COLUMNS} FROM {types()[name].sql_table} h WHERE {where.sql}"
        for row in snapshot.all(sql, where.values):
            version = FoundVersion(*row)
            versions[name, version.pk] = version
    return [(types()[place.type], versions[place.type, place.pk]) for place in places]


def _beside(path: str, version: FoundVersion) -> bytes:
    """Return the request and the response of a version's entry.

    The first is an update as create (http §3.1.0.4.1): a POST of it elsewhere would lose its id.
    """
    if version.deleted:
        method, status = "DELETE", "204 No Content"
    elif version.version_id == 1:
        method, status = "PUT", "201 Created"
    else:
        method, status = "PUT", "200 OK"
    return beside(
        request={"method": method, "url": path},
        response={
            "status": status,
            "etag": f'W/"{version.version_id}"',
            "lastModified": version.last_updated,
        },
    )
