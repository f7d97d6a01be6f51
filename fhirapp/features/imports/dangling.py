"""What an import leaves that leads nowhere: references to what is not here, and resources that
nobody may read because what they belong to is missing (decisions §6).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Text, and_, cast, or_, select

from fhirapp.definition import Definition, Visibility
from fhirapp.fhir.datatypes import ID_PATTERN, ID_RULE
from fhirapp.store.prepare import CARRIES

# A reference, or the address of an attachment, in a stored body or a column of JSON. What stands in
# place of an id may be none.
_REFERENCE = re.compile(
    rb'"(?:reference|url)": ?"([A-Z][A-Za-z]+)/([^"/?#\\]{1,500})(?:/_history/[^"/?#\\]{1,500})?"'
)
_ID = re.compile(ID_PATTERN)
_TARGET = "target"
# Bodies in memory, ids in one statement, and resources remembered as present.
_BODIES, _IDS, _REMEMBERED = 50, 500, 50_000
_IMPORT_TARGETS = (
    "Provenance can only be read if all its targets are here: import the missing ones too"
)
_IMPORT_CARRIER = (
    "Binary can only be read through a document: import the DocumentReference with its address too"
)

# (type, id)
_Name = tuple[str, str]


def dangling(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield (Type/id, reason, count) of what new versions refer to and is not here, or deleted.

    last_rows has the last row of each type before. A target may be yielded more than once.
    """
    present: set[_Name] = set()
    for name, last in sorted(last_rows.items()):
        for bodies in _bodies(connection, definitions[name], last):
            counts: Counter[_Name] = Counter()
            for body in bodies:
                targets = {
                    (type_.decode(), id_.decode(errors="replace"))
                    for type_, id_ in _REFERENCE.findall(body)
                }
                counts.update(targets - present)
            if len(present) > _REMEMBERED:
                present.clear()
            present |= _present(connection, definitions, counts)
            for target in sorted(counts.keys() - present):
                yield (
                    "/".join(target),
                    f"{target[0]} {_reason(*target, definitions)}",
                    counts[target],
                )


def _reason(type_name: str, resource_id: str, definitions: Mapping[str, Definition]) -> str:
    if type_name not in definitions:
        return "is not stored here"
    return "is not here" if _ID.fullmatch(resource_id) else f"has an invalid id: {ID_RULE}"


def _bodies(connection: Connection, definition: Definition, last: int) -> Iterator[list[bytes]]:
    """Yield the bodies of new versions, some at a time; of a type without body its JSON columns."""
    if definition.view:
        return
    columns = definition.table.c
    contents: list[ColumnElement[Any]] = (
        [columns.body]
        if definition.stores_body
        else [cast(column, Text) for column in columns if isinstance(column.type, JSON)]
    )
    page = select(columns.pk, *contents).where(~columns.deleted).order_by(columns.pk).limit(_BODIES)
    while rows := connection.execute(page.where(columns.pk > last)).all():
        last = rows[-1].pk
        yield [
            value.encode() if isinstance(value, str) else bytes(value)
            for _, *values in rows
            for value in values
            if value is not None
        ]


def _present(
    connection: Connection, definitions: Mapping[str, Definition], names: Mapping[_Name, int]
) -> set[_Name]:
    """Return which of these resources are here."""
    by_type: dict[str, list[str]] = {}
    for type_name, resource_id in names:
        if type_name in definitions:
            by_type.setdefault(type_name, []).append(resource_id)
    present: set[_Name] = set()
    for type_name, ids in by_type.items():
        columns = definitions[type_name].table.c
        for start in range(0, len(ids), _IDS):
            batch = columns.id.in_(ids[start : start + _IDS])
            rows = connection.execute(select(columns.id).where(columns.is_current, batch)).scalars()
            present.update((type_name, resource_id) for resource_id in rows)
    return present


def unreachable(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield (Type/id, reason, advice) of new resources that cannot be read."""
    for name, last in sorted(last_rows.items()):
        definition = definitions[name]
        if definition.visibility is Visibility.TARGETS:
            for resource_id, target in _without_target(connection, definitions, definition, last):
                yield f"{name}/{resource_id}", f"its target {target} is not here", _IMPORT_TARGETS
        elif definition.visibility is Visibility.CARRIER:
            for resource_id in _unattached(connection, definitions, definition, last):
                yield f"{name}/{resource_id}", "no document links to it", _IMPORT_CARRIER


def _without_target(
    connection: Connection,
    definitions: Mapping[str, Definition],
    definition: Definition,
    last: int,
) -> Iterator[_Name]:
    """Yield ids, each with its first target that was never here; a deleted one was."""
    columns, index = definition.table.c, definition.tables.reference.c
    known: list[ColumnElement[bool]] = []
    for other in definitions.values():
        # An alias takes time to make, and only the definition's own table needs one.
        target = (other.table.alias() if other is definition else other.table).c
        exists = select(target.pk).where(target.id == index.target_id, ~target.deleted).exists()
        known.append(and_(index.target_type == other.name, exists))
    missing = (
        select(columns.id, index.target_type, index.target_id)
        .where(columns.pk > last, columns.is_current, index.pk == columns.pk)
        .where(index.param == _TARGET, ~or_(*known))
        .order_by(columns.pk, index.target_type, index.target_id)
    )
    previous = None
    for row in connection.execute(missing.execution_options(yield_per=_IDS)):
        if row.id != previous:
            yield row.id, "/".join(filter(None, (row.target_type, row.target_id)))
        previous = row.id


def _unattached(
    connection: Connection,
    definitions: Mapping[str, Definition],
    definition: Definition,
    last: int,
) -> Iterator[str]:
    """Yield the ids of Binaries that no version of a document has as its attachment."""
    columns = definition.table.c
    uncarried = select(columns.id).where(columns.pk > last, columns.is_current)
    for carrier in definitions.values():
        if carrier.attachments and not carrier.view:
            index = carrier.tables.reference.c
            is_carried = index.param == CARRIES, index.target_id == columns.id
            uncarried = uncarried.where(~select(index.pk).where(*is_carried).exists())
    ordered = uncarried.order_by(columns.pk).execution_options(yield_per=_IDS)
    yield from connection.execute(ordered).scalars()
