"""The reach of a token: what it may see of a resource type, as a SQL condition.

It is decided before any record is read, and made here alone. decisions §4, §6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from flask import Flask, current_app

from fhirapp import urls
from fhirapp.auth.protector import current_token, insufficient_scope
from fhirapp.auth.scopes import Access, Permission, Scope
from fhirapp.db import Reader, quoted
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir import outcome
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.search.parameter import Context
from fhirapp.search.query import Arguments
from fhirapp.search.reference import Reference
from fhirapp.search.values import AnyCondition, Condition, all_of, any_of, is_in, split, unescape
from fhirapp.store.merge import merged_target
from fhirapp.store.prepare import CARRIES

ALL = Condition("1 = 1")
NONE = Condition("1 = 0", narrows=True)
# The parameter that indexes what a TARGETS type is judged by.
_TARGET = "target"
# How deep TARGETS types nest: a Provenance of a Provenance may be seen, one level more by nobody.
_NESTED = 1
_BY_TARGETS = "fhirapp.by_targets"
# What a version `h` is judged by: its content or, for a deletion, which has none, that of the
# version it deleted; and the last content of the resource, so that its past cannot be seen where no
# scope covers the resource any more or it is another patient's now.
_JUDGED_BY = (" AND d.version_id <= h.version_id", "")


def carriers() -> Iterable[Definition]:
    """Return the types whose resources carry attachments; a view only names those of its source."""
    return [carrier for carrier in types().values() if carrier.attachments and carrier.view is None]


class Reach(NamedTuple):
    """What a token may see of a type with one permission, "r" or "s".

    rows is the condition that a row `r` may be seen; ALL and NONE are compared by identity. Of a
    CARRIER type it is NONE: has_visible_carrier decides.
    """

    definition: Definition
    access: Access
    permission: str
    rows: AnyCondition

    def limit(self, conditions: Iterable[AnyCondition]) -> list[AnyCondition]:
        """Return the conditions, and that the row may be seen."""
        return [*conditions, *([] if self.rows is ALL else [self.rows])]

    def versions(self) -> list[Condition]:
        """Return what must hold of a version `h` that may be seen (decisions §6)."""
        if self.rows is ALL:
            return []
        conditions: list[Condition] = []
        patients = {grant.patient for grant in self.grants}
        if self.definition.compartment and patients and None not in patients:
            # Not enough alone, but there is an index.
            conditions.append(is_in("h.patient_id", patients))
        table, covered = self.definition.sql_table, self.rows.where()
        conditions += [
            Condition(
                # Not EXISTS, which PostgreSQL would make a join of all versions.
                f"1 = (SELECT count(*) FROM {table} r WHERE r.pk = (SELECT d.pk FROM {table} d"
                f" WHERE d.id = h.id AND NOT d.deleted{until} ORDER BY d.version_id DESC LIMIT 1)"
                f" AND {covered.sql})",
                covered.values,
            )
            for until in _JUDGED_BY
        ]
        return conditions

    @property
    def grants(self) -> tuple[Permission, ...]:
        """The grants of the token for the type."""
        return self.access.grants(self.definition.name, self.permission)

    def check_patients(self, applied: Arguments, context: Context, chain: str = "") -> None:
        """Refuse a search that names another patient than the token's (decisions §6).

        chain is the name of the chained parameter that searches the type so; there, an `_id` of a
        Patient names one too. Raises Forbidden; without this the answer would be an empty Bundle,
        which reads as "none".
        """
        definition = self.definition
        # Of a TARGETS type, what may be seen depends on all types.
        of_targets = definition.visibility is Visibility.TARGETS
        deciding = types().values() if of_targets else (definition,)
        patients = {
            grant.patient
            for decider in deciding
            for grant in self.access.grants(decider.name, self.permission)
        }
        if None in patients:
            return
        of_patients = [pair for pair in applied if _refers_to_patient(definition, pair[0])]
        named = [*_named_targets(definition, of_patients, context)]
        if chain and definition.compartment == "id":
            listed = [value for name, value in applied if name == "_id"]
            ids = [unescape(choice) for value in listed for choice in split(value, ",")]
            named += [(chain, ("", choice)) for choice in ids]
        for name, target in named:
            if target[1] not in patients or target[0] not in ("", "Patient"):
                raise insufficient_scope(
                    f"{chain or name}: the token is for one patient, and this is another.",
                    f"user/{definition.name}.s",
                    (chain or name).partition(":")[0],
                )


def reach_of(definition: Definition, access: Access, permission: str) -> Reach:
    """Return what a token may see of a type."""
    return Reach(definition, access, permission, _row_condition(definition, access, permission))


def _row_condition(
    definition: Definition, access: Access, permission: str, nested: int = _NESTED
) -> AnyCondition:
    """Return the condition that a row `r` may be seen.

    nested limits targets that are of TARGETS types.
    """
    if definition.visibility is Visibility.CARRIER:
        return NONE
    if definition.visibility is not Visibility.SCOPE and not access.allows_any(permission):
        own_id = access.own_id(definition.name, permission)
        return Condition("r.id = ?", (own_id,), narrows=True) if own_id else NONE
    if definition.visibility is Visibility.TARGETS:
        by_targets = current_app.extensions[_BY_TARGETS]
        limit: Condition = by_targets(definition.name, access, permission, nested, urls.base_url())
        return limit
    if definition.visibility is not Visibility.SCOPE:
        return ALL
    grants = access.grants(definition.name, permission)
    if any(grant == Permission(None) for grant in grants):
        return ALL
    conditions = [
        condition
        for grant in grants
        if (condition := _grant_condition(definition, grant)) is not None
    ]
    return any_of(conditions) if conditions else NONE


def _grant_condition(definition: Definition, grant: Permission) -> AnyCondition | None:
    """Return the condition of one grant; None, so nothing, where it cannot be enforced."""
    parts: list[AnyCondition] = []
    if grant.patient is not None:
        if not definition.compartment:
            # Of nobody's record: a patient's token has nothing to see there.
            return None
        parts.append(Condition("r.patient_id = ?", (grant.patient,), narrows=True))
    limits = filter_conditions(definition, grant.filters)
    if limits is None:
        return None
    parts += limits
    return all_of(parts)


def filter_conditions(
    definition: Definition, filters: Sequence[tuple[str, str]]
) -> list[AnyCondition] | None:
    """Return the conditions of a scope's filters; None where one of them cannot be enforced."""
    context = Context(definition.tables, urls.base_url())
    conditions: list[AnyCondition] = []
    for name, value in filters:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name.get(base)
        if parameter is None:
            return None
        try:
            conditions += parameter.conditions(modifier, [value], context)
        except outcome.FhirError:
            return None
    return conditions


