"""Remove a patient's record: what belongs to it, its deletion, and its erasure.

A deletion is a version like any other: what came before stays. An erasure then takes the content
out of every version, and out of all that is found by it. The rows stay, as deletions without
content: a number that came again with other content would be taken for what a client has already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Table, delete, select, update

from fhirapp.db import writing
from fhirapp.definition import Definition, Visibility, types, views_of
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.store.prepare import CARRIES, deletion
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change, raise_generation
from fhirapp.store.write import Rendering, index_of

# Values of one SELECT, and versions that are rendered at once.
_IDS, _ROWS = 5_000, 500
# How many seconds a step waits for another writer.
_PATIENCE = 60
# What is left of a version that is erased.
_KEPT = frozenset(
    (
        *("pk", "id", "version_id", "last_updated", "is_current", "deleted", "replaced_pk"),
        *("patient_id", "source_id"),
    )
)
# The ids of resources, by type.
Ids = Mapping[str, Sequence[str]]


def belongings(connection: Connection, patient_id: str, *, deleted: bool) -> Ids:
    """Return what belongs to a patient's record, in the order in which it may be removed.

    What is in the compartment, what tells the origin of nothing else, and the bytes that nothing
    else carries. With deleted also what was deleted already.
    """
    found: dict[str, list[str]] = {}
    for definition in _ordered_types():
        if definition.compartment:
            columns = definition.table.c
            newest = columns.replaced_pk.is_(None) if deleted else columns.is_current
            owned = select(columns.id).where(newest, columns.patient_id == patient_id)
            found[definition.name] = [*connection.execute(owned.order_by(columns.id)).scalars()]
    for definition in types().values():
        if definition.visibility is Visibility.TARGETS:
            found[definition.name] = _about_these_only(connection, definition, found)
        elif definition.visibility is Visibility.CARRIER:
            found[definition.name] = _carried_by_these_only(connection, found)
        else:
            continue
        found[definition.name] = _stored_ids(
            connection, definition.table, found[definition.name], deleted=deleted
        )
    return {type_.name: ids for type_ in _ordered_types() if (ids := found.get(type_.name))}


def count_references(connection: Connection, patient_id: str, gone: Ids) -> Counter[str]:
    """Return how many current resources of each type name a patient, but those that go."""
    counts: Counter[str] = Counter()
    for definition in _ordered_types():
        columns, index = definition.table.c, definition.tables.reference.c
        query = (
            select(columns.id)
            .distinct()
            .where(index.pk == columns.pk, columns.is_current)
            .where(index.target_id == patient_id, index.target_type == "Patient")
        )
        others = {*connection.execute(query).scalars()} - {*gone.get(definition.name, ())}
        if others:
            counts[definition.name] = len(others)
    return counts


def delete_all(publisher: Publisher, gone: Ids, patient_id: str) -> Counter[str]:
    """Publish the deletion of a patient's resources; return how many of each type.

    What is in no compartment is noted as the patient's from then on.
    """
    deleted: Counter[str] = Counter()
    for name, ids in gone.items():
        for resource_id in ids:
            changes = publisher.publish([deletion(types()[name], resource_id)])
            if changes == [Change.DELETED]:
                deleted[name] += 1
        table = types()[name].table
        for batch in _batches(ids):
            last = (table.c.id.in_(batch), table.c.deleted, table.c.replaced_pk.is_(None))
            assignment = update(table).where(*last).values(patient_id=patient_id)
            publisher.connection.execute(assignment)
    return deleted


def erase_all(connection: Connection, gone: Ids, rendering: Rendering) -> None:
    """Take the content out of every version of resources that are deleted."""
    _write_zeros(connection)
    for name, ids in gone.items():
        for definition in (types()[name], *views_of(types()[name])):
            for batch in _batches(ids):
                _erase(connection, definition, batch, rendering)
    raise_generation(connection)


def purge_words() -> None:
    """Take the words of what was erased out of the index's file too, in many transactions."""
    for definition in types().values():
        goes_on, begins = definition.has_words, True
        while goes_on:
            with writing(patience=_PATIENCE) as connection:
                _write_zeros(connection)
                table = words_table(definition.tables)
                goes_on, begins = full_text().purge(connection, table, begins=begins), False


