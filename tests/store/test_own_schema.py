"""The schema of the tables on PostgreSQL, and the move of an earlier release's tables to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy import make_url

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.restore import restore
from fhirapp.server.lock import exclusive_use, in_use
from fhirapp.server.prepare import prepare
from fhirapp.store.migrate import HEAD
from tests.store.test_migrate import app_on
from tests.support.backups import NOW
from tests.support.databases import POSTGRESQL, DatabaseFactory
from tests.support.importing import ALLERGY, PATIENT, asking, load_lines

pytestmark = pytest.mark.databases(POSTGRESQL)
# The lock that connections of a release before 0.2 share.
FORMER_LOCK = "SELECT pg_advisory_lock_shared(1718118770, hashtext('public'))"
MOVED = "The database's tables were moved from the schema public to fhirapp."


def run(url: str, *statements: str) -> list[Any]:
    """Run statements as no program of fhirapp does; return the rows of the last one."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def relations(url: str, schema: str, kind: str = "r") -> set[str]:
    """Return the names of a schema's tables, or of its relations of another kind."""
    found = run(
        url,
        "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
        f" WHERE nspname = '{schema}' AND relkind = '{kind}'",
    )
    return {name for (name,) in found}


@pytest.fixture
def open_app(tmp_path: Path) -> Iterator[Callable[[str], Flask]]:
    """Return a maker of apps on a database, whose connections are closed at the end."""
    apps: list[Flask] = []

    def make(url: str) -> Flask:
        folder = tmp_path / str(len(apps))
        folder.mkdir()
        apps.append(app_on(url, folder))
        return apps[-1]

    yield make
    for app in apps:
        with app.app_context():
            db.engine.dispose()


@pytest.fixture
def former(new_database: DatabaseFactory, open_app: Callable[[str], Flask], tmp_path: Path) -> str:
    """The address of a database whose tables are in public, beside one of another program."""
    url = new_database()
    app = open_app(url)
    prepare(app, lambda _message: None)
    assert load_lines(app, tmp_path, PATIENT).complete
    with app.app_context():
        db.engine.dispose()
    moves = [f"ALTER TABLE fhirapp.{name} SET SCHEMA public" for name in relations(url, "fhirapp")]
    run(url, *moves, "DROP SCHEMA fhirapp", "CREATE TABLE public.song AS SELECT 'kept' AS title")
    return url


def prepared(app: Flask) -> list[str]:
    """Prepare a database; return what is said, but for that it was empty."""
    said: list[str] = []
    prepare(app, said.append)
    return [text for text in said if not text.startswith("A new, empty database was created")]


def test_tables_of_an_earlier_release_are_moved_and_others_stay(former, open_app, tmp_path):
    tables, sequences = (relations(former, "public", kind) for kind in "rS")
    indexes = relations(former, "public", "i")
    app = open_app(former)
    assert prepared(app) == [MOVED]
    assert relations(former, "fhirapp") == tables - {"song"}
    assert relations(former, "fhirapp", "S") == sequences
    assert relations(former, "fhirapp", "i") == indexes
    assert relations(former, "public") == {"song", "alembic_version"}
    assert run(former, "SELECT title FROM public.song") == [("kept",)]
    assert load_lines(app, tmp_path, ALLERGY).complete
    assert asking(app).ids("AllergyIntolerance?patient=one") == ["nuts"]
    assert prepared(open_app(former)) == []


def test_earlier_release_refuses_the_database_after_the_move(former, open_app):
    prepare(open_app(former), lambda _message: None)
    # It looks into public.
    address = make_url(former).update_query_dict({"options": "-csearch_path=public"})
    earlier = open_app(address.render_as_string(hide_password=False))
    with pytest.raises(ConfigurationError, match=r"made by a newer fhirapp \(schema moved to fh"):
        prepare(earlier, lambda _message: None)
    assert relations(former, "public") == {"song", "alembic_version"}


