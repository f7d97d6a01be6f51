"""The contents of the index tables."""

from __future__ import annotations

from typing import Any

from flask import Flask
from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.store.write import Rendering

RENDERING = Rendering(inline_max=32_768, empty_content="omit")


def contents(app: Flask) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every resource and index table."""
    with app.app_context(), db.engine.connect() as connection:
        tables = [
            table
            for definition in types().values()
            for table in (definition.table, *definition.tables)
        ]
        return {
            table.name: sorted(map(repr, map(tuple, connection.execute(select(table)))))
            for table in tables
        }
