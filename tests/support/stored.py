"""The versions and index rows that an app's database holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flask import Flask
from sqlalchemy import select, text

from fhirapp.db import db
from fhirapp.definition import types


def versions(app: Flask, type_name: str = "") -> list[tuple[str, str, int, bool]]:
    """Return (type, id, number, whether it is a deletion) of every version but Provenance's.

    Of one type where it is named, Provenance too.
    """
    return [
        (name, row.id, row.version_id, row.deleted)
        for name, row in _rows(app)
        if name == type_name or not (type_name or name == "Provenance")
    ]


def stored(app: Flask) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """Return what every version holds, by type, id and number: content, owner, source."""
    return {
        (name, row.id, row.version_id): (row.deleted, row.is_current, row.digest, row.patient_id)
        for name, row in _rows(app)
        if name != "Provenance"
    }


def bodies(app: Flask) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """Return every version as it is stored, with its time and owner; no Provenance."""
    return {
        (name, row.id, row.version_id): (
            row.body, row.deleted, row.is_current, row.last_updated, row.patient_id,
        )
        for name, row in _rows(app)
        if name != "Provenance"
    }  # fmt: skip


def content_and_index(app: Flask) -> dict[str, list[str]]:
    """Return all versions without times, and all index rows, by table; no Provenance."""
    found: dict[str, list[str]] = {}
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in types().items():
            if name == "Provenance" or definition.view:
                continue
            table = definition.table.name
            columns = "id, version_id, is_current, deleted, patient_id, digest, body"
            for *row, body in connection.execute(text(f'SELECT {columns} FROM "{table}"')):
                content = json.loads(body) if body else {"meta": {}}
                content["meta"].pop("lastUpdated", None)
                found.setdefault(name, []).append(f"{row} {content}")
            for index in definition.tables:
                fields = ", ".join(
                    f"i.{column.name}" for column in index.columns if column.name != "pk"
                )
                rows = f'SELECT t.id, {fields} FROM "{index.name}" i JOIN "{table}" t USING (pk)'
                found[index.name] = [str(tuple(row)) for row in connection.execute(text(rows))]
    return {name: sorted(rows) for name, rows in found.items()}


def current(app: Flask, type_name: str) -> list[str]:
    """Return the ids of a type's resources that are there."""
    return sorted(row.id for name, row in _rows(app) if name == type_name and row.is_current)


def provenance_targets(app: Flask) -> list[list[str]]:
    """Return the targets of each Provenance."""
    with app.app_context(), db.engine.connect() as connection:
        found = connection.execute(text("SELECT body FROM provenance WHERE is_current")).scalars()
        return sorted(
            sorted(target["reference"] for target in json.loads(body)["target"]) for body in found
        )


def _rows(app: Flask) -> Iterator[tuple[str, Any]]:
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in sorted(types().items()):
            if not definition.view:
                columns = definition.table.c
                found = select(definition.table).order_by(columns.id, columns.version_id)
                yield from ((name, row) for row in connection.execute(found))
