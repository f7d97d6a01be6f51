"""Make every body and every index row anew from the columns: `fhirapp db reindex`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from fhirapp.fhir import json as fhir_json
from fhirapp.store.definition import Definition
from fhirapp.store.notes import Notes
from fhirapp.store.render import (
    IndexBatch,
    Rendering,
    clear_index,
    read_documents,
    render,
)
from fhirapp.store.state import INDEX, RENDERING, get_state, raise_generation, set_state

# Whoever changes what index rows or words are made of raises this: a start makes older ones anew.
RULES = "2"
_BATCH = 500


def stored_rendering(connection: Connection) -> Rendering | None:
    """Return the settings that the stored bodies were made with, None where there is none yet."""
    found = get_state(connection, RENDERING)
    return None if found is None else Rendering(*fhir_json.loads(found))


def rendering_in_force(connection: Connection, wanted: Rendering) -> Rendering:
    """Return the settings to make bodies with: those of the stored ones, noting wanted at first.

    All bodies are of one make; a start of the server makes them anew where its settings differ.
    """
    stored = stored_rendering(connection)
    if stored is None:
        _remember(connection, wanted)
    return stored or wanted


def is_outdated(connection: Connection) -> bool:
    """Say whether index rows and words are there that an older release made by other rules."""
    return stored_rendering(connection) is not None and get_state(connection, INDEX) != RULES


def _remember(connection: Connection, rendering: Rendering) -> None:
    set_state(connection, RENDERING, fhir_json.text(list(rendering)))
    set_state(connection, INDEX, RULES)


def reindex(
    connection: Connection, definitions: Mapping[str, Definition], rendering: Rendering
) -> int:
    """Render and index every version again; return how many. One transaction.

    Where the words are an older release's, the documents are read again.
    """
    if is_outdated(connection):
        _read_again(connection, definitions["Binary"])
    count = 0
    for definition in definitions.values():
        clear_index(connection, definition)
        count += _reindex_type(connection, definition, definitions["Binary"], rendering)
    _remember(connection, rendering)
    raise_generation(connection)
    return count


def _read_again(connection: Connection, binary: Definition) -> None:
    """Read the words of every document again, one at a time: bytes may be many."""
    table = binary.table
    numbers = connection.execute(select(table.c.pk).where(table.c.data.is_not(None))).scalars()
    with Notes(binary) as notes:
        for pk in numbers.all():
            which = table.c.pk == pk
            data, kind = connection.execute(
                select(table.c.data, table.c.content_type).where(which)
            ).one()
            words = notes.words_of(data, kind or "")
            connection.execute(update(table).where(which).values(words=words))


def _reindex_type(
    connection: Connection, definition: Definition, binary: Definition, rendering: Rendering
) -> int:
    table = definition.table
    if not definition.stores_body and not definition.params.declared:
        # Nothing of it is made of the columns, which are large.
        return connection.execute(select(func.count()).select_from(table)).scalar_one()
    last, count = 0, 0
    while True:
        found = connection.execute(
            select(table).where(table.c.pk > last).order_by(table.c.pk).limit(_BATCH)
        )
        rows: list[dict[str, Any]] = [dict(row) for row in found.mappings()]
        if not rows:
            return count
        last = rows[-1]["pk"]
        count += len(rows)
        live = [row for row in rows if not row["deleted"]]
        wanted = {pk for row in live for pk in (row.get("attached") or {}).values()}
        which = binary.table.c.pk.in_(sorted(wanted))
        read = read_documents(connection, binary, rendering.inline_max, which) if wanted else []
        documents = {one.pk: one for one in read}
        index = IndexBatch(definition)
        for row in live:
            render(definition, row, rendering, documents, index)
        index.write(connection)
        if live and definition.stores_body:
            connection.execute(
                update(table)
                .where(table.c.pk == bindparam("this_pk"))
                .values(body=bindparam("made")),
                [{"this_pk": row["pk"], "made": row["body"]} for row in live],
            )
