"""Render a version once: its body, as it is served, and its index rows. decisions §5.

Versions are immutable, so what is made here is made again only by store/reindex.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, select

from fhirapp.config import Settings
from fhirapp.db import insert_many
from fhirapp.fhir import json as fhir_json
from fhirapp.search.index import ReferenceRow, by_table
from fhirapp.store import attachments
from fhirapp.store.definition import Definition


class Rendering(NamedTuple):
    """The settings that a stored body depends on."""

    inline_max: int
    empty_content: str

    @classmethod
    def of(cls, settings: Settings) -> Rendering:
        return cls(settings.inline_max, settings.empty_content)


def render(
    definition: Definition,
    row: dict[str, Any],
    rendering: Rendering,
    blobs: Mapping[str, bytes],
) -> dict[Table, list[tuple[Any, ...]]]:
    """Put the body into a row; return the version's index rows by table."""
    resource = definition.schema.dump_resource(
        {**row, "blobs": blobs, "empty_content": rendering.empty_content}
    )
    if "body" in row and definition.stores_body:
        row["body"] = fhir_json.dumps_indented(resource)
    rows = definition.params.rows(resource)
    if definition.attachments:
        for blob_id in attachments.local_ids(row, definition.attachments):
            rows.add(ReferenceRow(attachments.CARRIES, blob_id, "Binary"))
    return by_table(rows, definition.tables, row["pk"])


def read_blobs(
    connection: Connection,
    binary: Definition,
    definition: Definition,
    columns: Iterable[Mapping[str, Any]],
    inline_max: int,
    known: Iterable[str] = (),
) -> dict[str, bytes]:
    """Complete the attachments that point to stored Binaries; return the bytes of small ones."""
    path = definition.attachments
    wanted = {blob_id for one in columns for blob_id in attachments.local_ids(one, path)} - set(
        known
    )
    if not wanted:
        return {}
    table = binary.table
    facts, inline = {}, {}
    found = select(table.c.id, table.c.size, table.c.hash, table.c.content_type, table.c.pk)
    for row in connection.execute(found.where(table.c.id.in_(sorted(wanted)), table.c.is_current)):
        facts[row.id] = (row.size, row.hash, row.content_type)
        if row.size <= inline_max:
            data = select(table.c.data).where(table.c.pk == row.pk)
            inline[row.id] = connection.execute(data).scalar_one()
    for one in columns:
        attachments.complete(one, path, facts)
    return inline


def write_index(connection: Connection, index: Mapping[Table, Sequence[tuple[Any, ...]]]) -> None:
    """Insert index rows, each (values…, pk)."""
    for table, rows in index.items():
        columns = [name for name in table.columns.keys() if name != "pk"]  # noqa: SIM118
        insert_many(connection, table, [*columns, "pk"], rows)
