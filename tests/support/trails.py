"""The lines of an app's audit trail, in its files or in PostgreSQL; and tests of one kind alone."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, func, insert, select, update

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.trail import FOLDER
from fhirapp.trail.chain import content, files
from fhirapp.trail.table import MODELS, AuditChain, AuditLine

IN_FILES = pytest.mark.databases("sqlite")
IN_TABLE = pytest.mark.databases("postgresql")


def raw_lines(app: Flask) -> list[bytes]:
    """Return every line, the oldest first."""
    settings = settings_of(app)
    if not settings.is_postgresql:
        whole = b"".join(content(file) for file in files(settings.instance / FOLDER))
        return whole.splitlines(keepends=True)
    with app.app_context(), db.engine.connect() as connection:
        return [*connection.execute(select(AuditLine.line).order_by(AuditLine.pk)).scalars()]


def noted(app: Flask) -> list[dict[str, Any]]:
    """Return what every line holds, but for heads."""
    lines = [json.loads(line) for line in raw_lines(app)]
    return [line for line in lines if line.get("event") != "head"]


def forget(app: Flask) -> None:
    """Remove every line."""
    settings = settings_of(app)
    if settings.is_postgresql:
        with app.app_context():
            # The next line begins a chain.
            db.engine.dispose()
            with db.engine.begin() as connection:
                for model in MODELS:
                    connection.execute(delete(model))
        return
    for file in (settings.instance / FOLDER).glob("*"):
        if file.suffix == ".ndjson":
            # It is held open.
            os.truncate(file, 0)
        else:
            file.unlink()


def put_in(app: Flask, line: bytes) -> None:
    """Put a line in, which follows no other."""
    settings = settings_of(app)
    if not settings.is_postgresql:
        with files(settings.instance / FOLDER)[-1].open("ab") as file:
            file.write(line)
        return
    with app.app_context(), db.engine.begin() as connection:
        count = connection.execute(select(func.count()).select_from(AuditChain)).scalar()
        name = f"{line[7:17].decode()}-put-in-{count}"
        connection.execute(insert(AuditChain).values(name=name, done=0, is_over=False))
        row = {"chain": name, "n": 1, "hash": "", "is_head": False, "line": line}
        connection.execute(insert(AuditLine).values(row))


def change(app: Flask, before: bytes, after: bytes) -> None:
    """Change the newest line that holds something."""
    settings = settings_of(app)
    if not settings.is_postgresql:
        newest = files(settings.instance / FOLDER)[-1]
        newest.write_bytes(newest.read_bytes().replace(before, after, 1))
        return
    with app.app_context(), db.engine.begin() as connection:
        lines = select(AuditLine.pk, AuditLine.line).order_by(AuditLine.pk.desc())
        pk, line = next(row for row in connection.execute(lines) if before in row.line)
        changed = update(AuditLine).where(AuditLine.pk == pk)
        connection.execute(changed.values(line=line.replace(before, after)))
