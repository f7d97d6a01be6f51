"""Parse a kick-off request: parameters in the URL, or by POST in a Parameters resource or a form.

Whatever would export other data than the client requests is refused at once. With
`Prefer: handling=lenient`, unknown types and elements are left out; with `handling=strict`, unknown
parameters are refused too. The export's error file lists what was ignored.
Source: Bulk Data Access 2.0.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from flask import request

from fhirapp import urls
from fhirapp.auth.protector import insufficient_scope
from fhirapp.auth.scopes import SEARCH, Access
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.features.exports.bulk.export_request import (
    PATIENT,
    PATIENT_PARAMETER,
    SYSTEM,
    ExportRequest,
    Filter,
    check_patients,
    is_exportable,
)
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import (
    FhirError,
    InvalidParameter,
    RepeatedParameter,
    UnsupportedParameter,
)
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.rest import response
from fhirapp.rest.access import check_searched_not_merged, reach_of
from fhirapp.rest.operation import is_text, parse_body
from fhirapp.rest.subset import unknown_elements
from fhirapp.rest.terminology import Terminology
from fhirapp.search.parameter import Context
from fhirapp.search.query import MAX_LENGTH, parse_controls, parse_query
from fhirapp.search.values import SHOWN, AnyCondition

NDJSON = "application/fhir+ndjson"
_FORMATS = frozenset({NDJSON, "application/ndjson", "ndjson"})
_TYPE_FILTER = "_typeFilter"
_ONCE = ("_outputFormat", "_since", "_until")
_LISTS = ("_type", "_elements", _TYPE_FILTER, "includeAssociatedData", PATIENT_PARAMETER)
_ASSOCIATED = "is not supported here: Provenance is exported where it is among the types"
_MAX_ELEMENTS = 50
_MAX_QUERIES = 30
# The comma before the next query; other commas separate values.
_BETWEEN_QUERIES = re.compile(r",(?=\s*[A-Z][A-Za-z]*\?)")
_QUERY = re.compile(r"\s*([A-Z][A-Za-z]*)\?(.+)", re.DOTALL)

Notes = list[tuple[str, str]]
# The most members of a Parameters resource.
_MAX_MEMBERS = 10_000
_TEXTS = frozenset(
    {
        *("valueString", "valueCode", "valueId", "valueUri", "valueUrl", "valueCanonical"),
        *("valueInstant", "valueDateTime", "valueDate"),
    }
)
_PATIENT = re.compile(rf"Patient/({ID_PATTERN})")

Parameters = list[tuple[str, str]]


def read_export_request(level: str, group: str, access: Access, snapshot: Reader) -> ExportRequest:
    """Return the export that the HTTP request asks for, checked. Raises FhirError."""
    parameters = _read_parameters()
    # The format of the response to the kick-off.
    response.negotiate(parameters)
    notes: Notes = []
    once, lists = _sort_out(parameters, notes)
    _check_format(once.get("_outputFormat"))
    since, until = _time("_since", once), _time("_until", once)
    if since and until and since >= until:
        raise InvalidParameter("_until", "must be later than _since")
    named = _items("_type", lists["_type"])
    chosen = _types(level, named, access, notes)
    filters = _parse_filters(lists[_TYPE_FILTER], [definition.name for definition in chosen])
    elements = _elements(_items("_elements", lists["_elements"]), chosen, notes)
    if lists["includeAssociatedData"]:
        _ignore_or_refuse("includeAssociatedData", _ASSOCIATED, notes, refused=response.is_strict())
    patients = _parse_patients(lists[PATIENT_PARAMETER], level)
    if patients is not None:
        check_patients(snapshot, access, patients, group)
    return ExportRequest(
        level=level,
        request=_address(),
        base_url=urls.base_url(),
        scope=" ".join(map(str, access.scopes)),
        types=tuple(definition.name for definition in chosen),
        group=group,
        since=since,
        until=until,
        filters=filters,
        elements=elements,
        patients=patients,
        notes=tuple(dict.fromkeys(notes)),
    )


def _address() -> str:
    """Return the URL of the HTTP request, with its query as the client wrote it."""
    query = request.environ.get("QUERY_STRING", "")
    return urls.base_url() + request.path + (f"?{query}" if query else "")


def _read_parameters() -> Parameters:
    """Return the parameters that have a value, in their order. Raises FhirError.

    The value of a Reference is its reference. The URL must not name patients: logs keep URLs.
    """
    parameters = response.arguments()
    if any(name == PATIENT_PARAMETER for name, _ in parameters):
        raise InvalidParameter(
            PATIENT_PARAMETER, "is taken by POST alone, in a Parameters resource"
        )
    if request.method == "POST":
        parameters += parse_body(_pair, _MAX_MEMBERS)
    for name, value in parameters:
        if "\0" in value:
            raise InvalidParameter(name[:SHOWN], "has a NUL character")
        if len(value) > MAX_LENGTH:
            raise InvalidParameter(name[:SHOWN], f"is longer than {MAX_LENGTH} characters")
    return [(name, value) for name, value in parameters if value.strip()]


def _pair(member: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the value, as text, of a member of Parameters."""
    name = member.get("name")
    value_keys = [key for key in member if key.startswith("value")]
    if type(name) is not str or len(value_keys) != 1 or not is_text(name):
        raise InvalidParameter("request", "each member of parameter has a name and one value[x]")
    (key,) = value_keys
    value = member[key]
    if key == "valueReference" and type(value) is dict:
        text = value.get("reference")
    elif key == "valueBoolean" and type(value) is bool:
        text = "true" if value else "false"
    else:
        text = value if key in _TEXTS else None
    if type(text) is not str or not text or not is_text(text):
        raise InvalidParameter(name[:SHOWN], f"has a {key[:SHOWN]} that is not understood")
    return name, text


