"""The tables of a PostgreSQL database, dumped, and loaded beside those that are there.

A restore loads into a schema of its own and then swaps the two, each in one transaction: an owner
of the database needs no other right for it, and whatever ends it leaves the old tables or the new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, Engine, inspect, select
from sqlalchemy.exc import DatabaseError, OperationalError

from fhirapp.audit.store import SEAL, TABLES
from fhirapp.auth.server_secrets import check_key
from fhirapp.config import ConfigurationError, Settings
from fhirapp.db import checked_url, quoted
from fhirapp.disk import need_space
from fhirapp.features.backups import client
from fhirapp.features.backups.archive import DUMP, NAMESPACE
from fhirapp.keys import derived_key
from fhirapp.server.lock import server_engine
from fhirapp.store.migrate import HEAD, check_schema, redact_url, schema_version, unusable

# Where a restore loads; and where the tables are meanwhile, within that transaction alone.
RESTORING, _PARKED = "fhirapp_restoring", "fhirapp_parked"
# Name of a database that a verification fills, with the number of the backup's own database.
_VERIFICATION_DATABASE = "fhirapp_drill_{}"
# Lock: one verification at a time; the number is arbitrary.
_VERIFICATION_LOCK = 0x66686473
# In milliseconds: how long a restore waits for who reads a table.
_LOCK_MS = 10_000
_LOCKED = "55P03"
_TRAIL = tuple(TABLES.tables)
# Of a table's file, as PostgreSQL is built everywhere.
_PAGE = 8192


class Dumped(NamedTuple):
    """A dump that was taken: its file, the number of its schema, the name of its namespace."""

    path: Path
    schema: str
    namespace: str


def dump_tables(settings: Settings, folder: Path) -> Dumped:
    """Dump the tables of the settings' database into a folder. Raises ConfigurationError."""
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
            namespace = _namespace(session)
            check_key(session, derived_key(settings.secret))
            need_space(folder, _size(session, namespace), "a dump of the database")
            programs = client.client_for(major_of(session))
            client.dump(programs, url, namespace, snapshot, folder / DUMP)
    except DatabaseError as error:
        raise unusable(engine, error) from None
    return Dumped(folder / DUMP, schema, namespace)


def why_no_dump(settings: Settings) -> str:
    """Return why the settings' database cannot be dumped here; empty where it can."""
    engine = server_engine(checked_url(settings))
    try:
        with engine.connect() as session:
            client.client_for(major_of(session))
    except ConfigurationError as error:
        return str(error)
    except DatabaseError as error:
        return str(unusable(engine, error))
    return ""


def holds_rows(engine: Engine, apart_from: tuple[str, ...]) -> bool:
    """Say whether tables hold anything, apart from some. Raises ConfigurationError.

    Also where other tables than fhirapp's are there, which no restore replaces.
    """
    if schema_version(engine) is None:
        return False
    with engine.connect() as session:
        return any(
            session.exec_driver_sql(f"SELECT 1 FROM {quoted(name)} LIMIT 1").first()
            for name in inspect(session).get_table_names()
            if name not in apart_from
        )


def load_beside(url: URL, dump: Path, namespace: str) -> URL:
    """Load a dump beside the tables that are there; return the address that leads to it.

    Raises ConfigurationError, and leaves all as it was then.
    """
    server = _unused(server_engine(url), namespace)
    drop = f"DROP SCHEMA IF EXISTS {RESTORING} CASCADE"
    before = (
        # Who reads a table is waited for, and not for ever.
        f"SET LOCAL lock_timeout = {_LOCK_MS};",
        f"{drop}; CREATE SCHEMA {RESTORING}; CREATE SCHEMA {_PARKED};",
        # A dump names its tables with their schema, so they take the place of those there first.
        f"CREATE SCHEMA IF NOT EXISTS {quoted(namespace)};",
        _move(namespace, _PARKED),
    )
    after = (
        _move(namespace, RESTORING),
        _move(_PARKED, namespace),
        f"DROP SCHEMA {_PARKED};",
    )
    programs = client.client_for(server, newest=True)
    client.load(programs, url, dump, server, "\n".join(before), "\n".join(after))
    return _in_schema(url, RESTORING)


def _unused(engine: Engine, namespace: str) -> int:
    """Check that no program has a table open; return the server's major version.

    Raises ConfigurationError.
    """
    with _changing(engine) as session:
        for home in {_namespace(session), namespace}:
            for name in inspect(session).get_table_names(home):
                session.exec_driver_sql(f"LOCK TABLE {quoted(home)}.{quoted(name)}")
        return major_of(session)


