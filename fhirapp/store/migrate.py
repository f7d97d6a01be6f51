"""The schema of a database: created, upgraded from an older release, or refused; and reindexing.

Every table is declared in the models. A new database is created from them and marked with HEAD. An
older one goes through the numbered steps in migrations/ (Alembic), from INITIAL on. A change of a
table adds a step and raises HEAD; a test compares the models with the schema kept for HEAD.
`fhirapp db reindex` makes every body and index row anew from the columns.

The smallest step, migrations/versions/0012_sizes.py:

    from alembic import op

    revision = "0012"
    down_revision = "0011"


    def upgrade() -> None:
        op.drop_table("size")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    LargeBinary,
    bindparam,
    func,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, OperationalError

from fhirapp.audit import store as audit_store
from fhirapp.config import ConfigurationError
from fhirapp.db import SCHEMA, db, is_busy, writing
from fhirapp.definition import Definition
from fhirapp.disk import need_writable
from fhirapp.documents.ocr import PICTURES
from fhirapp.search.tokenizer import normalised
from fhirapp.store import import_models as import_models  # Declares its tables.
from fhirapp.store import write
from fhirapp.store.own_schema import former_schema
from fhirapp.store.prepare import DocumentTextReader
from fhirapp.store.version import raise_generation

HEAD = "0014"
# The oldest schema that is upgraded, and the release that upgrades older ones to it.
INITIAL, UPGRADED_BY = "0011", "0.1.0"
_VERSIONS = "alembic_version"
# Versions that are rendered at once.
_BATCH = 500
_STEPS = Path(__file__).with_name("migrations")


def schema_version(engine: Engine) -> str | None:
    """Return the schema's number, None for an empty database. Raises ConfigurationError."""
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            if not tables and connection.dialect.name == "postgresql":
                _check_moved(engine)
            if not tables:
                return None
            if _VERSIONS not in tables:
                raise ConfigurationError(
                    f"The database {redact_url(engine)} holds other tables and none of fhirapp's; "
                    "name another in FHIRAPP_DATABASE_URL."
                )
            version = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").scalar()
    except DatabaseError as error:
        raise unusable(engine, error) from None
    return str(version)


def _check_moved(engine: Engine) -> None:
    if former := former_schema(engine):
        raise ConfigurationError(
            f"An earlier release keeps its tables in the schema {former} of the database "
            f"{redact_url(engine)}: start the server, or run `fhirapp db upgrade`, which moves "
            f"them to the schema {SCHEMA}."
        )


def redact_url(engine: Engine) -> str:
    """Return the database's address without its password."""
    return engine.url.render_as_string(hide_password=True)


def is_newer(number: str) -> bool:
    """Say whether a schema is of a later release, or of none that is known."""
    return not number.isdecimal() or number > HEAD


def is_upgradable(number: str) -> bool:
    """Say whether a schema is older than HEAD and has steps to it."""
    return not is_newer(number) and INITIAL <= number < HEAD


def is_too_old(number: str) -> bool:
    """Say whether a schema is older than the first step."""
    return not is_newer(number) and number < INITIAL


def check_schema(database: str, number: str) -> None:
    """Refuse the schema of a database that this release cannot use.

    Raises ConfigurationError.
    """
    if is_newer(number):
        raise ConfigurationError(
            f"The database {database} was made by a newer fhirapp (schema {number}, this one "
            f"knows {HEAD}); start that newer version, or name another database."
        )
    if is_too_old(number):
        raise ConfigurationError(
            f"The database {database} was made by an older fhirapp (schema {number}, this one "
            f"upgrades {INITIAL} and later); start fhirapp {UPGRADED_BY} on it first, then this "
            "version."
        )


def upgrade(engine: Engine) -> str | None:
    """Bring the schema to HEAD; return the version it had. Raises ConfigurationError."""
    before = schema_version(engine)
    if before is not None:
        check_schema(redact_url(engine), before)
    try:
        if before is not None and is_upgradable(before):
            _run_steps(engine)
        # Also where nothing is to be carried forward: a resource type may be new.
        with writing(engine) as connection:
            # Another process may have been here first, while this one waited for the lock.
            # One query for all names: create_all() itself asks for each table.
            present = {*inspect(connection).get_table_names()}
            models = [db.metadata]
            if connection.dialect.name == "postgresql":
                # On SQLite the audit trail is in a file of its own.
                models.append(audit_store.TABLES)
            for metadata in models:
                missing = [table for table in metadata.sorted_tables if table.name not in present]
                if missing:
                    metadata.create_all(connection, missing, checkfirst=False)
            if _VERSIONS not in present:
                connection.exec_driver_sql(
                    f"CREATE TABLE {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
                )
                connection.exec_driver_sql(f"INSERT INTO {_VERSIONS} VALUES ('{HEAD}')")
    except DatabaseError as error:
        raise unusable(engine, error) from None
    return before


