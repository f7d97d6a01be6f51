"""Whose records are exported: the patients that a request names, and the members of a group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from fhirapp.address import own_prefix
from fhirapp.auth.access.compartment import Access
from fhirapp.db import Reader
from fhirapp.exchange.bulk.access import limit_of, reaches
from fhirapp.exchange.bulk.given import PATIENT as NAME
from fhirapp.exchange.bulk.wanted import SYSTEM
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import Gone, InvalidParameter, NotFound
from fhirapp.fhir.temporal import period_interval, to_milliseconds
from fhirapp.rest.read import find_version
from fhirapp.search.reference import relative_reference
from fhirapp.store.definition import types

# Values of one SELECT.
AT_ONCE = 200
_PATIENT = re.compile(rf"Patient/({ID_PATTERN})")


def parse_patients(values: Sequence[str], level: str) -> tuple[str, ...] | None:
    """Return the ids of the patients that are named, None for no limit. Raises InvalidParameter."""
    if not values:
        return None
    if level == SYSTEM:
        raise InvalidParameter(NAME, "does not go with an export of the whole server")
    found = [_PATIENT.fullmatch(value.removeprefix(own_prefix())) for value in values]
    if None in found:
        raise InvalidParameter(NAME, "is not a reference to a patient here; use Patient/<id>")
    return tuple(dict.fromkeys(one[1] for one in found if one))


def check_patients(snapshot: Reader, access: Access, patients: Sequence[str], group: str) -> None:
    """Refuse patients who are not here, or no members of the group. Raises InvalidParameter.

    Where the token may not see patients, it is not told who is here.
    """
    if group and not {*patients} <= {*members(snapshot, access, group)}:
        raise InvalidParameter(NAME, "names a patient who is no member of the group")
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
            raise InvalidParameter(NAME, "names a patient who is not known here")


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
