"""Fill an empty database from seed.sql: the demo, and the fixture of the tests.

The INSERTs run in a scratch SQLite database; each row becomes the resource it stands for, is
validated like any other, and is published under its own version and time. All or nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, select

from fhirapp.config import ConfigurationError
from fhirapp.db import JSON_OPTIONS, db, writing
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.definition import Definition
from fhirapp.store.prepare import Prepared, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.render import Rendering


class InvalidSeed(ConfigurationError):
    """A row of the seed breaks FHIR's rules, or its SQL cannot be run."""


def seed_path() -> Path:
    """Return seed.sql: beside app.py in a checkout, else inside the installed package."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "seed.sql"
    return beside if beside.exists() else package / "seed.sql"


def load_seed(
    path: Path, definitions: Mapping[str, Definition], rendering: Rendering, now: str
) -> int:
    """Publish every row of a seed; return how many. Raises InvalidSeed, and then nothing stays."""
    scratch = _scratch(path)
    ordered = sorted(definitions.values(), key=lambda one: (one.rank, one.name))
    count = 0
    with writing() as connection:
        publisher = Publisher(
            connection, now=now, rendering=rendering, binary=definitions["Binary"]
        )
        for definition in ordered:
            versions = list(_versions(scratch, definition, path))
            publisher.restore(versions)
            count += len(versions)
    scratch.dispose()
    return count


def _scratch(path: Path) -> Engine:
    """Return a database in memory that holds the seed's rows as they are written."""
    engine = create_engine("sqlite://", **JSON_OPTIONS)

    db.metadata.create_all(engine)
    try:
        script = path.read_text(encoding="utf-8")
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.executescript(script)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSeed(f"The seed {path} cannot be read: {error}") from None
    except sqlite3.Error as error:
        raise InvalidSeed(f"The seed {path} is not SQL that SQLite runs: {error}") from None
    return engine


def _versions(
    scratch: Engine, definition: Definition, path: Path
) -> Iterable[tuple[Prepared, int, str, bool]]:
    """Yield a type's versions, oldest first, each resource's in order."""
    table = definition.table
    with scratch.connect() as connection:
        rows = connection.execute(select(table).order_by(table.c.last_updated, table.c.version_id))
        patients: dict[str, Any] = {}
        for found in rows.mappings():
            row = dict(found)
            row_id = row["id"]
            if row["deleted"]:
                columns = {"patient_id": patients.get(row_id)}
                prepared = Prepared(definition, row_id, columns, b"")
            else:
                try:
                    prepared = prepare(definition, definition.schema.dump_resource(row))
                except InvalidResource as error:
                    raise InvalidSeed(
                        f"{path.name}: {definition.name}/{row_id}, version {row['version_id']}: "
                        f"{error}"
                    ) from None
                patients[row_id] = prepared.columns["patient_id"]
            yield prepared, row["version_id"], row["last_updated"], bool(row["deleted"])