def _run_steps(engine: Engine) -> None:
    """Run the steps that the database lacks, in one transaction."""
    # Imported here: Alembic takes a third of a second, and most starts do not need it.
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory(str(_STEPS))
    with writing(engine) as connection:
        # Another process may have been here first, while this one waited for the lock.
        before = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").scalar_one()
        with Operations.context(MigrationContext.configure(connection)):
            for step in reversed([*steps.iterate_revisions(HEAD, before)]):
                step.module.upgrade()
        connection.exec_driver_sql(f"UPDATE {_VERSIONS} SET version_num = '{HEAD}'")


def unusable(engine: Engine, error: DatabaseError) -> ConfigurationError:
    """Return a sentence for what a database says of itself."""
    is_sqlite = engine.dialect.name == "sqlite"
    if is_sqlite and isinstance(error, OperationalError) and is_busy(error):
        return ConfigurationError(
            f"The database {redact_url(engine)} is in use by another program; stop that one first."
        )
    if is_sqlite and (folder := Path(engine.url.database or "").parent).is_dir():
        # What SQLite says of a folder that is full or read-only is the same as of many faults.
        need_writable(folder)
    reason = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    return ConfigurationError(
        f"The database {redact_url(engine)} cannot be used ({reason}); "
        "check that it exists, is a database of fhirapp, and that this user may read and write it."
    )


def reindex(
    connection: Connection, definitions: Mapping[str, Definition], rendering: write.Rendering
) -> int:
    """Render and index every version again; return how many. One transaction.

    Where the words are an older release's, the documents are read again, without OCR.
    """
    _renew_words(connection, definitions["Binary"], read_again=write.is_outdated(connection))
    count = 0
    for definition in definitions.values():
        write.clear_index(connection, definition)
        count += _reindex_type(connection, definition, rendering)
    write.remember_rendering(connection, rendering)
    raise_generation(connection)
    return count


def _renew_words(connection: Connection, binary: Definition, *, read_again: bool) -> None:
    """Take the words of machine-read documents from their texts; with read_again read the others.

    One at a time: bytes may be many.
    """
    table = binary.table
    is_machine_read = table.c.machine_read.is_not(None)
    chosen = or_(is_machine_read, table.c.data.is_not(None)) if read_again else is_machine_read
    with DocumentTextReader(binary) as notes:
        for pk in connection.scalars(select(table.c.pk).where(chosen)).all():
            which = table.c.pk == pk
            columns = (table.c.machine_read, table.c.data, table.c.content_type)
            text, data, kind = connection.execute(select(*columns).where(which)).one()
            words = notes.words_of(data, kind or "")["words"] if text is None else normalised(text)
            connection.execute(update(table).where(which).values(words=words))


def read_scans(binary: Definition, languages: str) -> int:
    """Machine-read the scans that were not; return how many have words now.

    Each text is kept at once; reindex() makes searches find it.
    """
    table = binary.table
    start = func.substr(table.c.data, 1, 3, type_=LargeBinary)
    scans = or_(
        start.in_([b"%PD", *(magic[:3] for magic in PICTURES)]), table.c.content_type.ilike("%pdf%")
    )
    with db.engine.connect() as connection:
        unread = select(table.c.pk).where(table.c.machine_read.is_(None), table.c.size > 0, scans)
        numbers = connection.scalars(unread).all()
    count = 0
    with DocumentTextReader(binary, languages) as notes:
        for pk in numbers:
            columns = (table.c.id, table.c.hash, table.c.data, table.c.content_type)
            with db.engine.connect() as connection:
                row = connection.execute(select(*columns).where(table.c.pk == pk)).one_or_none()
            text = row and notes.words_of(row.data, row.content_type or "")["machine_read"]
            if row and text:
                # It may have been erased meanwhile, and its number given to another document.
                same = (table.c.pk == pk, table.c.id == row.id, table.c.hash == row.hash)
                with writing() as connection:
                    connection.execute(update(table).where(*same).values(machine_read=text))
                count += 1
    return count


def _reindex_type(
    connection: Connection, definition: Definition, rendering: write.Rendering
) -> int:
    table = definition.table
    if not definition.stores_body and not definition.params.declared:
        # Nothing of it is made of the columns, which are large.
        return connection.execute(select(func.count()).select_from(table)).scalar_one()
    last, count = 0, 0
    while True:
        result = connection.execute(
            select(table).where(table.c.pk > last).order_by(table.c.pk).limit(_BATCH)
        )
        rows: list[dict[str, Any]] = [dict(row) for row in result.mappings()]
        if not rows:
            return count
        last = rows[-1]["pk"]
        count += len(rows)
        live = [row for row in rows if not row["deleted"]]
        index = write.index_of(connection, definition, rendering, live)
        index.write(connection)
        if live and definition.stores_body:
            connection.execute(
                update(table)
                .where(table.c.pk == bindparam("this_pk"))
                .values(body=bindparam("made")),
                [{"this_pk": row["pk"], "made": row["body"]} for row in live],
            )
