"""The schema of a database: created, opened as it was, upgraded, or refused.

tests/schemas/ has the SQLite schema of each number, from which an old file is made here. A change
of a table needs a step in fhirapp/store/migrations/, a higher HEAD, and the new number's file:

    python -m tests.store.test_migrate > tests/schemas/<HEAD>.sql
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Connection, create_engine, inspect, text

from fhirapp import create_app
from fhirapp.audit.store import TABLES
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.environment import load_settings
from fhirapp.jobs import queue, schedules
from fhirapp.server.prepare import prepare
from fhirapp.store import migrate
from fhirapp.store.migrate import HEAD, INITIAL, schema_version, upgrade
from tests import TESTS
from tests.support.backups import rows_of
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import shared_secret
from tests.support.importing import ALLERGY, PATIENT, asking, load_lines

SCHEMAS = TESTS / "schemas"


# The tables of the types whose words are searched.
SEARCHED = ("allergy_intolerance", "document_reference")


def _is_index(name: str) -> bool:
    return name.endswith("_token")


def app_on(url: Path | str, folder: Path) -> Flask:
    """Return an app on a SQLite file or a database's address, not yet prepared."""
    address = url if isinstance(url, str) else f"sqlite:///{url}"
    return create_app(
        load_settings({}, database_url=address, instance_path=str(folder), **shared_secret(address))
    )


@pytest.fixture
def open_app(tmp_path: Path) -> Iterator[Callable[..., Flask]]:
    """Return a maker of such apps, whose connections are closed at the end."""
    apps: list[Flask] = []

    def make(url: Path | str, folder: Path = tmp_path) -> Flask:
        apps.append(app_on(url, folder))
        return apps[-1]

    yield make
    for app in apps:
        with app.app_context():
            db.engine.dispose()


