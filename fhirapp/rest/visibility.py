"""Which rows a token may see: its limit as a piece of WHERE, made here alone. decisions §6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson

from fhirapp.address import base_url
from fhirapp.auth.compartment import Access, Grant
from fhirapp.db import Reader
from fhirapp.fhir.outcome import FhirError
from fhirapp.search.condition import AnyCondition, Condition, any_of
from fhirapp.search.parameter import Context
from fhirapp.search.reference import relative_reference
from fhirapp.store.attachments import CARRIES
from fhirapp.store.definition import Definition, Visibility, types

NOTHING = Condition("1 = 0", narrows=True)


def carriers() -> Iterable[Definition]:
    """Return the types whose resources carry attachments."""
    return [definition for definition in types().values() if definition.attachments]


def visible(definition: Definition, access: Access, permission: str) -> AnyCondition | None:
    """Return the condition that a row `r` may be seen; None where every row may."""
    if definition.visibility is not Visibility.SCOPE:
        return None
    grants = access.grants(definition.name, permission)
    if any(grant == Grant(None) for grant in grants):
        return None
    conditions = [
        condition for grant in grants if (condition := _granted(definition, grant)) is not None
    ]
    return any_of(conditions) if conditions else NOTHING


def _granted(definition: Definition, grant: Grant) -> AnyCondition | None:
    """Return the condition of one grant; None, so nothing, for a filter that cannot be enforced."""
    parts: list[AnyCondition] = []
    if grant.patient is not None and definition.compartment:
        parts.append(Condition("r.patient_id = ?", (grant.patient,), narrows=True))
    limits = filtered(definition, grant.filters)
    if limits is None:
        return None
    parts += limits
    if not parts:
        return Condition("1 = 1")
    rendered = [part.where() for part in parts]
    return Condition(
        "(" + " AND ".join(part.sql for part in rendered) + ")",
        tuple(value for part in rendered for value in part.values),
        narrows=any(part.narrows for part in parts),
    )


def filtered(
    definition: Definition, filters: Sequence[tuple[str, str]]
) -> list[AnyCondition] | None:
    """Return the conditions of a scope's filters; None where one of them cannot be enforced."""
    context = Context(definition.tables, base_url())
    conditions: list[AnyCondition] = []
    for name, value in filters:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name.get(base)
        if parameter is None:
            return None
        try:
            conditions += parameter.conditions(modifier, [value], context)
        except FhirError:
            return None
    return conditions


def targets_visible(reader: Reader, access: Access, permission: str, body: bytes) -> bool:
    """Say whether every target of a TARGETS type's resource may be seen.

    A target that is here only by an identifier, or elsewhere, is none that we could show.
    """
    for target in orjson.loads(body).get("target", ()):
        name = relative_reference(target.get("reference", ""))
        if name is None or not may_see(reader, access, permission, *name):
            return False
    return True


def may_see(
    reader: Reader, access: Access, permission: str, type_name: str, resource_id: str
) -> bool:
    """Say whether a resource is here and the token may see it."""
    definition = types().get(type_name)
    if definition is None:
        return False
    if definition.visibility is Visibility.CARRIER:
        return carried_visibly(reader, access, resource_id)
    if definition.visibility is Visibility.SCOPE and not access.grants(type_name, permission):
        return False
    found = [newest_of(definition, resource_id)]
    limit = visible(definition, access, permission)
    if limit is not None:
        found.append(limit.where())
    sql = " AND ".join(part.sql for part in found)
    values = [value for part in found for value in part.values]
    return bool(reader.first(f"SELECT 1 FROM {definition.sql_table} r WHERE {sql} LIMIT 1", values))


def newest_of(definition: Definition, resource_id: str) -> Condition:
    """Return the condition that a row is the newest version of a resource, deleted or not."""
    newest = f"SELECT max(v.version_id) FROM {definition.sql_table} v WHERE v.id = ?"
    return Condition(f"r.id = ? AND r.version_id = ({newest})", (resource_id, resource_id))


def carried_visibly(reader: Reader, access: Access, binary_id: str) -> bool:
    """Say whether some version that carries the Binary may be read."""
    for definition in carriers():
        if not access.grants(definition.name, "r"):
            continue
        limit = visible(definition, access, "r")
        where = limit.where() if limit is not None else Condition("1 = 1")
        table = definition.tables.reference.name
        sql = (
            f'SELECT 1 FROM {definition.sql_table} r JOIN "{table}" a ON a.pk = r.pk'
            f" WHERE a.param = ? AND a.target_id = ? AND {where.sql} LIMIT 1"
        )
        if reader.first(sql, (CARRIES, binary_id, *where.values)):
            return True
    return False