def test_tables_in_both_schemas_are_refused_until_one_is_renamed(former, open_app):
    app = open_app(former)
    assert prepared(app) == [MOVED]
    # As a restore by an earlier release leaves it.
    copies = [
        f"CREATE TABLE public.{name} AS SELECT * FROM fhirapp.{name}"
        for name in relations(former, "fhirapp") - {"alembic_version"}
    ]
    run(former, *copies, f"UPDATE public.alembic_version SET version_num = '{HEAD}'")
    with pytest.raises(ConfigurationError, match="in the schemas public and fhirapp, as after"):
        prepare(app, lambda _message: None)
    run(former, "ALTER SCHEMA fhirapp RENAME TO fhirapp_old")
    assert prepared(app) == [MOVED]


def test_search_path_of_a_user_named_as_the_schema_is_no_earlier_one(new_database, open_app):
    url = new_database()
    run(url, f"ALTER DATABASE {make_url(url).database} SET search_path = fhirapp, public")
    assert [prepared(open_app(url)) for _ in range(2)] == [[], []]


def test_tables_of_a_user_named_as_the_schema_are_moved_from_public(former, open_app):
    """The manual says how an owner creates the schema, which is empty then."""
    name = make_url(former).database
    run(former, "CREATE SCHEMA fhirapp", f"ALTER DATABASE {name} SET search_path = fhirapp, public")
    assert prepared(open_app(former)) == [MOVED]
    assert "patient" in relations(former, "fhirapp")


def test_table_alembic_version_of_another_program_is_left_alone(new_database, open_app):
    url = new_database()
    run(url, "CREATE TABLE public.alembic_version AS SELECT 'ae1027a6acf' AS version_num")
    assert prepared(open_app(url)) == []
    assert run(url, "SELECT * FROM public.alembic_version") == [("ae1027a6acf",)]


def test_tables_are_not_moved_while_an_earlier_release_runs(former, open_app):
    app = open_app(former)
    with psycopg.connect(former) as earlier:
        earlier.execute(FORMER_LOCK)
        with pytest.raises(ConfigurationError, match="command of an earlier release uses the data"):
            prepare(app, lambda _message: None)
    assert "patient" in relations(former, "public")
    assert prepared(app) == [MOVED]


def test_servers_that_start_at_once_move_the_tables_once(former, open_app):
    apps = [open_app(former) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        said = [*threads.map(prepared, apps)]
    assert sorted(said) == [[], [], [MOVED]]


def test_database_whose_tables_were_not_moved_is_neither_backed_up_nor_restored(
    former, open_app, tmp_path
):
    settings = settings_of(open_app(former))
    refused = pytest.raises(ConfigurationError, match="start the server, or run `fhirapp db upgr")
    with refused:
        back_up(settings, tmp_path / "x.backup", NOW, None)
    with refused:
        restore(settings, tmp_path / "x.backup", NOW, None, force=True)
    assert relations(former, "fhirapp") == set()


def test_lock_is_the_same_before_and_after_the_schema_is_created(new_database, open_app):
    app = open_app(new_database())
    settings = settings_of(app)
    with in_use(settings):
        prepare(app, lambda _message: None)
        with pytest.raises(ConfigurationError, match="A server runs on the database"):
            exclusive_use(settings).__enter__()


def test_search_path_of_the_address_is_kept(former, open_app):
    address = make_url(former).update_query_dict({"options": "-csearch_path=public"})
    app = open_app(address.render_as_string(hide_password=False))
    assert prepared(app) == []
    assert asking(app).ids("Patient") == ["one"]
    assert "patient" in relations(former, "public")


def test_missing_right_to_create_the_schema_is_one_sentence(new_database, open_app):
    url = new_database()
    name = str(make_url(url).database)
    role = f"user_of_{name}"
    run(url, f"CREATE ROLE {role} LOGIN")
    try:
        own = make_url(url).set(username=role).render_as_string(hide_password=False)
        app = open_app(own)
        with pytest.raises(ConfigurationError) as raised:
            prepare(app, lambda _message: None)
        assert f'GRANT CREATE ON DATABASE "{name}" TO "{role}"' in str(raised.value)
        assert f'CREATE SCHEMA fhirapp AUTHORIZATION "{role}".' in str(raised.value)
        run(url, f"CREATE SCHEMA fhirapp AUTHORIZATION {role}")
        assert prepared(app) == []
        with app.app_context():
            db.engine.dispose()
    finally:
        run(url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
