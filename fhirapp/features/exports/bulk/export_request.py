"""An export request after its checks: which records, whose, and what its client may export.

An export holds what a search with the same token finds. The request is kept as JSON in the
export's folder for as long as the export is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from fhirapp.auth.protector import current_token, insufficient_scope
from fhirapp.auth.scopes import READ, SEARCH, Access, access_of
from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.fhir.temporal import period_interval, to_milliseconds
from fhirapp.rest.access import NONE, check_not_merged, reach_of
from fhirapp.rest.read import find_version
from fhirapp.search.reference import relative_reference
from fhirapp.search.values import Condition, all_of, is_in

SYSTEM, PATIENT, GROUP = "system", "patient", "group"

PATIENT_PARAMETER = "patient"
# Values of one SELECT.
BATCH = 200
# A query of `_typeFilter`: the type, and its search parameters.
Filter = tuple[str, tuple[tuple[str, str], ...]]


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

    def filters_of(self, type_name: str) -> list[tuple[tuple[str, str], ...]]:
        """Return the queries of a type; a resource must match at least one."""
        return [query for name, query in self.filters if name == type_name]

    def elements_of(self, type_name: str) -> tuple[str, ...]:
        """Return the elements to export of a type; none means the whole resource."""
        return dict(self.elements).get(type_name, ())

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


def is_exportable(definition: Definition, access: Access) -> bool:
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


def check_patients(snapshot: Reader, access: Access, patients: Sequence[str], group: str) -> None:
    """Raise InvalidParameter for patients who are unknown or are not members of the group.

    A token that may not see patients learns nothing about which of them exist.
    """
    if group and not {*patients} <= {*members(snapshot, access, group)}:
        raise InvalidParameter(
            PATIENT_PARAMETER, "names a patient who is not a member of the group"
        )
    for patient_id in patients:
        check_not_merged(snapshot, patient_id, PATIENT_PARAMETER)
    definition = types()["Patient"]
    reach = reach_of(definition, access, SEARCH)
    if reach.rows is NONE:
        return
    for ids in batches(patients):
        where = all_of(reach.limit([Condition("r.is_current"), is_in("r.id", ids)]))
        count_known = f"SELECT count(*) FROM {definition.sql_table} r WHERE {where.sql}"
        ((count,),) = snapshot.all(count_known, where.values)
        if count < len(ids):
            raise InvalidParameter(PATIENT_PARAMETER, "names a patient who is not known here")


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
    listed = fhir_json.loads(version.body).get("member", ())
    return tuple(dict.fromkeys(_patients(listed, now)))


def _patients(listed: Sequence[Mapping[str, Any]], now: int) -> Iterator[str]:
    for member in listed:
        target = relative_reference(member["entity"].get("reference", ""))
        period = period_interval(member.get("period", {}))
        is_member = period.low <= now < period.high and not member.get("inactive")
        if is_member and target is not None and target[0] == "Patient":
            yield target[1]


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split ids into parts that fit into one SELECT."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
