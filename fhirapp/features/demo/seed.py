"""Fill an empty database from seed.sql: the demo, and the fixture of the tests.

The INSERTs run in a scratch SQLite database; each row becomes the resource it stands for, is
validated like any other, and is published under its own version and time. All or nothing.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Column, Connection, Engine, String, create_engine, select, type_coerce

import fhirapp
from fhirapp.config import ConfigurationError
from fhirapp.db import JSON_OPTIONS, db, writing
from fhirapp.definition import Definition
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import DocumentTextReader, deletion, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Version
from fhirapp.store.write import Rendering

_log = logging.getLogger(__name__)
_INSERT = re.compile(r"(?:\s|--[^\n]*\n)*INSERT\s+INTO\s+(\w+)", re.IGNORECASE)


class InvalidSeed(ConfigurationError):
    """A row of the seed breaks FHIR's rules, or its SQL cannot be run."""


def seed_path() -> Path:
    """Return seed.sql: beside app.py in a checkout, else inside the installed package."""
    package = Path(fhirapp.__file__).resolve().parent
    beside = package.parent / "seed.sql"
    return beside if beside.exists() else package / "seed.sql"


# What Publisher.restore takes, a list for each type, in the order in which they are written.
Versions = list[list[Version]]


def load_seed(
    path: Path, definitions: Mapping[str, Definition], rendering: Rendering, now: str
) -> int:
    """Publish every row of a seed; return how many. Raises InvalidSeed, and then nothing stays."""
    versions = read_seed(path, definitions)
    with writing() as connection:
        return write_seed(connection, versions, rendering, now)


def read_seed(path: Path, definitions: Mapping[str, Definition]) -> Versions:
    """Return what a seed holds, ready to be written. Raises InvalidSeed."""
    scratch = _scratch(path)
    ordered = sorted(
        definitions.values(), key=lambda definition: (definition.rank, definition.name)
    )
    versions: Versions = []
    try:
        with DocumentTextReader(definitions["Binary"]) as notes:
            for definition in ordered:
                found = list(_versions(scratch, definition, path))
                resources = [version.prepared for version in found]
                for version, prepared in zip(
                    found, notes.read(resources, frozenset()), strict=True
                ):
                    version.prepared = prepared
                versions.append(found)
    finally:
        scratch.dispose()
    return versions


def write_seed(
    connection: Connection,
    versions: Versions,
    rendering: Rendering,
    now: str,
) -> int:
    """Publish what was read, within a writing transaction; return how many versions."""
    publisher = Publisher(connection, now=now, rendering=rendering)
    for of_type in versions:
        publisher.restore(of_type)
    return sum(map(len, versions))


def _scratch(path: Path) -> Engine:
    """Return a database in memory that holds the seed's rows as they are written."""
    engine = create_engine("sqlite://", **JSON_OPTIONS)

    db.metadata.create_all(engine)
    try:
        script = path.read_text(encoding="utf-8")
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            for statement in _statements(script):
                table = _INSERT.match(statement)
                if table is None or table[1] in db.metadata.tables:
                    driver.execute(statement)
                else:
                    # As where a type's folder was taken out.
                    _log.warning("%s: no type has the table %s; left out", path.name, table[1])
            driver.commit()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSeed(f"The seed {path} cannot be read: {error}") from None
    except sqlite3.Error as error:
        raise InvalidSeed(f"The seed {path} is not SQL that SQLite runs: {error}") from None
    return engine


def _statements(script: str) -> Iterator[str]:
    """Split a script at the semicolons that end statements, as SQLite reads them."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _versions(scratch: Engine, definition: Definition, path: Path) -> Iterator[Version]:
    """Yield a type's versions, oldest first, each resource's in order. Raises InvalidSeed."""
    table = definition.table
    # JSON as its text: what is no JSON is told with its row.
    columns = [type_coerce(column, String) if _is_json(column) else column for column in table.c]
    query = select(*columns).order_by(table.c.last_updated, table.c.version_id)
    patients: dict[str, str | None] = {}
    with scratch.connect() as connection:
        for found in connection.execute(query):
            row = dict(zip(table.c.keys(), found, strict=True))
            row_id = row["id"]
            if row["deleted"]:
                prepared = deletion(definition, row_id, patients.get(row_id))
            else:
                try:
                    prepared = prepare(definition, _resource(definition, row))
                except InvalidResource as error:
                    place = f"{definition.name}/{row_id}, version {row['version_id']}"
                    raise InvalidSeed(f"{path.name}: {place}: {error}") from None
                patients[row_id] = prepared.patient_id
            yield Version(prepared, row["version_id"], row["last_updated"])


def _resource(definition: Definition, row: dict[str, Any]) -> dict[str, Any]:
    """Return the resource of a row, unchecked. Raises InvalidResource."""
    names = definition.schema.columns()
    for column in definition.table.c:
        if _is_json(column) and row[column.name] is not None:
            try:
                row[column.name] = fhir_json.loads(row[column.name])
            except ValueError as error:
                where = f"{definition.name}.{names.get(column.name, column.name)}"
                raise InvalidResource([(where, f"is not JSON: {error}")]) from None
    # What a dump knows no place for is put back, so that it is refused and not lost.
    extra = row.get("extra") or {}
    return {**extra, **definition.schema.dump(row)}


def _is_json(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)
