"""`$match`: the patients here who may be the one who is sent. FHIR R4 operation-patient-match.

By the rules by which an import knows a patient again (fhir/identity.py), never by more:

    certain   the only one with one of the numbers, and nothing speaks against it
    probable  one of several with a number; or the same name, birth date and gender
    possible  a number, but something speaks against it; or a name and a birth date that may be the
              same, of which something is not recorded, or not equal, or the numbers differ

Of records that were merged, the one that has it all is found. A token finds whom it may search, and
the others count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flask import Response

from fhirapp import urls
from fhirapp.db import Reader, reader
from fhirapp.definition import Definition, Operation, OperationParameter
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.identity import contradiction, known_by
from fhirapp.fhir.json import beside
from fhirapp.fhir.outcome import InvalidParameter, issue
from fhirapp.fhir.resource import InvalidResource
from fhirapp.fhir.temporal import stored_interval
from fhirapp.rest.access import Reach, require
from fhirapp.rest.bundle_answer import BundleAnswer
from fhirapp.rest.operation import RequestParameters, parse_operation
from fhirapp.rest.paging import page_link
from fhirapp.rest.response import negotiate
from fhirapp.search.date import SearchedDate, range_condition
from fhirapp.search.index import KEY_LENGTH, DateRow, StringRow
from fhirapp.search.parameter import Context
from fhirapp.search.query import MAX_VALUES, parse_count
from fhirapp.search.string import fold
from fhirapp.search.values import (
    AnyCondition,
    IndexCondition,
    all_of,
    escape,
    is_in,
    parse_boolean,
)
from fhirapp.store.merge import merged_into

MATCH = Operation(
    "match",
    "http://hl7.org/fhir/OperationDefinition/Patient-match",
    "The patients who may be the one who is sent, each with how sure that is: certain only by an"
    " identifier against which nothing speaks.",
    (
        OperationParameter("resource", "Resource", "The Patient who is looked for", required=True),
        OperationParameter("onlyCertainMatches", "boolean", "Only who is certain: one, or nobody"),
        OperationParameter("count", "integer", "Results at most"),
    ),
    is_paged=False,
)
_GRADE = "http://hl7.org/fhir/StructureDefinition/match-grade"
_CERTAIN, _PROBABLE, _POSSIBLE = "certain", "probable", "possible"
_SCORES = {_CERTAIN: 1.0, _PROBABLE: 0.8, _POSSIBLE: 0.5}
_GENDERS = ("male", "female", "other")
# So many who share a number, and so many who share a name and a birth date, are compared.
_COMPARED = 100
_COUNT = 20
_NOTHING = (
    "has nothing to match on: it needs an identifier with system and value, or a name and a birth"
    " date"
)
_CUT = f"more than {_COMPARED} patients are alike; the others were not compared"

Resource = Mapping[str, Any]


class _Record(NamedTuple):
    """A patient's record here."""

    id: str
    version_id: int
    body: bytes
    resource: Resource

    @property
    def patient_id(self) -> str:
        return self.id


def match(definition: Definition) -> Response:
    """Return the patients as a searchset Bundle, the surest first. Raises FhirError."""
    reach = require(definition, "s")
    operation = parse_operation(MATCH)
    layout = negotiate(operation.parameters)
    sought = _sought(definition, operation)
    certain_alone = operation.value("onlyCertainMatches") or "false"
    is_strict = parse_boolean("onlyCertainMatches", certain_alone)
    count = parse_count(operation.value("count"), _COUNT, _COMPARED, "count")
    snapshot = reader()
    by_number = _alike(snapshot, reach, _numbers(definition, sought))
    by_name = _alike(snapshot, reach, _name_and_birth(definition, sought))
    if by_number is None and by_name is None:
        raise InvalidParameter("resource", _NOTHING)
    by_id = {record.id: record for record in (*(by_number or ()), *(by_name or ()))}
    by_id |= {record.id: record for record in _merged_targets(snapshot, reach, by_id)}
    grades = _graded(sought, by_number or (), by_name or (), by_id)
    if is_strict:
        grades = {patient_id: grade for patient_id, grade in grades.items() if grade == _CERTAIN}
    best = sorted(grades, key=lambda patient_id: (-_SCORES[grades[patient_id]], patient_id))
    is_cut = any(len(found_by or ()) > _COMPARED for found_by in (by_number, by_name))
    shown = [(by_id[patient_id], grades[patient_id]) for patient_id in best[:count]]
    answer = BundleAnswer()
    for record, grade in shown:
        extension = [{"url": _GRADE, "valueCode": grade}]
        search = {"extension": extension, "mode": "match", "score": _SCORES[grade]}
        answer.add(definition, [record], beside(search=search))
    answer.add_issues([issue("warning", "too-costly", _CUT)] if is_cut else [])
    links = [("self", page_link(f"{definition.name}/${MATCH.name}", ()))]
    return answer.respond(links, len(best), layout)


def _sought(definition: Definition, operation: RequestParameters) -> Resource:
    """Return the elements of the Patient who is looked for. Raises InvalidParameter."""
    try:
        sought = definition.schema.load(fhir_json.loads(operation.values["resource"][0]))
    except InvalidResource as error:
        # Nothing of what it says.
        places = ", ".join(dict.fromkeys(path for path, _ in error.faults))
        message = f"has to be a valid {definition.name}; wrong: {places[:200]}"
        raise InvalidParameter("resource", message) from None
    except ValueError:
        raise InvalidParameter("resource", "has to be a resource") from None
    for name in ("identifier", "name"):
        if len(sought.get(name, ())) > MAX_VALUES:
            raise InvalidParameter("resource", f"{name}: {MAX_VALUES} are the most")
    return sought


