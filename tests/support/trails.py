"""The entries of an app's audit trail, as who may write the store sees and changes them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit import store_of
from fhirapp.audit.store import NAME, TABLES
from fhirapp.config import settings_of
from fhirapp.db import db

ON_SQLITE = pytest.mark.databases("sqlite")
ON_POSTGRESQL = pytest.mark.databases("postgresql")
ON_BOTH = pytest.mark.databases("sqlite", "postgresql")


def sql(app: Flask, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement on the trail's tables, and return its rows."""
    settings = settings_of(app)
    if not settings.is_postgresql:
        with closing(sqlite3.connect(settings.instance / NAME)) as connection, connection:
            return connection.execute(statement, values).fetchall()
    with app.app_context(), db.engine.begin() as connection:
        driver: Any = connection.connection.driver_connection
        done = driver.execute(statement.replace("?", "%s") if values else statement, values or None)
        return done.fetchall() if done.description else []


def raw_lines(app: Flask) -> Sequence[str]:
    """Return every line, the oldest first."""
    with app.app_context(), store_of(app).reading() as run:
        return [line for (line,) in run("SELECT line FROM audit_entry ORDER BY n")]


def noted(app: Flask) -> list[dict[str, Any]]:
    """Return what every line holds."""
    return [json.loads(line) for line in raw_lines(app)]


def attachment_of(app: Flask, request_id: str) -> Any:
    """Return what is attached to the entry with an id."""
    rows = sql(app, "SELECT attachment FROM audit_entry WHERE request_id = ?", request_id)
    return json.loads(rows[0][0])


def forget(app: Flask) -> None:
    """Remove every entry and seal."""
    with app.app_context(), store_of(app).reading():
        # The tables are there.
        pass
    for table in TABLES.tables:
        sql(app, f"DELETE FROM {table}")
    number_from(app, 1)


def number_from(app: Flask, n: int) -> None:
    """Have the next entry get a number, as SQLite does by itself."""
    if settings_of(app).is_postgresql:
        sql(app, f"ALTER TABLE audit_entry ALTER n RESTART WITH {n}")
