"""What an export is to hold, as it lies in the export's folder until the export is forgotten.

Who may export, and how far: what a search with the same token finds, decided as it is there.
Whose records are exported: the patients that a request names, and the members of a group.
A kick-off's parameters: in the URL, and by POST in a Parameters resource or a form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from flask import request

from fhirapp.address import own_prefix
from fhirapp.auth.access import Access, Grant, access_of
from fhirapp.auth.protector import Token, authenticate, insufficient_scope
from fhirapp.auth.scopes import READ, SEARCH
from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.fhir.temporal import period_interval, to_milliseconds
from fhirapp.rest.access import NOTHING, visible
from fhirapp.rest.negotiation import arguments
from fhirapp.rest.operation import is_text, parse_body
from fhirapp.rest.read import find_version
from fhirapp.search.query import MAX_LENGTH
from fhirapp.search.reference import relative_reference
from fhirapp.search.values import SHOWN, AnyCondition

SYSTEM, PATIENT, GROUP = "system", "patient", "group"

# A query of `_typeFilter`: the type, and its search parameters.
Filter = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Wanted:
    """What was asked for, checked.

    since and until are instants; patients are ids, None for all of the level. elements are names by
    type, of types of which less than the whole is wanted. notes pair each parameter that was not
    followed with the reason.
    """

    level: str
    # The kick-off request's address, and the one under which the server was reached.
    request: str
    base_url: str
    # What the token may export, as scopes.
    scope: str
    types: tuple[str, ...]
    group: str = ""
    since: str | None = None
    until: str | None = None
    filters: tuple[Filter, ...] = ()
    elements: tuple[tuple[str, tuple[str, ...]], ...] = ()
    patients: tuple[str, ...] | None = None
    notes: tuple[tuple[str, str], ...] = ()

    def filters_of(self, type_name: str) -> list[tuple[tuple[str, str], ...]]:
        """Return the queries of a type, of which one must hold."""
        return [arguments for name, arguments in self.filters if name == type_name]

    def elements_of(self, type_name: str) -> tuple[str, ...]:
        """Return the elements that are wanted of a type, none for the whole."""
        return dict(self.elements).get(type_name, ())

    def dumps(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def loads(cls, text: bytes) -> Wanted:
        """Return what JSON holds."""
        content = {name: _frozen(value) for name, value in json.loads(text).items()}
        return cls(**content)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def exporter() -> tuple[Token, Access]:
    """Return the request's token, and what it may export.

    Raises LoginRequired, TokenExpired or Forbidden, before any data is touched.
    """
    token = authenticate()
    access = exporting(token.access())
    if not access.scopes:
        raise insufficient_scope(
            "An export takes the token of a backend client, with system scopes that read and "
            "search.",
            "system/*.rs",
        )
    return token, access


def exporting(access: Access) -> Access:
    """Return the part of an access that counts for an export."""
    return Access(
        tuple(
            scope
            for scope in access.scopes
            if scope.context == "system" and {READ, SEARCH} <= {*scope.permissions}
        ),
        patient=None,
    )


def registered_still(scope: str, registered: str) -> Access:
    """Return what is left of the scopes of an export, given its client's registration as it is."""
    return exporting(access_of(scope, registered, None))


def scope_of(access: Access) -> str:
    """Return an access as scopes."""
    return " ".join(map(str, access.scopes))


def reaches(definition: Definition, access: Access) -> bool:
    """Say whether anything of a type may be exported at all."""
    return limit_of(definition, access) is not NOTHING


def limit_of(definition: Definition, access: Access) -> AnyCondition | None:
    """Return the condition that a row `r` may be exported; None where every row may."""
    return visible(definition, access, SEARCH)


def covers(now: Access, then: Access, names: Iterable[str]) -> bool:
    """Say whether an access reaches all that another reached of these types."""
    served = types()
    deciding = [served[name] for name in names if name in served]
    if any(one.visibility is Visibility.TARGETS for one in deciding):
        # Of such a type, what may be seen hangs on all types.
        deciding = list(served.values())
    return all(
        any(_is_within(wanted, held) for held in now.grants(one.name, SEARCH))
        for one in deciding
        if one.visibility is Visibility.SCOPE
        for wanted in then.grants(one.name, SEARCH)
    )


def _is_within(wanted: Grant, held: Grant) -> bool:
    """Say whether one part of a type lies within another: filters narrow."""
    return {*held.filters} <= {*wanted.filters}


# The parameter of which one resource lists many: each names a patient.
GIVEN_PATIENT = "patient"
# Members of a Parameters resource.
MOST = 10_000
_TEXTS = frozenset(
    {
        *("valueString", "valueCode", "valueId", "valueUri", "valueUrl", "valueCanonical"),
        *("valueInstant", "valueDateTime", "valueDate"),
    }
)

