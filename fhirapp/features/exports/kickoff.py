"""The request of a `$export`: its parameters, checked, and the access that it needs.

Parameters are in the URL, or by POST in a Parameters resource or a form. Whatever would export
other data than the client requests is refused at once. With `Prefer: handling=lenient`, unknown
types and elements are left out; with `handling=strict`, unknown parameters are refused too. The
export's error file lists what was ignored.

An export holds what a search with the same token finds. The request is kept as JSON in the
export's folder for as long as the export is.
Source: Bulk Data Access 2.0.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from flask import request

from fhirapp import urls
from fhirapp.auth.protector import current_token, insufficient_scope
from fhirapp.auth.scopes import READ, SEARCH, Access, access_of
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, OperationParameter, Visibility, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import FhirError, Gone, InvalidParameter, NotFound, UnsupportedParameter
from fhirapp.fhir.temporal import instant_of, period_interval, to_milliseconds
from fhirapp.rest import operation, response
from fhirapp.rest.access import NONE, check_not_merged, check_searched_not_merged, reach_of
from fhirapp.rest.operation import RequestParameters
from fhirapp.rest.read import find_version
from fhirapp.rest.subset import unknown_elements
from fhirapp.rest.terminology import Terminology
from fhirapp.search.parameter import Context
from fhirapp.search.query import Query, parse_controls, parse_query
from fhirapp.search.reference import relative_reference
from fhirapp.search.values import SHOWN, AnyCondition, Condition, all_of, is_in

SYSTEM, PATIENT, GROUP = "system", "patient", "group"
NDJSON = "application/fhir+ndjson"
# Values of one SELECT.
BATCH = 200
_FORMATS = frozenset({NDJSON, "application/ndjson", "ndjson"})
_ASSOCIATED = "is not supported here: Provenance is exported where it is among the types"
_MAX_ELEMENTS = 50
_MAX_QUERIES = 30
# The most members of a Parameters resource.
_MAX_MEMBERS = 10_000
# The comma before the next query; other commas separate values.
_BETWEEN_QUERIES = re.compile(r",(?=\s*[A-Z][A-Za-z]*\?)")
_QUERY = re.compile(r"\s*([A-Z][A-Za-z]*)\?(.+)", re.DOTALL)
_PATIENT = re.compile(rf"Patient/({ID_PATTERN})")

PARAMETERS = (
    OperationParameter(
        "_outputFormat", "string", "application/fhir+ndjson, application/ndjson or ndjson"
    ),
    OperationParameter("_since", "instant", "Resources changed or deleted after this time"),
    OperationParameter("_until", "instant", "Resources last changed at or before this time"),
    OperationParameter("_type", "string", "Types to export, separated by commas", repeats=True),
    OperationParameter(
        "_elements",
        "string",
        "Elements to export, separated by commas: `identifier`, `Patient.name`",
        repeats=True,
    ),
    OperationParameter(
        "_typeFilter",
        "string",
        "Searches, separated by commas; a resource must match one of those of its type: "
        "`AllergyIntolerance?clinical-status=active`",
        repeats=True,
        is_list=False,
    ),
    OperationParameter(
        "includeAssociatedData",
        "code",
        "Ignored: Provenance is exported if it is among the types",
        repeats=True,
        is_list=False,
    ),
)
PATIENTS = OperationParameter(
    "patient", "Reference", "By POST only: the patients to export", repeats=True, is_list=False
)

# A query of `_typeFilter`: the type, and its search parameters.
Filter = tuple[str, tuple[tuple[str, str], ...]]
Notes = list[tuple[str, str]]


@dataclass(frozen=True)
class ExportRequest:
    """What a client requests, checked. The names of the fields are those of request.json.

    since and until are instants. patients are ids; None means all of the level. elements are names
    by type, only for types that are exported in part. notes pair each ignored parameter with the
    reason.
    """

    level: str
    # The address of the kick-off request, and the base address that the client used.
    request: str
    base_url: str
    # The scopes of the token that allow an export.
    scope: str
    types: tuple[str, ...]
    group: str = ""
    since: str | None = None
    until: str | None = None
    filters: tuple[Filter, ...] = ()
    elements: tuple[tuple[str, tuple[str, ...]], ...] = ()
    patients: tuple[str, ...] | None = None
    notes: tuple[tuple[str, str], ...] = ()

    def dumps(self) -> bytes:
        """Serialize to JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def loads(cls, text: bytes) -> ExportRequest:
        """Parse the JSON that dumps() returns."""
        return cls(**{name: _frozen(value) for name, value in json.loads(text).items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def access_for_export() -> Access:
    """Return the access that the request's token has for exports.

    Raises Forbidden, before any data is read.
    """
    access = _export_access(current_token.access())
    if not access.scopes:
        raise insufficient_scope(
            "An export needs the token of a backend client, with system scopes that read and "
            "search.",
            "system/*.rs",
        )
    return access


def _export_access(access: Access) -> Access:
    """Keep the system scopes that both read and search."""
    return Access(
        tuple(
            scope
            for scope in access.scopes
            if scope.context == "system" and {READ, SEARCH} <= {*scope.permissions}
        ),
        patient=None,
    )


def still_registered(scope: str, registered: str) -> Access:
    """Return the part of an export's scopes that its client is still registered for."""
    return _export_access(access_of(scope, registered, None))


def _is_exportable(definition: Definition, access: Access) -> bool:
    """Return whether an access allows the export of any row of a type."""
    return reach_of(definition, access, SEARCH).rows is not NONE


def covers(current: Access, earlier: Access, names: Iterable[str]) -> bool:
    """Return whether an access still allows all that an earlier one allowed of these types."""
    served = types()
    definitions = [served[name] for name in names if name in served]
    if any(definition.visibility is Visibility.TARGETS for definition in definitions):
        # The visibility of such a type depends on all types.
        definitions = list(served.values())
    return all(
        # Each filter narrows a grant.
        any({*grant.filters} <= {*needed.filters} for grant in current.grants(name, SEARCH))
        for name in (
            definition.name
            for definition in definitions
            if definition.visibility is Visibility.SCOPE
        )
        for needed in earlier.grants(name, SEARCH)
    )


def members(snapshot: Reader, access: Access, group: str) -> tuple[str, ...]:
    """Return the ids of the patients who are members of a group now. Raises NotFound, Gone.

    Inactive members, and those whose period is over or has not begun, do not count.
    """
    name = f"Group/{group}"
    version = find_version(snapshot, reach_of(types()["Group"], access, READ), group)
    if version is None:
        raise NotFound(f"{name} is not known here.")
    if version.body is None:
        raise Gone(f"{name} was deleted.")
    now = to_milliseconds(datetime.now(UTC))
    patients: list[str] = []
    for member in fhir_json.loads(version.body).get("member", ()):
        target = relative_reference(member["entity"].get("reference", ""))
        period = period_interval(member.get("period", {}))
        is_member = period.low <= now < period.high and not member.get("inactive")
        if is_member and target is not None and target[0] == "Patient":
            patients.append(target[1])
    return tuple(dict.fromkeys(patients))


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split ids into parts that fit into one SELECT."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))


def _check_patients(snapshot: Reader, access: Access, patients: Sequence[str], group: str) -> None:
    """Raise InvalidParameter for patients who are unknown or are not members of the group.

    A token that may not see patients learns nothing about which of them exist.
    """
    if group and not {*patients} <= {*members(snapshot, access, group)}:
        raise InvalidParameter(PATIENTS.name, "names a patient who is not a member of the group")
    for patient_id in patients:
        check_not_merged(snapshot, patient_id, PATIENTS.name)
    definition = types()["Patient"]
    reach = reach_of(definition, access, SEARCH)
    if reach.rows is NONE:
        return
    for ids in batches(patients):
        where = all_of(reach.limit([Condition("r.is_current"), is_in("r.id", ids)]))
        count_known = f"SELECT count(*) FROM {definition.sql_table} r WHERE {where.sql}"
        ((count,),) = snapshot.all(count_known, where.values)
        if count < len(ids):
            raise InvalidParameter(PATIENTS.name, "names a patient who is not known here")


def read_export_request(level: str, group: str, access: Access, snapshot: Reader) -> ExportRequest:
    """Return the export that the HTTP request asks for, checked. Raises FhirError."""
    parameters, notes = _read_parameters()
    _check_format(parameters.value("_outputFormat"))
    since, until = _time(parameters, "_since"), _time(parameters, "_until")
    if since and until and since >= until:
        raise InvalidParameter("_until", "must be later than _since")
    chosen = _types(level, _listed(parameters, "_type"), access, notes)
    names = tuple(definition.name for definition in chosen)
    filters = _parse_filters(parameters.values.get("_typeFilter", ()), names)
    elements = _elements(_listed(parameters, "_elements"), chosen, notes)
    if "includeAssociatedData" in parameters.values:
        if response.is_strict():
            raise UnsupportedParameter("includeAssociatedData", _ASSOCIATED)
        notes.append(("includeAssociatedData", f"{_ASSOCIATED}; it was ignored"))
    patients = _parse_patients(parameters.values.get(PATIENTS.name), level)
    if patients is not None:
        _check_patients(snapshot, access, patients, group)
    query = request.environ.get("QUERY_STRING", "")
    return ExportRequest(
        level=level,
        # The query as the client wrote it.
        request=urls.base_url() + request.path + (f"?{query}" if query else ""),
        base_url=urls.base_url(),
        scope=" ".join(map(str, access.scopes)),
        types=names,
        group=group,
        since=since,
        until=until,
        filters=filters,
        elements=elements,
        patients=patients,
        notes=tuple(dict.fromkeys(notes)),
    )


def _read_parameters() -> tuple[RequestParameters, Notes]:
    """Return the parameters, and a note on each that is ignored. Raises FhirError.

    The URL must not name patients: logs keep URLs.
    """
    sent = response.arguments()
    if any(name == PATIENTS.name for name, _ in sent):
        raise InvalidParameter(PATIENTS.name, "is taken by POST alone, in a Parameters resource")
    if request.method == "POST":
        sent += operation.parse_body(_VALUE_TYPES, _MAX_MEMBERS)
    sent = [(name, value) for name, value in sent if value.strip()]
    # The format of the response to the kick-off.
    response.negotiate(sent)
    parameters = (*PARAMETERS, PATIENTS)
    known = {parameter.name for parameter in parameters} | {*response.FORM_PARAMETERS}
    notes: Notes = []
    if not response.is_strict():
        reason = "is not a parameter of $export; it was ignored"
        notes = [(name[:SHOWN], reason) for name, _ in sent if name not in known]
        sent = [(name, value) for name, value in sent if name in known]
    return operation.read_parameters(parameters, sent, "$export", is_paged=False), notes


def _reference(value: Mapping[str, Any]) -> str | None:
    reference = value.get("reference")
    return reference if type(reference) is str else None


# Text as it is, since commas do not separate queries of `_typeFilter`.
_VALUE_TYPES: operation.ValueTypes = {
    **{name: (str, str) for name, (kind, _) in operation.VALUES.items() if kind is str},
    "valueBoolean": operation.VALUES["valueBoolean"],
    "valueReference": (dict, _reference),
}


def _check_format(value: str | None) -> None:
    """Check the requested format. Raises InvalidParameter."""
    # A plus sign that the client did not escape arrives as a space.
    if value is not None and value.strip().replace(" ", "+").lower() not in _FORMATS:
        raise InvalidParameter("_outputFormat", f"{value[:SHOWN]!r} is not supported; use {NDJSON}")


def _time(parameters: RequestParameters, name: str) -> str | None:
    """Return the instant of a parameter, for a date its beginning. Raises InvalidParameter."""
    period = parameters.time(name)
    if period is None:
        return None
    if name == "_since" and period.low > time.time() * 1_000:
        raise InvalidParameter(name, "lies in the future; use the transactionTime of an export")
    return instant_of(period.low)


def _listed(parameters: RequestParameters, name: str) -> list[str]:
    """Return the distinct values of a parameter."""
    return list(dict.fromkeys(value.strip() for value in parameters.values.get(name, ())))


def _types(level: str, named: Sequence[str], access: Access, notes: Notes) -> list[Definition]:
    """Return the types to export: the named ones, or else all that the access allows.

    Raises FhirError for a named type that the access does not allow.
    """
    possible = {name: served for name, served in types().items() if not _why_not(level, name)}
    if not named:
        return [
            possible[name] for name in sorted(possible) if _is_exportable(possible[name], access)
        ]
    for name in named:
        if name not in possible:
            _ignore("_type", f"{name[:SHOWN]!r} {_why_not(level, name)}", notes)
        elif not _is_exportable(possible[name], access):
            raise insufficient_scope(
                f"The token's scope does not cover export of {name}.", f"system/{name}.rs", "_type"
            )
    chosen = [possible[name] for name in sorted({*named} & possible.keys())]
    if not chosen:
        raise InvalidParameter("_type", "names no type that can be exported here")
    return chosen


def _why_not(level: str, name: str) -> str:
    """Return why a level does not include a type, "" if it does."""
    served = types().get(name)
    if served is None:
        return "is not served here"
    if not served.searchable:
        return "is not exported by itself: attachments stand in documents, or at their url"
    is_of_patients = served.compartment or served.visibility is Visibility.TARGETS
    if level == SYSTEM or is_of_patients:
        return ""
    return f"is in no patient's compartment; a {SYSTEM} export has it, and a {PATIENT} one has not"


def _ignore(name: str, reason: str, notes: Notes) -> None:
    """Note a value that is ignored under lenient handling. Raises InvalidParameter under other."""
    if response.handling() != "lenient":
        raise InvalidParameter(name, reason)
    notes.append((name, f"{reason}; it was ignored"))


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
            _ignore("_elements", f"{text[:SHOWN]!r} is not an element of what is exported", notes)
        # A type that lacks the element is narrowed too, or it would be exported whole.
        for definition in having if type_name else addressed:
            selected = elements.setdefault(definition.name, ["id"])
            if definition in having:
                selected.append(element)
    return tuple((name, tuple(selected)) for name, selected in elements.items())


def _parse_patients(values: Sequence[str] | None, level: str) -> tuple[str, ...] | None:
    """Return the ids of the named patients, None for no limit. Raises InvalidParameter."""
    if values is None:
        return None
    if level == SYSTEM:
        raise InvalidParameter(PATIENTS.name, "does not go with an export of the whole server")
    prefix = urls.own_prefix()
    matches = [_PATIENT.fullmatch(value.removeprefix(prefix)) for value in values]
    if None in matches:
        raise InvalidParameter(
            PATIENTS.name, "is not a reference to a patient here; use Patient/<id>"
        )
    return tuple(dict.fromkeys(match[1] for match in matches if match))


def _parse_filters(values: Sequence[str], exported: Sequence[str]) -> tuple[Filter, ...]:
    """Return the queries, each checked, of the types that are exported. Raises ParameterError."""
    texts = [text for value in values for text in _BETWEEN_QUERIES.split(value) if text.strip()]
    if len(texts) > _MAX_QUERIES:
        raise InvalidParameter(
            "_typeFilter", f"lists more than {_MAX_QUERIES} queries; that is the most"
        )
    return tuple(_parse_filter(text, exported) for text in texts)


def _parse_filter(text: str, exported: Sequence[str]) -> Filter:
    match = _QUERY.fullmatch(text)
    if match is None:
        raise InvalidParameter(
            "_typeFilter", f"{text[:SHOWN]!r} is not a query; use Type?parameter=value"
        )
    name, query = match.groups()
    if name not in exported:
        raise InvalidParameter(
            "_typeFilter", f"{name[:SHOWN]} is not among the types that are exported"
        )
    pairs = tuple(response.parse_form(query.encode()))
    definition, snapshot = types()[name], reader()
    context = _context(definition, snapshot)
    try:
        applied = _parse_query(definition, pairs, context).applied
        reach = reach_of(definition, Access((), None), SEARCH)
        check_searched_not_merged(snapshot, reach, applied, context, is_empty=True)
    except FhirError as error:
        raise InvalidParameter("_typeFilter", f"{name}: {error.diagnostics}") from None
    return name, pairs


def conditions_of(
    definition: Definition, pairs: Sequence[tuple[str, str]], snapshot: Reader
) -> list[AnyCondition]:
    """Return the conditions of a query on a row `r`; all must hold. Raises FhirError."""
    return _parse_query(definition, pairs, _context(definition, snapshot)).conditions()


def _context(definition: Definition, snapshot: Reader) -> Context:
    return Context(definition.tables, urls.base_url(), Terminology(lambda: snapshot).resolve)


def _parse_query(
    definition: Definition, pairs: Sequence[tuple[str, str]], context: Context
) -> Query:
    """Parse a query that selects rows and shapes nothing. Raises FhirError."""
    controls = parse_controls(pairs, default=1, greatest=1)
    shaping = [name for name, value in pairs if (name, value) not in controls.rest]
    if shaping:
        raise UnsupportedParameter(shaping[0][:SHOWN], "shapes an answer, and selects nothing")
    query = parse_query(definition.params, pairs, context, strict=True)
    if query.ignored:
        name, reason = query.ignored[0]
        raise InvalidParameter(name[:SHOWN], reason)
    return query