def init_app(app: Flask) -> None:
    """Give the app its cache of conditions on targets; building one takes as long as a read."""
    app.extensions[_BY_TARGETS] = lru_cache(maxsize=256)(_by_targets)


def _by_targets(
    type_name: str, access: Access, permission: str, nested: int, _base_url: str
) -> Condition:
    """Return the condition that every target of a row `r` may be seen.

    A target that is named only by an identifier, or is on another server, cannot be seen: its index
    row has no type, or a type that is not served. _base_url is part of the key of the cache.
    """
    targets = quoted(types()[type_name].tables.reference.name)
    seen, ids = [], []
    for target in types().values():
        condition = _visible_condition(target, access, permission, Condition("t.target_id"), nested)
        if condition is not None:
            seen.append(
                Condition(
                    f"(t.target_type = ? AND {condition.sql})", (target.name, *condition.values)
                )
            )
            ids.append((target.name, _visible_ids(target, access, permission, nested)))
    if not seen:
        return NONE
    one_of = any_of(seen).where()
    every = Condition(
        f"NOT EXISTS (SELECT 1 FROM {targets} t WHERE t.pk = r.pk AND t.param = ?"
        f" AND NOT {one_of.sql})",
        (_TARGET, *one_of.values),
    )
    if not all(condition.narrows for _, condition in ids):
        return every
    # A patient's token sees few targets: start from these, instead of from every row.
    own = " UNION ALL ".join(
        f"SELECT t.pk FROM {targets} t WHERE t.param = ? AND t.target_type = ?"
        f" AND t.target_id IN ({condition.sql})"
        for _, condition in ids
    )
    values = [value for name, condition in ids for value in (_TARGET, name, *condition.values)]
    return Condition(f"r.pk IN ({own}) AND {every.sql}", (*values, *every.values), narrows=True)