def schema_of(path: Path) -> str:
    """Return the SQL that makes a SQLite file's tables and indexes, and marks their number."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            # The tables in which FTS5 keeps a table of words.
            " AND name NOT LIKE '%\\_words\\_%' ESCAPE '\\' ORDER BY tbl_name, type DESC, name"
        ).fetchall()
        (number,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    connection.close()
    statements = ["\n".join(line.rstrip() for line in row[0].strip().splitlines()) for row in rows]
    statements.append(f"INSERT INTO alembic_version VALUES ('{number}')")
    return "".join(f"{statement};\n\n" for statement in statements)[:-1]


def new_schema(folder: Path) -> str:
    """Return the schema that the models make of an empty file."""
    app = app_on(folder / "new.db", folder)
    prepare(app, lambda _message: None)
    return schema_of(folder / "new.db")


def statements(schema: str) -> set[str]:
    """Return the statements of a schema, in one line each: a column that was added has none."""
    return {" ".join(statement.split()) for statement in schema.split(";\n")}


def kept_statements() -> set[str]:
    """Return the statements of the schema that is kept for HEAD."""
    return statements((SCHEMAS / f"{HEAD}.sql").read_text("utf-8"))


BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)


def test_models_have_the_schema_that_is_kept_for_this_number(tmp_path):
    """A table that is kept may not change unnoticed; the tables of a new type may be added."""
    changed = kept_statements() - statements(new_schema(tmp_path))
    assert not changed, "A table changed: add a migration (see this file's head)."


def test_schema_of_each_number_is_kept():
    numbers = [f"{number:04}" for number in range(int(INITIAL), int(HEAD) + 1)]
    assert sorted(path.stem for path in SCHEMAS.iterdir()) == numbers


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.sql")), ids=lambda path: path.stem)
def test_file_of_each_kept_schema_is_upgraded_and_serves(path, open_app, tmp_path):
    file = tmp_path / "old.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(path.read_text(encoding="utf-8"))
    connection.close()
    app = open_app(file)
    said: list[str] = []
    prepare(app, said.append)
    assert bool(said) == (path.stem != HEAD)
    # As it was, it is kept beside.
    kept = [] if path.stem == HEAD else [path.stem]
    assert [copy.name.split(".")[1] for copy in tmp_path.glob("old.schema-*")] == [
        f"schema-{number}" for number in kept
    ]
    assert load_lines(app, tmp_path, PATIENT, ALLERGY).complete
    assert asking(app).ids("AllergyIntolerance?patient=one") == ["nuts"]
    assert kept_statements() <= statements(schema_of(file))


@BOTH
def test_new_database_has_every_table_and_column_of_the_models(make_app):
    app = make_app(seed=False)
    with app.app_context():
        found = inspect(db.engine)
        tables = set(found.get_table_names())
        # Full text is no table of the models; FTS5 keeps each in several.
        words = {name.removesuffix("_token") + "_words" for name in tables if _is_index(name)}
        assert {name for name in tables if not name.startswith(tuple(words))} == {
            *db.metadata.tables,
            *(TABLES.tables if settings_of(app).is_postgresql else ()),
            "alembic_version",
        }
        assert {f"{name}_words" for name in SEARCHED} <= tables
        for name, table in db.metadata.tables.items():
            columns = {column["name"]: column["nullable"] for column in found.get_columns(name)}
            assert columns == {column.name: column.nullable for column in table.columns}
            indexes = {index["name"] for index in found.get_indexes(name)}
            assert {index.name for index in table.indexes} <= indexes
        assert schema_version(db.engine) == upgrade(db.engine) == HEAD


@BOTH
def test_concurrent_starts_on_an_empty_database_all_succeed(new_database, open_app, tmp_path):
    url = new_database()
    apps = [open_app(url, tmp_path / str(number)) for number in range(4)]

    def start(app: Flask) -> None:
        prepare(app, lambda _message: None)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(start, apps))
    with apps[0].app_context():
        assert schema_version(db.engine) == HEAD


def mark(app: Flask, number: str) -> None:
    """Change the number that a database has."""
    with app.app_context(), writing() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{number}'")


@BOTH
def test_schema_of_a_newer_release_is_refused(empty):
    for number in (f"{int(HEAD) + 1:04}", "9999", "3f2a7c11"):
        mark(empty, number)
        with pytest.raises(ConfigurationError) as raised:
            prepare(empty, lambda _message: None)
        said = str(raised.value)
        assert f"was made by a newer fhirapp (schema {number}, this one knows {HEAD})" in said
        assert said.endswith("start that newer version, or name another database.")
    mark(empty, HEAD)


@BOTH
@pytest.mark.parametrize("number", ["0001", f"{int(INITIAL) - 1:04}"])
def test_schema_before_the_initial_one_is_refused_and_left_alone(empty, number):
    mark(empty, number)
    url = settings_of(empty).database_url
    before = rows_of(url)
    with pytest.raises(ConfigurationError) as raised:
        prepare(empty, lambda _message: None)
    said = str(raised.value)
    assert f"was made by an older fhirapp (schema {number}, this one upgrades {INITIAL} and" in said
    assert said.endswith("start fhirapp 0.1.0 on it first, then this version.")
    assert rows_of(url) == before
    assert not [*settings_of(empty).instance.glob("*.schema-*")]
    mark(empty, HEAD)


def test_file_of_a_schema_before_the_initial_one_keeps_its_bytes(open_app, tmp_path):
    file = old_clinic(open_app, tmp_path)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0010'")
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=r"start fhirapp 0\.1\.0 on it first"):
        prepare(open_app(file), lambda _message: None, serving=True)
    assert (file.read_bytes(), copies(tmp_path)) == (before, [])


@pytest.fixture
def foreign(new_database: Callable[[], str]) -> str:
    """The address of a database that belongs to another program."""
    url = new_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE patient (name TEXT)")
        connection.exec_driver_sql("INSERT INTO patient VALUES ('kept')")
    engine.dispose()
    return url


def test_database_of_another_program_is_refused_and_left_alone(foreign, open_app):
    app = open_app(foreign)
    with pytest.raises(ConfigurationError, match="holds other tables and none of fhirapp's; name"):
        prepare(app, lambda _message: None)
    with app.app_context():
        assert inspect(db.engine).get_table_names() == ["patient"]


@pytest.mark.parametrize("content", [b"not a database at all" * 500, b"SQLite format 3\0broken"])
def test_file_that_is_no_database_is_refused_and_left_alone(open_app, tmp_path, content):
    path = tmp_path / "clinic.db"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"^The database .*clinic\.db cannot be used \("):
        prepare(open_app(path), lambda _message: None)
    assert path.read_bytes() == content


def test_database_locked_by_another_program_is_reported(open_app, tmp_path, monkeypatch):
    path = tmp_path / "busy.db"
    prepare(open_app(path), lambda _message: None)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    # The wait of a writer, five seconds, is a setting of each connection.
    monkeypatch.setattr("fhirapp.db.BUSY_SECONDS", 0)
    with pytest.raises(ConfigurationError, match="is in use by another program; stop that one"):
        prepare(open_app(path), lambda _message: None)
    holder.close()


OLD_TABLES = """
CREATE TABLE job (number INTEGER PRIMARY KEY, id VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    owner VARCHAR NOT NULL, state VARCHAR NOT NULL, created_at INTEGER NOT NULL, ended_at INTEGER,
    expires_at INTEGER, attempts INTEGER NOT NULL, lease_until INTEGER,
    stop_requests INTEGER NOT NULL, request JSON NOT NULL, progress JSON NOT NULL, error VARCHAR);
