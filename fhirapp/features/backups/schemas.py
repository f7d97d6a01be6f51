"""The schema of a PostgreSQL database: dumped, loaded beside the present one, swapped with it.

A restore loads the dump in one transaction, and renames the two schemas in another: an owner of the
database needs no other right, and whatever ends the restore leaves the old schema or the new.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect
from sqlalchemy.exc import DatabaseError

from fhirapp.audit.store import SEAL, TABLES
from fhirapp.auth.server_secrets import check_key
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db import SCHEMA, TABLES_SCHEMA, checked_url, db, quoted
from fhirapp.disk import need_space
from fhirapp.features.backups import client
from fhirapp.features.backups.archive import DUMP, NAMESPACE
from fhirapp.keys import derived_key
from fhirapp.server.lock import server_engine
from fhirapp.store.migrate import HEAD, check_schema, redact_url, schema_version, unusable
from fhirapp.store.own_schema import FORMER_TABLES

# The schema of tables that are in the way of those that are loaded, within that transaction.
_PARKED = "fhirapp_parked"
# Name of a database that a verification fills, with the number of the backup's own database.
_VERIFICATION_DATABASE = "fhirapp_drill_{}"
# Lock: one verification at a time; the number is arbitrary.
_VERIFICATION_LOCK = 0x66686473
# In milliseconds: how long a restore waits for a program that reads a table.
_LOCK_MS = 10_000
_LOCKED = "55P03"
# Characters of a schema's name, so that a suffix fits into the 63 that PostgreSQL takes.
_LONGEST_SCHEMA = 50
# Bytes of a page of a table.
_PAGE = 8192


def dump_tables(settings: Settings, folder: Path) -> tuple[str, str]:
    """Dump the tables of the settings' database into the file DUMP of a folder.

    Returns the number of their schema, and its name. Raises ConfigurationError, OSError.
    """
    url = checked_url(settings)
    engine = server_engine(url)
    schema = schema_version(engine)
    if schema is None:
        raise ConfigurationError(f"The database {redact_url(engine)} is empty: nothing to back up.")
    check_schema(redact_url(engine), schema)
    try:
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as session:
            run = session.exec_driver_sql
            run("SET LOCAL idle_in_transaction_session_timeout = 0")
            snapshot = str(run("SELECT pg_export_snapshot()").scalar())
            schema = str(run("SELECT version_num FROM alembic_version").scalar())
            namespace = _schema(session)
            check_key(session, derived_key(settings.secret))
            need_space(folder, _size(session, namespace), "a dump of the database")
            programs = client.client_for(major_of(session))
            client.dump(programs, url, namespace, snapshot, folder / DUMP)
    except DatabaseError as error:
        raise unusable(engine, error) from None
    return schema, namespace


def why_no_dump(settings: Settings) -> str:
    """Return why the settings' database cannot be dumped here; else empty."""
    engine = server_engine(checked_url(settings))
    try:
        with engine.connect() as session:
            client.client_for(major_of(session))
    except ConfigurationError as error:
        return str(error)
    except DatabaseError as error:
        return str(unusable(engine, error))
    return ""


def load_dump(url: URL, dump: Path, namespace: str) -> URL:
    """Load a dump into a schema beside the present one; return the address that leads to it.

    A dump names its tables with their namespace, so tables that are in it now step aside within the
    transaction. Raises ConfigurationError; nothing was changed then.
    """
    engine = server_engine(url)
    with _changing(engine) as session:
        server, loaded = major_of(session), _loaded(session)
        _check_tables(session)
        is_new = not inspect(session).has_schema(namespace)
        for schema in {_schema(session), namespace}:
            _lock_tables(session, schema)
    name = quoted(namespace)
    before = (
        f"SET LOCAL lock_timeout = {_LOCK_MS};",
        f"DROP SCHEMA IF EXISTS {quoted(loaded)} CASCADE; CREATE SCHEMA {quoted(loaded)};",
        f"CREATE SCHEMA {_PARKED}; CREATE SCHEMA IF NOT EXISTS {name};",
        _move(namespace, _PARKED),
    )
    after = (
        _move(namespace, loaded),
        f"DROP SCHEMA {name};" if is_new else _move(_PARKED, namespace),
        f"DROP SCHEMA {_PARKED};",
    )
    programs = client.client_for(server, newest=True)
    client.load(programs, url, dump, server, "\n".join(before), "\n".join(after))
    return _in_schema(url, loaded)


