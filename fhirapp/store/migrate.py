"""The schema of a database: made new, carried forward from an older release, or refused.

Every table is declared in the models. A new database is created from them and marked with HEAD; an
older one goes through the numbered steps in migrations/ (Alembic). Whoever changes a table adds a
step and raises HEAD; a test compares the models with the schema kept for HEAD.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, inspect
from sqlalchemy.exc import DatabaseError, OperationalError

from fhirapp.config import ConfigurationError
from fhirapp.db import db, is_busy, writing

HEAD = "0001"
_VERSIONS = "alembic_version"
_STEPS = Path(__file__).with_name("migrations")


def schema_version(engine: Engine) -> str | None:
    """Return the schema's number, None for an empty database. Raises ConfigurationError."""
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            if not tables:
                return None
            if _VERSIONS not in tables:
                raise ConfigurationError(
                    f"The database {shown(engine)} holds other tables and none of fhirapp's; "
                    "name another in FHIRAPP_DATABASE_URL."
                )
            found = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").scalar()
    except DatabaseError as error:
        raise _unusable(engine, error) from None
    return str(found)


def shown(engine: Engine) -> str:
    """Return the database's address without its password."""
    return engine.url.render_as_string(hide_password=True)


def is_newer(number: str) -> bool:
    """Say whether a schema's number is none that this release knows how to carry forward."""
    return not number.isdecimal() or number > HEAD


def is_older(number: str) -> bool:
    """Say whether a schema's number is one that is carried forward."""
    return not is_newer(number) and number < HEAD


def upgrade(engine: Engine) -> str | None:
    """Bring the schema to HEAD; return the version it had. Raises ConfigurationError."""
    before = schema_version(engine)
    if before is not None and is_newer(before):
        raise ConfigurationError(
            f"The database {shown(engine)} was made by a newer fhirapp (schema {before}, this one "
            f"knows {HEAD}); start that newer version, or name another database."
        )
    try:
        if before is not None and is_older(before):
            _run_steps(engine)
        # Also where nothing is to be carried forward: a resource type may be new.
        with writing(engine) as connection:
            # Another process may have been here first, while this one waited for the lock.
            is_new = _VERSIONS not in inspect(connection).get_table_names()
            db.metadata.create_all(connection)
            if is_new:
                connection.exec_driver_sql(
                    f"CREATE TABLE {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
                )
                connection.exec_driver_sql(f"INSERT INTO {_VERSIONS} VALUES ('{HEAD}')")
    except DatabaseError as error:
        raise _unusable(engine, error) from None
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


def _unusable(engine: Engine, error: DatabaseError) -> ConfigurationError:
    if is_busy(error) and isinstance(error, OperationalError) and engine.dialect.name == "sqlite":
        return ConfigurationError(
            f"The database {shown(engine)} is in use by another program; stop that one first."
        )
    reason = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    return ConfigurationError(
        f"The database {shown(engine)} cannot be used ({reason}); "
        "check that it exists, is a database of fhirapp, and that this user may read and write it."
    )