@contextmanager
def _changing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that waits for who reads a table, and not for ever.

    Raises ConfigurationError.
    """
    connection = engine.connect().execution_options(isolation_level="READ COMMITTED")
    try:
        with connection as session, session.begin():
            session.exec_driver_sql(f"SET LOCAL lock_timeout = {_LOCK_MS}")
            yield session
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCKED:
            raise unusable(engine, error) from None
        raise ConfigurationError(
            f"The database {redact_url(engine)} is in use by another program; stop that one first. "
            "Nothing was changed."
        ) from None


def swap_in(url: URL, now: datetime) -> str:
    """Put the tables that were loaded in the place of those there; return where these are kept.

    That is a schema's name, empty where there were none. Raises ConfigurationError.
    """
    with _changing(server_engine(url)) as session:
        run, home, kept = session.exec_driver_sql, _namespace(session), ""
        stays: Sequence[str] = ()
        if inspect(session).get_table_names():
            kept = _free(session, f"fhirapp_before_{now:%Y%m%dt%H%M%Sz}")
            stays = _TRAIL if _goes_on(session) else ()
            run(f"CREATE SCHEMA {kept}")
            run(_move(home, kept))
        for name in stays:
            run(f"DROP TABLE {RESTORING}.{name}")
            run(f"ALTER TABLE {kept}.{name} SET SCHEMA {quoted(home)}")
        run(_move(RESTORING, home))
        run(f"DROP SCHEMA {RESTORING}")
    return kept


def _goes_on(session: Connection) -> bool:
    """Say whether the audit trail that is there is the loaded one, with what came after it.

    It stays then: no restore takes out of it who read what since the backup. So it does where the
    loaded trail has no seals: an earlier release's lines stay beside it, and a start imports them.
    """
    run = session.exec_driver_sql
    if schema_version(session.engine) != HEAD:
        return False
    last = run(f"SELECT k, root FROM {RESTORING}.{SEAL.name} ORDER BY k DESC LIMIT 1").first()
    if last is None:
        return True
    same = select(SEAL.c.root).where(SEAL.c.k == last.k)
    return bool(session.execute(same).scalar() == last.root)


def drop_loaded(engine: Engine) -> None:
    """Remove what a restore loaded that ended before the swap. No restore may go on meanwhile."""
    with engine.connect() as session:
        if inspect(session).has_schema(RESTORING):
            session.exec_driver_sql(f"DROP SCHEMA IF EXISTS {RESTORING} CASCADE")


@contextmanager
def scratch_database(url: URL, dump: Path, namespace: str) -> Iterator[URL | None]:
    """Load a dump into a database of its own, removed at the end; None where none may be made.

    One that a process left which was killed is removed by the next. Raises ConfigurationError.
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
        # Held until the session ends: who comes next waits.
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
    """Return how many bytes tables take, about: without a lock, which another may hold."""
    pages = session.exec_driver_sql(
        "SELECT sum(c.relpages + coalesce(t.relpages, 0)) FROM pg_class c"
        " LEFT JOIN pg_class t ON t.oid = c.reltoastrelid"
        f" WHERE c.relnamespace = '{quoted(namespace)}'::regnamespace AND c.relkind IN ('r', 'm')"
    ).scalar()
    return int(pages or 0) * _PAGE


def _namespace(session: Connection) -> str:
    """Return the schema of fhirapp's tables. Raises ConfigurationError."""
    name = str(session.exec_driver_sql("SELECT current_schema()").scalar())
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
    """Return the SQL that moves all tables, and what belongs to them, to another schema.

    Save those of an extension.
    """
    return f"""DO $move$ DECLARE name text; BEGIN
  FOR name IN SELECT quote_ident(c.relname) FROM pg_catalog.pg_class c
    WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE nspname = '{source}')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass
      AND d.objid = c.oid AND (d.deptype = 'e' OR d.deptype IN ('a', 'i') AND c.relkind = 'S'))
  LOOP
    EXECUTE 'ALTER TABLE {quoted(source)}.' || name || ' SET SCHEMA {quoted(target)}';
  END LOOP;
END $move$;"""


def _free(session: Connection, name: str) -> str:
    """Return a name that no schema has yet."""
    names = {*inspect(session).get_schema_names()}
    tried, number = name, 1
    while tried in names:
        number += 1
        tried = f"{name}_{number}"
    return tried