def _loaded(session: Connection) -> str:
    """Return the schema into which a restore loads: one for each installation in a database."""
    return f"{_schema(session)[:_LONGEST_SCHEMA]}_restoring"


def _check_tables(session: Connection) -> None:
    """Check that the present schema, which a restore replaces, has no other program's tables.

    Raises ConfigurationError.
    """
    present = _schema(session)
    tables = {*inspect(session).get_table_names(present)}
    if others := tables - FORMER_TABLES - {*db.metadata.tables}:
        raise ConfigurationError(
            f"The schema {present} also holds tables that are not fhirapp's ({min(others)}), and a "
            "restore replaces the whole schema; move them to another. Nothing was changed."
        )


def _lock_tables(session: Connection, schema: str) -> None:
    """Lock this user's tables in a schema until the transaction ends."""
    owned = (
        "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        " AND pg_has_role(tableowner, 'USAGE') ORDER BY tablename"
    )
    for (name,) in session.exec_driver_sql(owned, (schema,)).all():
        session.exec_driver_sql(f"LOCK TABLE {quoted(schema)}.{quoted(name)}")


@contextmanager
def _changing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that waits a limited time for programs that read a table.

    Raises ConfigurationError.
    """
    connection = engine.connect().execution_options(isolation_level="READ COMMITTED")
    try:
        with connection as session, session.begin():
            session.exec_driver_sql(f"SET LOCAL lock_timeout = {_LOCK_MS}")
            yield session
    except DatabaseError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCKED:
            raise unusable(engine, error) from None
        raise ConfigurationError(
            f"The database {redact_url(engine)} is in use by another program; stop that one first. "
            "Nothing was changed."
        ) from None


def swap_schemas(url: URL, now: datetime) -> tuple[list[str], str | None]:
    """Put the loaded schema in the place of the present one, in one transaction.

    Returns where the present tables are kept, and where the loaded audit trail is if another one is
    in use: the present trail stays, unless it is of another release. Raises ConfigurationError.
    """
    engine = server_engine(url)
    with _changing(engine) as session:
        run, present, loaded = session.exec_driver_sql, _schema(session), quoted(_loaded(session))
        if not inspect(session).get_table_names(present):
            run(f"DROP SCHEMA IF EXISTS {quoted(present)}")
            run(f"ALTER SCHEMA {loaded} RENAME TO {quoted(present)}")
            return [], None
        _lock_tables(session, present)
        number = run(f"SELECT version_num FROM {quoted(present)}.alembic_version").scalar()
        previous = _free(session, f"{SCHEMA}_before_{now:%Y%m%dt%H%M%Sz}")
        run(f"ALTER SCHEMA {quoted(present)} RENAME TO {previous}")
        run(f"ALTER SCHEMA {loaded} RENAME TO {quoted(present)}")
        trail = _keep_trail(session, quoted(present), previous, now) if number == HEAD else ""
    return [_described(previous)], _described(trail) if trail else None


def _described(schema: str) -> str:
    return f"the schema {schema}, until DROP SCHEMA {schema} CASCADE removes it"


def _keep_trail(session: Connection, present: str, previous: str, now: datetime) -> str:
    """Take the trail of the previous schema over; return the schema of the loaded one, or ""."""
    run, aside = session.exec_driver_sql, ""
    if not _continues(session, f"{previous}.{SEAL.name}", f"{present}.{SEAL.name}"):
        aside = _free(session, f"{SCHEMA}_audit_from_backup_{now:%Y%m%dt%H%M%Sz}")
        run(f"CREATE SCHEMA {aside}")
    for name in TABLES.tables:
        if aside:
            run(f"ALTER TABLE {present}.{name} SET SCHEMA {aside}")
        else:
            run(f"DROP TABLE {present}.{name}")
        run(f"ALTER TABLE {previous}.{name} SET SCHEMA {present}")
    return aside


def _continues(session: Connection, seals: str, earlier: str) -> bool:
    """Return whether a trail's seals include the newest seal of an earlier copy.

    So they do where the copy has no seals: lines of an earlier release are in other tables, and a
    start imports them.
    """
    run = session.exec_driver_sql
    last = run(f"SELECT k, root FROM {earlier} ORDER BY k DESC LIMIT 1").first()
    if last is None:
        return True
    return bool(run(f"SELECT root FROM {seals} WHERE k = %s", (last.k,)).scalar() == last.root)


def drop_loaded(engine: Engine) -> None:
    """Drop what a restore loaded that ended before the swap. No restore may run meanwhile."""
    with engine.connect() as session:
        loaded = _loaded(session)
        if inspect(session).has_schema(loaded):
            session.exec_driver_sql(f"DROP SCHEMA IF EXISTS {quoted(loaded)} CASCADE")


@contextmanager
def scratch_database(url: URL, dump: Path, namespace: str) -> Iterator[URL | None]:
    """Load a dump into a temporary database; None if the user may not create databases.

    The next verification drops the database of a process that was killed. Raises
    ConfigurationError.
    """
    engine = server_engine(url)
    try:
        session = engine.connect()
    except DatabaseError as error:
        raise unusable(engine, error) from None
    with session:
        run = session.exec_driver_sql
        may = "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        if not run(may).scalar():
            yield None
            return
        # Held until the session ends: the next verification waits.
        run(f"SELECT pg_advisory_lock({_VERIFICATION_LOCK})")
        number = run("SELECT oid FROM pg_database WHERE datname = current_database()").scalar()
        name = _VERIFICATION_DATABASE.format(number)
        run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        try:
            server = major_of(session)
            programs = client.client_for(server, newest=True)
            there = url.set(database=name)
            made = f"CREATE SCHEMA IF NOT EXISTS {quoted(namespace)};"
            client.load(programs, there, dump, server, made, "")
            yield _in_schema(there, namespace)
        finally:
            run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def read_dump(url: URL, dump: Path) -> None:
    """Read a dump to its end, without loading it. Raises ConfigurationError."""
    with server_engine(url).connect() as session:
        server = major_of(session)
    client.read_through(client.client_for(server, newest=True), dump)


def major_of(session: Connection) -> int:
    """Return the major version of a session's server."""
    return int(session.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000


def _size(session: Connection, namespace: str) -> int:
    """Return about how many bytes the tables take, without locking them."""
    pages = session.exec_driver_sql(
        "SELECT sum(c.relpages + coalesce(t.relpages, 0)) FROM pg_class c"
        " LEFT JOIN pg_class t ON t.oid = c.reltoastrelid"
        f" WHERE c.relnamespace = '{quoted(namespace)}'::regnamespace AND c.relkind IN ('r', 'm')"
    ).scalar()
    return int(pages or 0) * _PAGE


def _schema(session: Connection) -> str:
    """Return the schema of fhirapp's tables. Raises ConfigurationError."""
    name = str(session.exec_driver_sql(f"SELECT {TABLES_SCHEMA}").scalar())
    if not NAMESPACE.fullmatch(name):
        raise ConfigurationError(
            f"The schema {name} of the database has a name that a backup cannot have; use letters, "
            "digits and _."
        )
    return name


def _in_schema(url: URL, name: str) -> URL:
    stated = url.query.get("options", "")
    options = stated if isinstance(stated, str) else " ".join(stated)
    return url.update_query_dict({"options": f"{options} -csearch_path={quoted(name)}".strip()})


def _move(source: str, target: str) -> str:
    """Return the SQL that moves this user's tables, with what belongs to them, to another schema.

    Tables of extensions stay.
    """
    return f"""DO $move$ DECLARE name text; BEGIN
  FOR name IN SELECT quote_ident(c.relname) FROM pg_catalog.pg_class c
    WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE nspname = '{source}')
    AND pg_has_role(c.relowner, 'USAGE')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass
      AND d.objid = c.oid AND (d.deptype = 'e' OR d.deptype IN ('a', 'i') AND c.relkind = 'S'))
  LOOP
    EXECUTE 'ALTER TABLE {quoted(source)}.' || name || ' SET SCHEMA {quoted(target)}';
  END LOOP;
END $move$;"""


def _free(session: Connection, name: str) -> str:
    """Return a name that no schema has yet, with a number if need be."""
    names = {*inspect(session).get_schema_names()}
    tried, number = name, 1
    while tried in names:
        number += 1
        tried = f"{name}_{number}"
    return tried