def _sort_out(
    parameters: Parameters, notes: Notes
) -> tuple[dict[str, str], Mapping[str, list[str]]]:
    """Return the single parameters and the lists. Raises ParameterError."""
    once: dict[str, str] = {}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    for name, value in parameters:
        if name in lists:
            lists[name].append(value)
        elif name in once:
            raise RepeatedParameter(name, "may be given once")
        elif name in _ONCE:
            once[name] = value
        elif name not in response.FORM_PARAMETERS:
            reason = "is not a parameter of $export"
            _ignore_or_refuse(name[:SHOWN], reason, notes, refused=response.is_strict())
    return once, lists


def _ignore_or_refuse(name: str, reason: str, notes: Notes, *, refused: bool) -> None:
    """Refuse a parameter, or note that it is ignored. Raises UnsupportedParameter."""
    if refused:
        raise UnsupportedParameter(name, reason)
    notes.append((name, f"{reason}; it was ignored"))


def _is_lenient() -> bool:
    return response.handling() == "lenient"


def _check_format(value: str | None) -> None:
    """Check the requested format. Raises InvalidParameter."""
    # A plus sign that the client did not escape arrives as a space.
    if value is not None and value.strip().replace(" ", "+").lower() not in _FORMATS:
        raise InvalidParameter("_outputFormat", f"{value[:SHOWN]!r} is not supported; use {NDJSON}")


def _time(name: str, once: Mapping[str, str]) -> str | None:
    """Return the instant of a parameter, for a date its beginning. Raises InvalidParameter."""
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


def _items(name: str, values: Sequence[str]) -> list[str]:
    """Return the distinct items of comma-separated values. Raises InvalidParameter."""
    items = (item.strip() for value in values for item in value.split(","))
    named = [item for item in dict.fromkeys(items) if item]
    if values and not named:
        # Ignoring the parameter would widen the export.
        raise InvalidParameter(name, "lists no value")
    return named


def _types(level: str, named: Sequence[str], access: Access, notes: Notes) -> list[Definition]:
    """Return the types to export: the named ones, or else all that the access allows.

    Raises FhirError for a named type that the access does not allow.
    """
    possible = {name: served for name, served in types().items() if _is_of_level(level, served)}
    if not named:
        return [
            possible[name] for name in sorted(possible) if is_exportable(possible[name], access)
        ]
    for name in named:
        if name not in possible:
            reason = f"{name[:SHOWN]!r} {_why_not(name)}"
            if not _is_lenient():
                raise InvalidParameter("_type", reason)
            notes.append(("_type", f"{reason}; it was ignored"))
        elif not is_exportable(possible[name], access):
            raise insufficient_scope(
                f"The token's scope does not cover export of {name}.", f"system/{name}.rs", "_type"
            )
    chosen = [possible[name] for name in sorted({*named} & possible.keys())]
    if not chosen:
        raise InvalidParameter("_type", "names no type that can be exported here")
    return chosen


