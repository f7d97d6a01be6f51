"""References to records that are not here: kept as they are, and told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, func, select

from fhirapp.store.attachments import CARRIES
from fhirapp.store.definition import Definition


def dangling(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Yield (Type/id, how often) of what is referred to since, and is not here or deleted.

    last_rows has the last row of each type before. Only what search knows of a reference counts:
    those that a parameter names.
    """
    for name, last in sorted(last_rows.items()):
        index = definitions[name].tables.reference.c
        for target in definitions.values():
            if target.view:
                continue
            held = target.table.c
            is_here = select(held.pk).where(held.id == index.target_id, held.is_current).exists()
            missing = (
                select(index.target_id, func.count(index.pk.distinct()))
                .where(index.pk > last, index.param != CARRIES)
                .where(index.target_type == target.name, ~is_here)
                .group_by(index.target_id)
                .order_by(index.target_id)
            )
            for target_id, times in connection.execute(missing):
                yield f"{target.name}/{target_id}", times