def _numbers(definition: Definition, sought: Resource) -> list[AnyCondition]:
    """Return the condition that a patient has one of the numbers; nothing without any."""
    numbers = known_by(sought.get("identifier", ()))
    values = ",".join(f"{escape(system)}|{escape(value)}" for system, value in numbers)
    context = Context(definition.tables, urls.base_url())
    parameter = definition.params.by_name["identifier"]
    return parameter.conditions("", [values], context) if values else []


def _name_and_birth(definition: Definition, sought: Resource) -> list[AnyCondition]:
    """Return the indexed conditions on name and birth date; nothing without both."""
    names = sorted({name[:KEY_LENGTH] for name in (*_families(sought), *_whole_names(sought))})
    birth = sought.get("birthDate")
    if not names or not birth:
        return []
    context = Context(definition.tables, urls.base_url())
    among = is_in("k.folded", names)
    born = stored_interval(birth)
    near = range_condition("birthdate", [SearchedDate("ge", born), SearchedDate("le", born)])
    return [
        IndexCondition(
            context.table(StringRow), f"k.param = ? AND {among.sql}", ("name", *among.values)
        ),
        IndexCondition(
            context.table(DateRow),
            f"{near.sql} AND k.low < ? AND k.high > ?",
            (*near.values, born.high, born.low),
        ),
    ]


def _alike(
    snapshot: Reader, reach: Reach, conditions: Sequence[AnyCondition]
) -> list[_Record] | None:
    """Return the records for which conditions hold, one beyond the most; None without any."""
    if not conditions:
        return None
    gathered = [
        condition.gathered() if isinstance(condition, IndexCondition) else condition
        for condition in conditions
    ]
    return _read(snapshot, reach, gathered)


def _merged_targets(snapshot: Reader, reach: Reach, by_id: Mapping[str, _Record]) -> list[_Record]:
    """Return those into whom some of these were merged and who are not among them."""
    missing = {merged_into(record.resource) for record in by_id.values()} - {"", *by_id}
    if not missing:
        return []
    return _read(snapshot, reach, [is_in("r.id", missing)])


def _read(snapshot: Reader, reach: Reach, conditions: Sequence[AnyCondition]) -> list[_Record]:
    where = all_of(reach.limit(conditions))
    rows = snapshot.all(
        f"SELECT r.id, r.version_id, r.body FROM {reach.definition.sql_table} r"
        f" WHERE r.is_current AND {where.sql} LIMIT {_COMPARED + 1}",
        where.values,
    )
    return [_Record(row[0], row[1], row[2], fhir_json.loads(row[2])) for row in rows]


def _graded(
    sought: Resource,
    by_number: Sequence[_Record],
    by_name: Sequence[_Record],
    by_id: Mapping[str, _Record],
) -> dict[str, str]:
    """Return how sure it is of each, by id; of records that were merged, of the one that stays."""
    unnumbered = {name: value for name, value in sought.items() if name != "identifier"}
    grades: dict[str, str] = {}

    def staying(record: _Record) -> _Record:
        return by_id.get(merged_into(record.resource), record)

    def note(record: _Record, grade: str) -> None:
        known = grades.get(staying(record).id, grade)
        grades[staying(record).id] = max(known, grade, key=_SCORES.__getitem__)

    people = {staying(hit).id for hit in by_number}
    for hit in by_number:
        # An import asks the record that stays, whose numbers may be others.
        is_doubtful = contradiction(sought, hit.resource) or contradiction(
            unnumbered, staying(hit).resource
        )
        sure = _CERTAIN if len(people) == 1 else _PROBABLE
        note(hit, _POSSIBLE if is_doubtful else sure)
    for hit in by_name:
        if _is_called(sought, hit.resource) and not contradiction(unnumbered, hit.resource):
            is_same = _is_same(sought, hit.resource) and not contradiction(sought, hit.resource)
            note(hit, _PROBABLE if is_same else _POSSIBLE)
    return grades


def _is_called(sought: Resource, patient: Resource) -> bool:
    """Say whether a name is the same; the index also finds a given name for a family name."""
    return any(not names(sought).isdisjoint(names(patient)) for names in (_families, _whole_names))


def _is_same(sought: Resource, patient: Resource) -> bool:
    """Say whether whole name, day of birth and gender are recorded and the same."""
    return (
        not _whole_names(sought).isdisjoint(_whole_names(patient))
        and len(sought["birthDate"]) == len("YYYY-MM-DD")
        and sought["birthDate"] == patient.get("birthDate")
        and sought.get("gender") in _GENDERS
        and sought.get("gender") == patient.get("gender")
    )


def _families(patient: Resource) -> set[str]:
    """Return the family names, without case and accents."""
    return {fold(name["family"]) for name in patient.get("name", ()) if name.get("family")} - {""}


def _whole_names(patient: Resource) -> set[str]:
    """Return the names as they are written, with the first given name and with each."""
    wholes = set()
    for name in patient.get("name", ()):
        # A name that is not known may be null beside an extension.
        given, family = [part for part in name.get("given", ()) if part], name.get("family")
        wholes.add(fold(name.get("text") or ""))
        if given and family:
            wholes |= {fold(" ".join([*parts, family])) for parts in (given[:1], given)}
    return wholes - {""}
