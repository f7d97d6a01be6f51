"""What a kick-off asks for, checked: what cannot be done is told now, not when all is written.

Refused is what would give other data than was asked for. With `Prefer: handling=lenient` types and
elements that are not here are left out, with `handling=strict` unknown parameters are refused too;
what was not followed is told in the export's file of errors. Source: Bulk Data Access 2.0.

`_typeFilter`: searches, of which a resource of their type must meet one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from flask import request

from fhirapp.address import base_url
from fhirapp.auth.access import Access
from fhirapp.auth.protector import insufficient_scope
from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.exchange.bulk.export_request import GIVEN_PATIENT as PATIENTS
from fhirapp.exchange.bulk.export_request import (
    PATIENT,
    SYSTEM,
    Filter,
    Given,
    Wanted,
    check_patients,
    parse_patients,
    reaches,
    read_given,
    scope_of,
)
from fhirapp.fhir.outcome import (
    FhirError,
    InvalidParameter,
    RepeatedParameter,
    UnsupportedParameter,
)
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.rest.negotiation import FORM_PARAMETERS, handling, is_strict, negotiate, parse_form
from fhirapp.rest.subset import unknown_elements
from fhirapp.search.controls import parse_controls
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query
from fhirapp.search.values import SHOWN, AnyCondition

NAME = "_typeFilter"
MOST = 30
# A comma before the next query; others stand between values.
_BETWEEN = re.compile(r",(?=\s*[A-Z][A-Za-z]*\?)")
_QUERY = re.compile(r"\s*([A-Z][A-Za-z]*)\?(.+)", re.DOTALL)


def parse_filters(values: Sequence[str], exported: Sequence[str]) -> tuple[Filter, ...]:
    """Return the queries, each checked, of the types that are exported. Raises ParameterError."""
    texts = [one for value in values for one in _BETWEEN.split(value) if one.strip()]
    if len(texts) > MOST:
        raise InvalidParameter(NAME, f"lists more than {MOST} queries; that is the most")
    return tuple(_parse(text, exported) for text in texts)


def _parse(text: str, exported: Sequence[str]) -> Filter:
    found = _QUERY.fullmatch(text)
    if found is None:
        raise InvalidParameter(NAME, f"{text[:SHOWN]!r} is not a query; use Type?parameter=value")
    name, query = found.groups()
    if name not in exported:
        raise InvalidParameter(NAME, f"{name[:SHOWN]} is not among the types that are exported")
    arguments = tuple(parse_form(query.encode()))
    try:
        conditions_of(types()[name], arguments)
    except FhirError as error:
        raise InvalidParameter(NAME, f"{name}: {error.diagnostics}") from None
    return name, arguments


def conditions_of(
    definition: Definition, arguments: Sequence[tuple[str, str]]
) -> tuple[AnyCondition, ...]:
    """Return the conditions that a row `r` meets a query, which all hold. Raises FhirError."""
    controls = parse_controls(arguments, default=1, greatest=1)
    shaping = [name for name, value in arguments if (name, value) not in controls.rest]
    if shaping:
        raise UnsupportedParameter(shaping[0][:SHOWN], "shapes an answer, and selects nothing")
    context = Context(definition.tables, base_url())
    query = parse_query(definition.params, arguments, context, strict=True)
    if query.ignored:
        name, reason = query.ignored[0]
        raise InvalidParameter(name[:SHOWN], reason)
    return query.conditions


NDJSON = "application/fhir+ndjson"
_FORMATS = frozenset({NDJSON, "application/ndjson", "ndjson"})
_ONCE = ("_outputFormat", "_since", "_until")
_LISTS = ("_type", "_elements", "_typeFilter", "includeAssociatedData", PATIENTS)
_ASSOCIATED = "is not supported here: Provenance is exported where it is among the types"
_MAX_ELEMENTS = 50

Notes = list[tuple[str, str]]


def read_wanted(level: str, group: str, access: Access, snapshot: Reader) -> Wanted:
    """Return what the request wants exported of a level. Raises FhirError."""
    given = read_given()
    # Of the answer to the kick-off.
    negotiate(given)
    notes: Notes = []
    once, lists = _sorted_out(given, notes)
    _check_format(once.get("_outputFormat"))
    since, until = _time("_since", once), _time("_until", once)
    if since and until and since >= until:
        raise InvalidParameter("_until", "must be later than _since")
    named = _listed("_type", lists["_type"])
    chosen = _types(level, named, access, notes)
    filters = parse_filters(lists["_typeFilter"], [one.name for one in chosen])
    elements = _elements(_listed("_elements", lists["_elements"]), chosen, notes)
    if lists["includeAssociatedData"]:
        _not_followed("includeAssociatedData", _ASSOCIATED, notes, refused=is_strict())
    patients = parse_patients(lists[PATIENTS], level)
    if patients is not None:
        check_patients(snapshot, access, patients, group)
    return Wanted(
        level=level,
        request=_address(),
        base_url=base_url(),
        scope=scope_of(access),
        types=tuple(one.name for one in chosen),
        group=group,
        since=since,
        until=until,
        filters=filters,
        elements=elements,
        patients=patients,
        notes=tuple(dict.fromkeys(notes)),
    )


def _address() -> str:
    """Return the request's address, by its own base address and as it was written."""
    query = request.environ.get("QUERY_STRING", "")
    return base_url() + request.path + (f"?{query}" if query else "")


