"""What a source held before and holds no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import func, select

from fhirapp.db import db
from fhirapp.exchange.importing.scratch import Scratch
from fhirapp.store.definition import Definition

# So few may go without being asked for twice, if others stay.
FEW = 10
_PAGE = 1_000


def count(
    definitions: Mapping[str, Definition], source_id: int | None, scratch: Scratch
) -> tuple[int, int]:
    """Return how many resources of a source did not come, and how many it has in all."""
    gone = sum(len(ids) for _, ids in pages(definitions, source_id, scratch))
    all_of_it = 0
    with db.engine.connect() as connection:
        for definition in definitions.values():
            columns = definition.table.c
            held = select(func.count()).where(columns.is_current, columns.source_id == source_id)
            all_of_it += connection.execute(held).scalar_one()
    return gone, all_of_it


def pages(
    definitions: Mapping[str, Definition], source_id: int | None, scratch: Scratch
) -> Iterator[tuple[Definition, list[str]]]:
    """Yield the ids of what did not come; documents before their bytes, records before people."""
    if source_id is None:
        return
    for definition in sorted(definitions.values(), key=lambda one: -one.rank):
        if definition.view:
            continue
        columns, last = definition.table.c, 0
        while True:
            held = (
                select(columns.pk, columns.id)
                .where(columns.is_current, columns.source_id == source_id, columns.pk > last)
                .order_by(columns.pk)
                .limit(_PAGE)
            )
            with db.engine.connect() as connection:
                rows = connection.execute(held).all()
            if not rows:
                break
            last = rows[-1].pk
            unseen = scratch.unseen(definition.name, [row.id for row in rows])
            if unseen:
                yield definition, unseen