Given = list[tuple[str, str]]


def read_given() -> Given:
    """Return the request's parameters that have a value, in their order. Raises FhirError.

    Of a Reference the value is what it refers to. One by GET names no patients: an address is kept
    in logs.
    """
    given = arguments()
    if any(name == GIVEN_PATIENT for name, _ in given):
        raise InvalidParameter(GIVEN_PATIENT, "is taken by POST alone, in a Parameters resource")
    if request.method == "POST":
        given += parse_body(_pair, MOST)
    for name, value in given:
        if "\0" in value:
            raise InvalidParameter(name[:SHOWN], "has a NUL character")
        if len(value) > MAX_LENGTH:
            raise InvalidParameter(name[:SHOWN], f"is longer than {MAX_LENGTH} characters")
    return [(name, value) for name, value in given if value.strip()]


def _pair(member: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the value, as text, of a member of Parameters."""
    name = member.get("name")
    held = [one for one in member if one.startswith("value")]
    if type(name) is not str or len(held) != 1 or not is_text(name):
        raise InvalidParameter("request", "each member of parameter has a name and one value[x]")
    value = member[held[0]]
    if held[0] == "valueReference" and type(value) is dict:
        text = value.get("reference")
    elif held[0] == "valueBoolean" and type(value) is bool:
        text = "true" if value else "false"
    else:
        text = value if held[0] in _TEXTS else None
    if type(text) is not str or not text or not is_text(text):
        raise InvalidParameter(name[:SHOWN], f"has a {held[0][:SHOWN]} that is not understood")
    return name, text


# Values of one SELECT.
AT_ONCE = 200
_PATIENT = re.compile(rf"Patient/({ID_PATTERN})")


def parse_patients(values: Sequence[str], level: str) -> tuple[str, ...] | None:
    """Return the ids of the patients that are named, None for no limit. Raises InvalidParameter."""
    if not values:
        return None
    if level == SYSTEM:
        raise InvalidParameter(GIVEN_PATIENT, "does not go with an export of the whole server")
    found = [_PATIENT.fullmatch(value.removeprefix(own_prefix())) for value in values]
    if None in found:
        raise InvalidParameter(
            GIVEN_PATIENT, "is not a reference to a patient here; use Patient/<id>"
        )
    return tuple(dict.fromkeys(one[1] for one in found if one))


def check_patients(snapshot: Reader, access: Access, patients: Sequence[str], group: str) -> None:
    """Refuse patients who are not here, or no members of the group. Raises InvalidParameter.

    Where the token may not see patients, it is not told who is here.
    """
    if group and not {*patients} <= {*members(snapshot, access, group)}:
        raise InvalidParameter(GIVEN_PATIENT, "names a patient who is no member of the group")
    definition = types()["Patient"]
    if not reaches(definition, access):
        return
    limit = limit_of(definition, access)
    where = "" if limit is None else f" AND {limit.where().sql}"
    values = () if limit is None else limit.where().values
    for some in batches(patients):
        marks = ", ".join("?" * len(some))
        asked = f"SELECT count(*) FROM {definition.sql_table} r WHERE r.is_current AND r.id IN"
        ((count,),) = snapshot.all(f"{asked} ({marks}){where}", (*some, *values))
        if count < len(some):
            raise InvalidParameter(GIVEN_PATIENT, "names a patient who is not known here")


def members(snapshot: Reader, access: Access, group: str) -> tuple[str, ...]:
    """Return the ids of the patients who are members of a group now. Raises NotFound, Gone.

    A member who is inactive is none, nor one whose period is over or yet to come.
    """
    name = f"Group/{group}"
    version = find_version(snapshot, types()["Group"], access, group)
    if version is None:
        raise NotFound(f"{name} is not known here.")
    if version.body is None:
        raise Gone(f"{name} was deleted.")
    now = to_milliseconds(datetime.now(UTC))
    listed = fhir_json.loads(version.body).get("member", ())
    return tuple(dict.fromkeys(_patients(listed, now)))


def _patients(listed: Sequence[Mapping[str, Any]], now: int) -> Iterator[str]:
    for member in listed:
        target = relative_reference(member["entity"].get("reference", ""))
        period = period_interval(member.get("period", {}))
        is_member = period.low <= now < period.high and not member.get("inactive")
        if is_member and target is not None and target[0] == "Patient":
            yield target[1]


def batches(ids: Sequence[str]) -> Iterator[list[str]]:
    """Return ids in lists that a SELECT takes."""
    iterator = iter(ids)
    while some := list(islice(iterator, AT_ONCE)):
        yield some