CREATE TABLE schedule (name VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, timing VARCHAR NOT NULL,
    options JSON NOT NULL, is_paused BOOLEAN NOT NULL, handled_at BIGINT NOT NULL, job_id VARCHAR,
    began_at BIGINT, since VARCHAR, succeeded_at BIGINT, failed_at BIGINT,
    failures INTEGER NOT NULL, history JSON NOT NULL);
"""


def insert_old(connection: Connection, table: str, **values: object) -> None:
    """Insert a row into a table as schema 0013 had it; lists and mappings are JSON."""
    row = {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in values.items()
    }
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), row)


def add_old_job(connection: Connection, number: int, **values: object) -> None:
    common: dict[str, object] = {
        "id": f"job-{number}",
        "kind": "backup",
        "owner": "schedule:nightly",
        "state": "done",
        "created_at": number,
        "ended_at": number + 1,
        "attempts": 1,
        "stop_requests": 0,
        "request": {"keep": 3},
        "progress": {"notes": ["It is whole."], "ends": "", "made": None},
    }
    insert_old(connection, "job", number=number, **common | values)


def add_old_schedule(connection: Connection, name: str, **values: object) -> None:
    common: dict[str, object] = {
        "name": name,
        "kind": "backup",
        "timing": "hourly",
        "options": {"keep": 3},
        "is_paused": False,
        "handled_at": 900,
        "failures": 0,
        "history": [],
    }
    insert_old(connection, "schedule", **common | values)


def old_run(outcome: str, at: int, note: str = "", job_id: str | None = None) -> dict[str, object]:
    return {
        "began_at": at,
        "ended_at": at + 1,
        "outcome": outcome,
        "note": note,
        "job_id": job_id,
    }


@BOTH
def test_runs_of_schedules_become_jobs(empty):
    """Migration 0014, which reads what schema 0013 has, on each engine."""
    with empty.app_context(), writing() as connection:
        for statement in ("DROP TABLE job", "DROP TABLE schedule", *OLD_TABLES.split(";\n")):
            if statement.strip():
                connection.execute(text(statement))
        connection.execute(text("UPDATE alembic_version SET version_num = '0013'"))
        add_old_job(connection, 100)
        notes = {"notes": ["Not kept.", "No room.", "More."], "ends": "failed"}
        add_old_job(connection, 200, state="failed", progress=notes)
        add_old_job(connection, 300, state="failed", progress={"notes": ["No key.", "More."]})
        add_old_job(connection, 400, state="running", ended_at=None)
        # Of a schedule of this name that was removed while its run was under way.
        add_old_job(connection, 401, state="running", ended_at=None)
        add_old_job(connection, 402, kind="drill")
        add_old_job(connection, 403, owner="admin", state="queued")
        done = {"notes": ["Not kept."], "ends": "done"}
        add_old_job(connection, 404, owner="admin", state="failed", progress=done)
        history = [
            old_run("skipped", 380),
            old_run("failed", 300, "No key.", "job-300"),
            old_run("failed", 250, "There is no passphrase."),
            old_run("failed", 200, "Not kept.", "job-200"),
            old_run("done", 100, "It is whole.", "job-100"),
        ]
        add_old_schedule(
            connection,
            "nightly",
            history=history,
            job_id="job-400",
            began_at=400,
            succeeded_at=101,
            since="2026-01-01T00:00:00Z",
        )
        idle = [old_run("idle", 600), old_run("failed", 500, "Away.")]
        add_old_schedule(connection, "lab", kind="folder", history=idle, succeeded_at=601)
        forgotten = [old_run("interrupted", 700, "", "gone")]
        add_old_schedule(
            connection, "old", history=forgotten, succeeded_at=50, job_id="lost", began_at=800
        )
    with empty.app_context():
        upgrade(db.engine)
        found = schedules.schedules()
        runs = schedules.runs_of(*found)
        others = [job for job in queue.jobs() if job.schedule is None]
        with writing() as connection:
            # The numbers go on.
            assert queue.add(connection, "new", "backup", "", 950, schedule="old", error="Why.")
        assert queue.jobs(limit=1)[0].id == "new"
        if db.engine.dialect.name == "postgresql":
            with db.engine.connect() as connection:
                # As the models have it.
                collations = connection.execute(
                    text(
                        "SELECT DISTINCT collation_name FROM information_schema.columns"
                        " WHERE table_name IN ('job', 'schedule') AND data_type LIKE 'char%'"
                    )
                )
                assert collations.scalars().all() == ["C"]
    nightly, lab, old = (runs[name] for name in ("nightly", "lab", "old"))
    assert [(job.state, job.created_at, job.summary) for job in nightly.jobs] == [
        ("running", 400, "It is whole."),
        ("failed", 300, "No key."),
        ("failed", 250, "There is no passphrase."),
        ("uploading", 200, "No room."),
        ("done", 100, "It is whole."),
    ]
    assert nightly.jobs[3].progress.storage_error == "Not kept."
    assert (nightly.jobs[3].outcome, nightly.jobs[3].progress.notes) == ("failed", ["More."])
    assert (nightly.succeeded_at, len(nightly.failures)) == (101, 3)
    assert (lab.idle_at, lab.is_idle, lab.succeeded_at, lab.failures) == (601, True, 601, [])
    assert [(job.state, job.created_at) for job in old.jobs] == [
        *(("interrupted", 800), ("interrupted", 700), ("done", 50)),
    ]
    assert (old.succeeded_at, len(old.failures)) == (50, 2)
    assert [(job.id, job.state) for job in others] == [
        ("job-404", "uploading"),
        ("job-403", "queued"),
        ("job-402", "done"),
        ("job-401", "running"),
    ]
    assert others[0].outcome == "done"
    assert {schedule.name: schedule.since for schedule in found} == {
        "nightly": "2026-01-01T00:00:00Z",
        "lab": None,
        "old": None,
    }
    assert found[1].options == {"keep": 3}


STEP = """
from __future__ import annotations