def _sorted_out(given: Given, notes: Notes) -> tuple[dict[str, str], Mapping[str, list[str]]]:
    """Return the parameters that may be given once, and those that list. Raises ParameterError."""
    once: dict[str, str] = {}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    for name, value in given:
        if name in lists:
            lists[name].append(value)
        elif name in once:
            raise RepeatedParameter(name, "may be given once")
        elif name in _ONCE:
            once[name] = value
        elif name not in FORM_PARAMETERS:
            reason = "is not a parameter of $export"
            _not_followed(name[:SHOWN], reason, notes, refused=is_strict())
    return once, lists


def _not_followed(name: str, reason: str, notes: Notes, *, refused: bool) -> None:
    """Refuse a parameter, or note that it was not followed. Raises UnsupportedParameter."""
    if refused:
        raise UnsupportedParameter(name, reason)
    notes.append((name, f"{reason}; it was ignored"))


def _is_lenient() -> bool:
    return handling() == "lenient"


def _check_format(value: str | None) -> None:
    """Check the format that is asked for. Raises InvalidParameter."""
    # A plus sign that the client did not escape arrives as a space.
    if value is not None and value.strip().replace(" ", "+").lower() not in _FORMATS:
        raise InvalidParameter("_outputFormat", f"{value[:SHOWN]!r} is not supported; use {NDJSON}")


def _time(name: str, once: Mapping[str, str]) -> str | None:
    """Return the instant that a parameter names. Raises InvalidParameter.

    Of a date it is the beginning.
    """
    value = once.get(name)
    if value is None:
        return None
    try:
        low = interval(value.replace(" ", "+")).low
    except ValueError as error:
        raise InvalidParameter(name, f"{value[:SHOWN]!r} {error}") from None
    if name == "_since" and low > time.time() * 1_000:
        raise InvalidParameter(name, "lies in the future; use the transactionTime of an export")
    return instant_of(low)


def _listed(name: str, values: Sequence[str]) -> list[str]:
    """Return what the values list between commas, each once. Raises InvalidParameter."""
    found = [one.strip() for value in values for one in value.split(",")]
    named = [one for one in dict.fromkeys(found) if one]
    if values and not named:
        # To ignore it would widen the answer.
        raise InvalidParameter(name, "lists no value")
    return named


def _types(level: str, named: Sequence[str], access: Access, notes: Notes) -> list[Definition]:
    """Return the types to export; without any named all that the access reaches. Raises FhirError.

    What is named and may not be seen is forbidden; else it is left out.
    """
    possible = {one.name: one for one in types().values() if _is_of(level, one)}
    if not named:
        return [one for _, one in sorted(possible.items()) if reaches(one, access)]
    for name in named:
        if name not in possible:
            reason = f"{name[:SHOWN]!r} {_why_not(name)}"
            if not _is_lenient():
                raise InvalidParameter("_type", reason)
            notes.append(("_type", f"{reason}; it was ignored"))
        elif not reaches(possible[name], access):
            raise insufficient_scope(
                f"The token's scope does not cover export of {name}.", f"system/{name}.rs", "_type"
            )
    chosen = [possible[name] for name in sorted({*named} & possible.keys())]
    if not chosen:
        raise InvalidParameter("_type", "names no type that can be exported here")
    return chosen


def _is_of(level: str, definition: Definition) -> bool:
    """Say whether resources of a type are exported at a level: at each, what a search can find."""
    if not definition.searchable:
        return False
    is_of_patients = bool(definition.compartment) or definition.visibility is Visibility.TARGETS
    return level == SYSTEM or is_of_patients


def _why_not(name: str) -> str:
    served = types()
    if name not in served:
        return "is not served here"
    if not served[name].searchable:
        return "is not exported by itself: attachments stand in documents, or at their url"
    return f"is in no patient's compartment; a {SYSTEM} export has it, and a {PATIENT} one has not"


def _elements(
    named: Sequence[str], chosen: Sequence[Definition], notes: Notes
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the elements that are wanted of each type. Raises InvalidParameter.

    One without a type is wanted of every type that has it.
    """
    if len(named) > _MAX_ELEMENTS:
        raise InvalidParameter("_elements", f"lists more than {_MAX_ELEMENTS}; that is the most")
    wanted: dict[str, list[str]] = {}
    for text in named:
        type_name, _, element = text.rpartition(".")
        of = [one for one in chosen if type_name in ("", one.name)]
        have = [one for one in of if not unknown_elements(one, [element])]
        if not have:
            reason = f"{text[:SHOWN]!r} is not an element of what is exported"
            if not _is_lenient():
                raise InvalidParameter("_elements", reason)
            notes.append(("_elements", f"{reason}; it was ignored"))
        # Of a type that lacks it too: else that one would come whole.
        for one in of if not type_name else have:
            wanted.setdefault(one.name, ["id"])
            if one in have:
                wanted[one.name].append(element)
    return tuple((name, tuple(elements)) for name, elements in wanted.items())