def _visible_condition(
    definition: Definition, access: Access, permission: str, target: Condition, nested: int
) -> Condition | None:
    """Return the condition that a resource is here and may be seen; None where none may be.

    target is the SQL of its id. One that was deleted is judged by what it was.
    """
    if definition.visibility is Visibility.CARRIER:
        return _carrier_condition(access, target)
    if definition.visibility is Visibility.SCOPE and not access.grants(definition.name, permission):
        return None
    if definition.visibility is Visibility.TARGETS and nested == 0:
        return None
    limit = _row_condition(definition, access, permission, nested - 1).where()
    table = definition.sql_table
    return Condition(
        f"EXISTS (SELECT 1 FROM {table} r WHERE r.pk = (SELECT d.pk FROM {table} d"
        f" WHERE d.id = {target.sql} AND NOT d.deleted ORDER BY d.version_id DESC LIMIT 1)"
        f" AND {limit.sql})",
        (*target.values, *limit.values),
    )


def _visible_ids(definition: Definition, access: Access, permission: str, nested: int) -> Condition:
    """Return the SELECT of the ids of which some version may be seen; narrows where they are few.

    Practitioners and organizations are few.
    """
    if definition.visibility is Visibility.CARRIER:
        return _carried_ids(access)
    limit = _row_condition(definition, access, permission, nested - 1).where()
    return Condition(
        f"SELECT r.id FROM {definition.sql_table} r WHERE {limit.sql}",
        limit.values,
        narrows=limit.narrows or definition.visibility is Visibility.ANY_SCOPE,
    )


def _readable_carriers(access: Access) -> list[tuple[Definition, str, Condition]]:
    """Return the types that the token may read and that carry Binaries.

    Each with its index table of references, `a` in SQL, and the condition that a version is read.
    """
    return [
        (
            carrier,
            quoted(carrier.tables.reference.name),
            _row_condition(carrier, access, "r").where(),
        )
        for carrier in carriers()
        if access.grants(carrier.name, "r")
    ]


def _carrier_condition(access: Access, target: Condition) -> Condition | None:
    """Return the condition that a version that carries a Binary may be read; None where none may.

    target is the SQL of the Binary's id.
    """
    carried = [
        Condition(
            f"EXISTS (SELECT 1 FROM {carries} a WHERE a.param = ? AND a.target_id = {target.sql}"
            f" AND {_carrier_seen(carrier, limit)})",
            (CARRIES, *target.values, *limit.values, *limit.values),
        )
        for carrier, carries, limit in _readable_carriers(access)
    ]
    return any_of(carried).where() if carried else None


def _carried_ids(access: Access) -> Condition:
    """Return the SELECT of the ids of Binaries of which a carrier may be read."""
    carrying = _readable_carriers(access)
    return Condition(
        " UNION ALL ".join(
            f"SELECT a.target_id FROM {carries} a"
            f" WHERE a.param = ? AND {_carrier_seen(carrier, limit)}"
            for carrier, carries, limit in carrying
        ),
        tuple(
            value for _, _, limit in carrying for value in (CARRIES, *limit.values, *limit.values)
        ),
        narrows=all(limit.narrows for _, _, limit in carrying),
    )


def _carrier_seen(definition: Definition, limit: Condition) -> str:
    """Return the SQL that the version with index row `a`, and its resource now, may be seen.

    As in rest/read.py, no past is in reach that no scope covers now. It contains the limit twice.
    """
    table = definition.sql_table
    return (
        f"EXISTS (SELECT 1 FROM {table} r WHERE r.pk = a.pk AND {limit.sql}) AND EXISTS"
        f" (SELECT 1 FROM {table} r WHERE r.pk = (SELECT d.pk FROM {table} d WHERE d.id ="
        f" (SELECT h.id FROM {table} h WHERE h.pk = a.pk) AND NOT d.deleted"
        f" ORDER BY d.version_id DESC LIMIT 1) AND {limit.sql})"
    )


def has_visible_carrier(reader: Reader, access: Access, binary_id: str) -> bool:
    """Say whether some version that carries the Binary may be read."""
    condition = _carrier_condition(access, Condition("?", (binary_id,)))
    if condition is None:
        return False
    return reader.first(f"SELECT 1 WHERE {condition.sql}", condition.values) is not None


_NAMES = {"r": "read", "s": "search"}
_ID = re.compile(ID_PATTERN)