from alembic import op

revision = "{number}"
down_revision = "{before}"


def upgrade() -> None:
    op.execute("CREATE TABLE next_release (name TEXT)")
    {wrong}
"""


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return what makes this release one with another step, which may go wrong; its number."""

    def release(wrong: str) -> str:
        number = f"{int(HEAD) + 1:04}"
        steps = tmp_path / "migrations"
        shutil.copytree(migrate._STEPS, steps)
        step = STEP.format(number=number, before=HEAD, wrong=wrong)
        (steps / "versions" / f"{number}_next.py").write_text(step)
        monkeypatch.setattr(migrate, "_STEPS", steps)
        monkeypatch.setattr(migrate, "HEAD", number)
        return number

    return release


def old_clinic(open_app: Callable[..., Flask], folder: Path) -> Path:
    """Make a database of this release with a record in it; return its file."""
    file = folder / "clinic.db"
    app = open_app(file)
    prepare(app, lambda _message: None)
    assert load_lines(app, folder, PATIENT).complete
    with app.app_context():
        db.engine.dispose()
    return file


def tables_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}


def copies(folder: Path) -> list[Path]:
    return [*folder.glob("clinic.schema-*")]


def test_database_of_an_older_release_is_copied_and_upgraded(open_app, tmp_path, next_release):
    file = old_clinic(open_app, tmp_path)
    before = tables_of(file)
    number = next_release("")
    said: list[str] = []
    prepare(open_app(file), said.append)
    (copy,) = copies(tmp_path)
    carried = f"The database was upgraded from schema {HEAD} to {number}"
    assert said == [f"{carried}; the old one is kept in {copy}."]
    assert re.fullmatch(rf"clinic\.schema-{HEAD}\.\d{{8}}T\d{{6}}Z\.db", copy.name)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert tables_of(copy) == before
    assert tables_of(file) >= before | {"next_release"}
    assert schema_of(copy).endswith(f"VALUES ('{HEAD}');\n")
    prepare(open_app(file), said.append)
    assert (len(said), copies(tmp_path)) == (1, [copy])


def test_database_that_cannot_be_copied_is_not_upgraded(
    open_app, tmp_path, next_release, monkeypatch
):
    file = old_clinic(open_app, tmp_path)
    before = tables_of(file)
    next_release("")
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=0))
        with pytest.raises(ConfigurationError, match=r"There is no room for a copy of clinic\.db"):
            prepare(open_app(file), lambda _message: None)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigurationError, match=r"cannot be copied.*No space left on device"):
            prepare(open_app(file), lambda _message: None)
    assert (copies(tmp_path), tables_of(file)) == ([], before)


def test_failed_migration_leaves_the_database_and_a_copy(open_app, tmp_path, next_release):
    file = old_clinic(open_app, tmp_path)
    before = tables_of(file)
    next_release('op.execute("CREATE TABLE patient (name TEXT)")')
    with pytest.raises(ConfigurationError, match="table patient already exists"):
        prepare(open_app(file), lambda _message: None)
    assert tables_of(file) == before
    (copy,) = copies(tmp_path)
    assert tables_of(copy) == before


def test_database_error_never_shows_the_password(open_app):
    app = open_app("postgresql://clinic:hunter2@127.0.0.1:1/clinic")
    with pytest.raises(ConfigurationError, match=r"clinic:\*\*\*@127\.0\.0\.1") as raised:
        prepare(app, lambda _message: None)
    assert "hunter2" not in str(raised.value)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        sys.stdout.write(new_schema(Path(name)))
