"""What an import leaves that leads nowhere: references to what is not here, and what nobody reads.

Both are stored as they came, and reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Text, and_, cast, or_, select

from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.store.attachments import CARRIES
from fhirapp.store.definition import Definition, Visibility

# In a stored body, or a column of JSON: a reference, or the address of an attachment.
_REFERENCE = re.compile(
    rf'"(?:reference|url)": ?"([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?"'.encode()
)
_TARGET = "target"
# So many bodies are held, ids asked for at once, and resources that are here remembered.
_BODIES, _IDS, _REMEMBERED = 50, 500, 50_000
_NO_TARGET = (
    "Provenance is shown to whoever may see all its targets: import those that are not here too"
)
_NO_CARRIER = (
    "Binary is read by way of a document: import the DocumentReference that has its address too"
)

_Name = tuple[str, str]


def dangling(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield (Type/id, why, how often) of what is referred to since, and is not here or deleted.

    last_rows has the last row of each type before. What is missed may come more than once.
    """
    here: set[_Name] = set()
    for name, last in sorted(last_rows.items()):
        for bodies in _bodies(connection, definitions[name], last):
            times: Counter[_Name] = Counter()
            for body in bodies:
                named = {(one[0].decode(), one[1].decode()) for one in _REFERENCE.findall(body)}
                times.update(named - here)
            if len(here) > _REMEMBERED:
                here.clear()
            here |= _present(connection, definitions, times)
            for target in sorted(times.keys() - here):
                served = target[0] in definitions
                why = "is not here" if served else "is not stored here"
                yield "/".join(target), f"{target[0]} {why}", times[target]


def _bodies(connection: Connection, definition: Definition, last: int) -> Iterator[list[bytes]]:
    """Yield the bodies of what was published since, some at a time; else what may be in one."""
    if definition.view:
        return
    columns = definition.table.c
    held: list[ColumnElement[Any]] = [columns.body] if definition.stores_body else []
    if not held:
        held += (cast(one, Text) for one in columns if isinstance(one.type, JSON))
    asked = select(columns.pk, *held).where(~columns.deleted).order_by(columns.pk).limit(_BODIES)
    while rows := connection.execute(asked.where(columns.pk > last)).all():
        last = rows[-1].pk
        yield [
            one.encode() if isinstance(one, str) else bytes(one)
            for _, *contents in rows
            for one in contents
            if one is not None
        ]


def _present(
    connection: Connection, definitions: Mapping[str, Definition], names: Mapping[_Name, int]
) -> set[_Name]:
    """Return which of these resources are here."""
    wanted: dict[str, list[str]] = {}
    for type_name, resource_id in names:
        if type_name in definitions:
            wanted.setdefault(type_name, []).append(resource_id)
    found: set[_Name] = set()
    for type_name, ids in wanted.items():
        columns = definitions[type_name].table.c
        for at in range(0, len(ids), _IDS):
            some = columns.id.in_(ids[at : at + _IDS])
            rows = connection.execute(select(columns.id).where(columns.is_current, some))
            found.update((type_name, row.id) for row in rows)
    return found


def unreachable(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield (Type/id, why, what to do) of what was published since and nobody can read."""
    carriers = [one for one in definitions.values() if one.attachments and not one.view]
    for name, last in sorted(last_rows.items()):
        definition = definitions[name]
        if definition.visibility is Visibility.TARGETS:
            for row_id, target in _without_target(connection, definitions, definition, last):
                yield f"{name}/{row_id}", f"its target {target} is not here", _NO_TARGET
        elif definition.visibility is Visibility.CARRIER:
            for row_id in _uncarried(connection, carriers, definition, last):
                yield f"{name}/{row_id}", "no document carries it", _NO_CARRIER


def _without_target(
    connection: Connection,
    definitions: Mapping[str, Definition],
    definition: Definition,
    last: int,
) -> Iterator[_Name]:
    """Yield ids, each with its first target that is not here, and was not before it was deleted."""
    columns, index = definition.table.c, definition.tables.reference.c
    known: list[ColumnElement[bool]] = []
    for one in definitions.values():
        # An alias: the table may be the definition's own.
        held = one.table.alias().c
        is_held = select(held.pk).where(held.id == index.target_id, ~held.deleted).exists()
        known.append(and_(index.target_type == one.name, is_held))
    asked = (
        select(columns.id, index.target_type, index.target_id)
        .where(columns.pk > last, columns.is_current, index.pk == columns.pk)
        .where(index.param == _TARGET, ~or_(*known))
        .order_by(columns.pk, index.target_type, index.target_id)
    )
    before = None
    for row in connection.execute(asked.execution_options(yield_per=_IDS)):
        if row.id != before:
            yield row.id, "/".join(filter(None, (row.target_type, row.target_id)))
        before = row.id


def _uncarried(
    connection: Connection, carriers: Sequence[Definition], definition: Definition, last: int
) -> Iterator[str]:
    """Yield the ids of Binaries that no version of a document has as its attachment."""
    columns = definition.table.c
    asked = select(columns.id).where(columns.pk > last, columns.is_current)
    for carrier in carriers:
        index = carrier.tables.reference.c
        is_carried = index.param == CARRIES, index.target_id == columns.id
        asked = asked.where(~select(index.pk).where(*is_carried).exists())
    yield from connection.execute(
        asked.order_by(columns.pk).execution_options(yield_per=_IDS)
    ).scalars()