def require(definition: Definition, permission: str, resource_id: str | None = None) -> Reach:
    """Return what the request's token may see of a type, of which it must reach something.

    permission is "r" or "s"; resource_id is that of the one resource that is read. Raises
    Forbidden, and what check_id raises, before any data is read.
    """
    if resource_id is not None:
        check_id(definition, resource_id)
    access = current_token.access()
    own_id = access.own_id(definition.name, permission)
    is_user = own_id is not None and own_id == resource_id
    if not (reaches(definition, access, permission) or is_user):
        raise insufficient_scope(
            f"The token's scope does not cover {_NAMES[permission]} of {definition.name}.",
            f"system/{definition.name}.{permission}",
        )
    return reach_of(definition, access, permission)


def reaches(definition: Definition, access: Access, permission: str) -> bool:
    """Say whether a token may see anything of a type at all."""
    if definition.visibility is Visibility.SCOPE:
        return bool(access.grants(definition.name, permission))
    if definition.visibility is Visibility.CARRIER:
        return any(access.grants(carrier.name, permission) for carrier in carriers())
    return access.allows_any(permission)


def check_reaches(definition: Definition, access: Access, parameter: str) -> None:
    """Raises Forbidden where a parameter searches a type of which the token may search none."""
    if not reaches(definition, access, "s"):
        raise insufficient_scope(
            f"{parameter}: the token's scope does not cover search of {definition.name}.",
            f"system/{definition.name}.s",
            parameter,
        )


def check_id(definition: Definition, resource_id: str) -> None:
    """Raise NotFound for an invalid id, Forbidden where the token may not read the type."""
    if not _ID.fullmatch(resource_id):
        require(definition, "r")
        raise outcome.NotFound(f"{definition.name}: this can be no id.")


_AUDIT_EVENT = "AuditEvent"


def enforceable(scope: Scope) -> bool:
    """Say whether a scope names a type that is served, and only filters that it has.

    Where other resources or scopes decide who may see a type, its own filters would not be asked.
    """
    if scope.resource_type == "*":
        return not scope.filters
    if scope.resource_type == _AUDIT_EVENT:
        # Its own route asks for a user who is an administrator (resources/audit_event.py).
        return scope.context == "user" and not scope.filters
    definition = types().get(scope.resource_type)
    if definition is None:
        return False
    if definition.visibility is not Visibility.SCOPE:
        return not scope.filters
    return filter_conditions(definition, scope.filters) is not None


def types_of_scopes() -> Mapping[str, bool]:
    """Return the types whose own scopes decide, and whether each is of a patient's record."""
    return {
        definition.name: bool(definition.compartment)
        for definition in types().values()
        if definition.visibility is Visibility.SCOPE
    }


def check_searched_not_merged(
    reader: Reader, reach: Reach, applied: Arguments, context: Context, *, is_empty: bool
) -> None:
    """Refuse a search whose answer lacks the record of a patient who was merged into another.

    That is one that found nothing, or that names several patients without the surviving one.
    Raises InvalidParameter; without this the answer reads as "none".
    """
    if is_empty and reach.access.patient and reach.definition.compartment:
        check_not_merged(reader, reach.access.patient)
    for pair in applied:
        names = {
            patient_id: name
            for name, (type_name, patient_id) in _named_targets(reach.definition, [pair], context)
            if type_name in ("", "Patient")
        }
        if names and (is_empty or len(names) > 1):
            for patient_id, name in names.items():
                if merged_target(reader, patient_id) not in names:
                    check_not_merged(reader, patient_id, name)


def check_not_merged(reader: Reader, patient_id: str, parameter: str = "patient") -> None:
    """Raise InvalidParameter where a patient's record is in another's now."""
    if target := merged_target(reader, patient_id):
        raise outcome.InvalidParameter(
            parameter,
            f"Patient/{patient_id} was merged into Patient/{target}, which has the record; ask"
            " for that one",
        )


def _named_targets(
    definition: Definition, applied: Arguments, context: Context
) -> Iterator[tuple[str, tuple[str | None, str]]]:
    """Yield each parameter that names a resource by id, and the (type, id)."""
    for name, value in applied:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name[base]
        if not isinstance(parameter, Reference) or modifier in ("missing", "identifier"):
            # They name no id.
            continue
        for choice in split(value, ","):
            yield name, parameter.target(modifier, choice, context.base_url)


def _refers_to_patient(definition: Definition, name: str) -> bool:
    parameter = definition.params.by_name[name.partition(":")[0]]
    return isinstance(parameter, Reference) and (
        parameter.compartment or parameter.targets == ("Patient",)
    )