def _write_zeros(connection: Connection) -> None:
    """Have SQLite write zeros over what this connection deletes, until that is closed."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def _erase(
    connection: Connection, definition: Definition, ids: Sequence[str], rendering: Rendering
) -> None:
    table = definition.table
    which: list[ColumnElement[bool]] = [table.c.id.in_(ids), ~table.c.deleted]
    if definition.stores_body or definition.params.declared:
        while rows := [
            dict(row)
            for row in connection.execute(select(table).where(*which).limit(_ROWS)).mappings()
        ]:
            index = index_of(connection, definition, rendering, rows)
            numbers = [row["pk"] for row in rows]
            for index_table in definition.tables:
                connection.execute(delete(index_table).where(index_table.c.pk.in_(numbers)))
            if index.words:
                full_text().remove(connection, words_table(definition.tables), index.words)
            _blank(connection, definition, table.c.pk.in_(numbers))
    else:
        _blank(connection, definition, table.c.id.in_(ids))


def _blank(connection: Connection, definition: Definition, which: ColumnElement[bool]) -> None:
    """Make versions deletions without content."""
    table = definition.table
    nothing = dict.fromkeys({*table.columns.keys()} - _KEPT)
    blank = {**nothing, "deleted": True, "is_current": False}
    connection.execute(update(table).where(which).values(blank))


def _ordered_types() -> list[Definition]:
    """Return the types, what refers to others first: documents before bytes, people last."""
    stored = [definition for definition in types().values() if not definition.view]
    return sorted(stored, key=lambda definition: (-definition.rank, definition.name))


def _stored_ids(
    connection: Connection, table: Table, ids: Sequence[str], *, deleted: bool
) -> list[str]:
    """Return those of some ids that are stored, with deleted also in the past."""
    stored: list[str] = []
    for batch in _batches(ids):
        newest = table.c.replaced_pk.is_(None) if deleted else table.c.is_current
        query = select(table.c.id).where(table.c.id.in_(batch), newest).order_by(table.c.id)
        stored += connection.execute(query).scalars()
    return stored


def _about_these_only(connection: Connection, definition: Definition, found: Ids) -> list[str]:
    """Return the resources of a type all of whose targets, in whatever version, are these."""
    columns, index = definition.table.c, definition.tables.reference.c
    targets = select(columns.id, index.target_type, index.target_id).where(
        index.pk == columns.pk, index.param == "target"
    )
    touched: set[str] = set()
    for name, ids in found.items():
        for batch in _batches(ids):
            which = targets.where(index.target_type == name, index.target_id.in_(batch))
            touched.update(row.id for row in connection.execute(which))
    these = {(name, resource_id) for name, ids in found.items() for resource_id in ids}
    about = dict.fromkeys(sorted(touched), True)
    for batch in _batches([*about]):
        for resource_id, *target in connection.execute(targets.where(columns.id.in_(batch))):
            about[resource_id] = about[resource_id] and tuple(target) in these
    return [resource_id for resource_id, is_only in about.items() if is_only]


def _carried_by_these_only(connection: Connection, found: Ids) -> list[str]:
    """Return the Binaries that these carry, in whatever version, and nothing else does."""
    own: dict[str, bool] = {}
    for carrier in types().values():
        if not carrier.attachments or carrier.view:
            continue
        columns, index = carrier.table.c, carrier.tables.reference.c
        carried = select(index.target_id, columns.id).where(
            index.pk == columns.pk, index.param == CARRIES
        )
        these = {*found.get(carrier.name, ())}
        for ids in _batches([*these]):
            for row in connection.execute(carried.where(columns.id.in_(ids))):
                own.setdefault(row.target_id, True)
        for ids in _batches([*own]):
            for binary_id, carrier_id in connection.execute(
                carried.where(index.target_id.in_(ids))
            ):
                own[binary_id] = own[binary_id] and carrier_id in these
    return sorted(binary_id for binary_id, is_own in own.items() if is_own)


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _IDS):
        yield ids[start : start + _IDS]