def _is_of_level(level: str, definition: Definition) -> bool:
    """Return whether a level includes a type. Types that no search finds are in none."""
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
    """Return the elements to export of each type. Raises InvalidParameter.

    An element without a type applies to each type that has it.
    """
    if len(named) > _MAX_ELEMENTS:
        raise InvalidParameter("_elements", f"lists more than {_MAX_ELEMENTS}; that is the most")
    elements: dict[str, list[str]] = {}
    for text in named:
        type_name, _, element = text.rpartition(".")
        addressed = [definition for definition in chosen if type_name in ("", definition.name)]
        having = [
            definition for definition in addressed if not unknown_elements(definition, [element])
        ]
        if not having:
            reason = f"{text[:SHOWN]!r} is not an element of what is exported"
            if not _is_lenient():
                raise InvalidParameter("_elements", reason)
            notes.append(("_elements", f"{reason}; it was ignored"))
        # A type that lacks the element is narrowed too, or it would be exported whole.
        for definition in having if type_name else addressed:
            selected = elements.setdefault(definition.name, ["id"])
            if definition in having:
                selected.append(element)
    return tuple((name, tuple(selected)) for name, selected in elements.items())


def _parse_patients(values: Sequence[str], level: str) -> tuple[str, ...] | None:
    """Return the ids of the named patients, None for no limit. Raises InvalidParameter."""
    if not values:
        return None
    if level == SYSTEM:
        raise InvalidParameter(PATIENT_PARAMETER, "does not go with an export of the whole server")
    prefix = urls.own_prefix()
    matches = [_PATIENT.fullmatch(value.removeprefix(prefix)) for value in values]
    if None in matches:
        raise InvalidParameter(
            PATIENT_PARAMETER, "is not a reference to a patient here; use Patient/<id>"
        )
    return tuple(dict.fromkeys(match[1] for match in matches if match))


def _parse_filters(values: Sequence[str], exported: Sequence[str]) -> tuple[Filter, ...]:
    """Return the queries, each checked, of the types that are exported. Raises ParameterError."""
    texts = [text for value in values for text in _BETWEEN_QUERIES.split(value) if text.strip()]
    if len(texts) > _MAX_QUERIES:
        raise InvalidParameter(
            _TYPE_FILTER, f"lists more than {_MAX_QUERIES} queries; that is the most"
        )
    return tuple(_parse_filter(text, exported) for text in texts)


def _parse_filter(text: str, exported: Sequence[str]) -> Filter:
    match = _QUERY.fullmatch(text)
    if match is None:
        raise InvalidParameter(
            _TYPE_FILTER, f"{text[:SHOWN]!r} is not a query; use Type?parameter=value"
        )
    name, query = match.groups()
    if name not in exported:
        raise InvalidParameter(
            _TYPE_FILTER, f"{name[:SHOWN]} is not among the types that are exported"
        )
    pairs = tuple(response.parse_form(query.encode()))
    definition = types()[name]
    context = Context(definition.tables, urls.base_url(), Terminology().resolve)
    try:
        conditions_of(definition, pairs, reader())
        query = parse_query(definition.params, pairs, context, strict=True)
        reach = reach_of(definition, Access((), None), SEARCH)
        check_searched_not_merged(reader(), reach, query.applied, context, is_empty=True)
    except FhirError as error:
        raise InvalidParameter(_TYPE_FILTER, f"{name}: {error.diagnostics}") from None
    return name, pairs


def conditions_of(
    definition: Definition, pairs: Sequence[tuple[str, str]], snapshot: Reader
) -> list[AnyCondition]:
    """Return the conditions of a query on a row `r`; all must hold. Raises FhirError."""
    controls = parse_controls(pairs, default=1, greatest=1)
    shaping = [name for name, value in pairs if (name, value) not in controls.rest]
    if shaping:
        raise UnsupportedParameter(shaping[0][:SHOWN], "shapes an answer, and selects nothing")
    context = Context(definition.tables, urls.base_url(), Terminology(lambda: snapshot).resolve)
    query = parse_query(definition.params, pairs, context, strict=True)
    if query.ignored:
        name, reason = query.ignored[0]
        raise InvalidParameter(name[:SHOWN], reason)
    return query.conditions()
