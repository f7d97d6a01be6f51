"""The schema of fhirapp's tables on PostgreSQL, and the move of an earlier release's tables to it.

Releases before 0.2 kept the tables in the first schema of the server's own search_path, which is
mostly `public`, where tables of other programs may be too.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, create_engine, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from fhirapp.config import ConfigurationError
from fhirapp.db import (
    SCHEMA,
    SEARCH_PATH,
    TABLES_SCHEMA,
    connect_args,
    lock_of_former_use,
    quoted,
    writing,
)

_VERSIONS = "alembic_version"
_TYPES = (
    *("allergy_intolerance", "binary", "code_system", "concept_map", "diagnostic_report"),
    *("document_reference", "encounter", "fhir_group", "organization", "patient", "practitioner"),
    *("provenance", "related_person", "value_set"),
)
_KINDS = ("", "_date", "_reference", "_string", "_token", "_words")
# All tables of schemas 0011 to 0013.
FORMER_TABLES = frozenset(
    (
        *(f"{name}{kind}" for name in _TYPES for kind in _KINDS),
        *(_VERSIONS, "audit_chain", "audit_entry", "audit_file", "audit_file_unverified"),
        *("audit_line", "audit_line_unverified", "audit_seal", "audit_seen", "auth_attempt"),
        *("auth_identity", "auth_recovery_code", "auth_refusal", "auth_session"),
        *("auth_setup_code", "auth_user", "auth_user_patient", "import_run", "import_shared"),
        *("import_source", "job", "lesson_class", "lesson_learner", "lesson_progress", "log_line"),
        *("oauth_access_token", "oauth_client", "oauth_code", "oauth_grant", "oauth_launch"),
        *("oauth_origin", "oauth_refresh_token", "oauth_request", "oauth_used_assertion"),
        *("patient_change", "patient_merge", "schedule", "server_secret", "setting"),
        *("store_state", "upload_piece"),
    )
)
# Written to alembic_version in the former schema: no number, so an earlier release takes it for a
# newer schema and stops.
_MOVED = f"moved to {SCHEMA}"
# SQLSTATE of a missing right.
_FORBIDDEN = "42501"


def former_schema(engine: Engine) -> str | None:
    """Return the schema in which an earlier release keeps its tables, None where none does."""
    arguments = connect_args(engine.url)
    arguments["options"] = arguments["options"].removeprefix(SEARCH_PATH)
    former = create_engine(engine.url, poolclass=NullPool, connect_args=arguments)
    with former.connect() as connection:
        names = connection.exec_driver_sql("SELECT unnest(current_schemas(false))").scalars().all()
        has_table = inspect(connection).has_table
        # Other programs have a table alembic_version too. The tables of a user who is named like
        # the schema may be in it already.
        found = (name for name in names if name != SCHEMA and has_table(_TYPES[0], schema=name))
        return next(found, None)


def make_own_schema(engine: Engine) -> str | None:
    """Create the schema; return the one from which an earlier release's tables were moved to it.

    A schema that the database's address names is left as it is. Raises ConfigurationError,
    DatabaseError.
    """
    # The lock of writers: of servers that start at once, one does this.
    with writing(engine) as connection:
        run = connection.exec_driver_sql
        if run(f"SELECT {TABLES_SCHEMA}").scalar() != SCHEMA:
            return None
        user, name = run("SELECT current_user, current_database()").one()
        try:
            if run("SELECT current_schema()").scalar() is None:
                run(f"CREATE SCHEMA {SCHEMA}")
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _FORBIDDEN:
                raise
            raise ConfigurationError(
                f"The user {user} may not create the schema {SCHEMA} of the database {name}, in "
                "which fhirapp keeps its tables: have the database's owner run GRANT CREATE ON "
                f"DATABASE {quoted(name)} TO {quoted(user)} (restores need it too), or CREATE "
                f"SCHEMA {SCHEMA} AUTHORIZATION {quoted(user)}."
            ) from None
        former = former_schema(engine)
        if former is not None:
            _move(connection, former)
    return former


def _move(connection: Connection, former: str) -> None:
    """Move the tables, with their indexes and sequences, and leave a mark for earlier releases."""
    run = connection.exec_driver_sql
    if inspect(connection).get_table_names():
        raise ConfigurationError(
            f"The database has fhirapp's tables in the schemas {former} and {SCHEMA}, as after a "
            "restore by an earlier release. To keep those of "
            f"{former}, run ALTER SCHEMA {SCHEMA} RENAME TO {SCHEMA}_old; to keep those of "
            f"{SCHEMA}, move the others to another schema. Then start again."
        )
    if not run(lock_of_former_use(), (former,)).scalar():
        raise ConfigurationError(
            "A server or command of an earlier release uses the database; stop that first. Its "
            f"tables are then moved from the schema {former} to {SCHEMA}."
        )
    source = quoted(former)
    for name in sorted(FORMER_TABLES.intersection(inspect(connection).get_table_names(former))):
        run(f"ALTER TABLE {source}.{name} SET SCHEMA {SCHEMA}")
    run(f"CREATE TABLE {source}.{_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    run(f"INSERT INTO {source}.{_VERSIONS} VALUES ('{_MOVED}')")
