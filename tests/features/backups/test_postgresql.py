"""Backups of PostgreSQL: dumped beside the server, tried out in a database of their own, restored.

A restore that fails, or is killed at any step, leaves the old tables or has the new.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import create_engine, inspect, make_url, text

from fhirapp import create_app
from fhirapp.audit.seals import seal_all
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.users import second_factor
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.backups import client
from fhirapp.features.backups.archive import DUMP
from fhirapp.features.backups.backup import back_up, why_no_backup
from fhirapp.features.backups.restore import RestoreResult, restore
from fhirapp.features.backups.verification import verify_backup
from fhirapp.features.demo.seed import load_seed, seed_path
from fhirapp.features.health.examine import examine
from fhirapp.probe import Cost
from fhirapp.server.lock import exclusive_use, in_use
from fhirapp.store.write import Rendering
from tests.support.authorizing import add_person, add_program
from tests.support.backups import NOW, SECRET, app_in, fake_client, settings_in
from tests.support.databases import POSTGRESQL
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.importing import PATIENT, load_lines
from tests.support.serving import servers
from tests.support.shell import ROOT, assert_not_done, environment, fhirapp

pytestmark = pytest.mark.databases(POSTGRESQL)

SHARED_SECRET = "what-all-servers-of-the-clinic-have-set"
QUESTIONS = ("AllergyIntolerance?clinical-status=active", "AllergyIntolerance/_history")
KEPT = "fhirapp_before_20260105t101500z"
# What a restore ends, and what the store remembers of itself.
ENDED = {"store_state", "auth_session", "auth_setup_code", "oauth_access_token", "oauth_grant"}


class Clinic(NamedTuple):
    """A server's instance folder and its database on PostgreSQL."""

    folder: Path
    url: str

    @property
    def overrides(self) -> dict[str, str]:
        return {"database_url": self.url, "secret": SHARED_SECRET}

    @property
    def settings(self) -> Settings:
        return settings_in(self.folder, **self.overrides)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return fhirapp(self.folder, *arguments, DATABASE_URL=self.url, SECRET=SHARED_SECRET)

    def sql(self, statement: str) -> list[Any]:
        with connected(self.url) as connection:
            found = connection.execute(text(statement))
            return found.all() if found.returns_rows else []

    def take(self, name: str = "clinic.backup", passphrase: str | None = None) -> Path:
        return back_up(self.settings, self.folder / name, NOW, passphrase).path

    def restore(self, backup: Path, passphrase: str | None = None) -> RestoreResult:
        return restore(self.settings, backup, NOW, passphrase, force=True)


@contextmanager
def connected(url: str) -> Iterator[Any]:
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        connect_args={"options": "-c search_path=fhirapp,public"},
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture(scope="session")
def example(new_database: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """A clinic that is not changed, with a backup of it."""
    clinic = Clinic(tmp_path_factory.mktemp("clinic"), new_database())
    with app_in(clinic.folder, **clinic.overrides) as app:
        person = add_person(app, ADMINISTRATOR)
        add_program(app)
        token_for(app, "system/*.rs")
        with app.app_context():
            now = "2026-01-01T00:00:00.000+00:00"
            load_seed(seed_path(), types(), Rendering.of(settings_of(app)), now)
            with writing() as connection:
                second_factor.enable(connection, person, SECRET, 1)
    clinic.take()
    return clinic


@pytest.fixture
def backup(example: Clinic) -> Path:
    return example.folder / "clinic.backup"


@pytest.fixture
def clinic(example: Clinic, new_database: Callable[..., str], tmp_path: Path) -> Clinic:
    """A clinic of the test's own, with the same records and people, and one patient more."""
    found = Clinic(tmp_path / "instance", new_database(example.url))
    found.folder.mkdir()
    with app_in(found.folder, **found.overrides) as app:
        load_lines(app, tmp_path, PATIENT)
    return found


@pytest.fixture
def new(new_database: Callable[..., str], tmp_path: Path) -> Clinic:
    """A database without anything, and its instance folder."""
    (tmp_path / "new").mkdir()
    return Clinic(tmp_path / "new", new_database())


def contents(url: str, schema: str = "fhirapp") -> dict[str, list[str]]:
    """Return every row of every table of a schema."""
    with connected(url) as connection:
        return {
            name: sorted(
                map(repr, connection.execute(text(f'SELECT * FROM "{schema}"."{name}"')).all())
            )
            for name in inspect(connection).get_table_names(schema)
        }


def lasting(url: str, schema: str = "fhirapp") -> dict[str, list[str]]:
    """Return what a restore brings back as it was."""
    found = contents(url, schema)
    assert found.keys() >= ENDED
    # The audit trail goes on.
    return {
        name: rows
        for name, rows in found.items()
        if name not in ENDED and not name.startswith("audit_")
    }


def schemas(clinic: Clinic) -> set[str]:
    found = clinic.sql("SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'")
    return {name for (name,) in found} - {"information_schema"}


def test_backup_restores_everything_into_an_empty_database(example, backup, new):
    done = new.restore(backup)
    assert done.kept == []
    assert done.manifest.files[0].name == DUMP
    assert done.versions > 200
    assert lasting(new.url) == lasting(example.url)
    ended = "SELECT count(*) FROM oauth_access_token WHERE NOT revoked"
    assert (new.sql(ended), example.sql(ended)) == ([(0,)], [(1,)])
    assert schemas(new) == {"fhirapp", "public"}
    answers = []
    for instance in (new, example):
        with app_in(instance.folder, base_url=BASE_URL, **instance.overrides) as app:
            fhir = Fhir(app, token_for(app, "system/*.rs"))
            answers.append(
                [
                    [entry.get("resource") for entry in fhir.get(question).get_json()["entry"]]
                    for question in QUESTIONS
                ]
            )
    assert answers[0] == answers[1]


def test_records_are_replaced_by_force_alone_and_kept_in_a_schema(example, clinic, backup):
    before = contents(clinic.url)
    with pytest.raises(ConfigurationError, match="already holds records or accounts; --force"):
        restore(clinic.settings, backup, NOW, None, force=False)
    assert contents(clinic.url) == before
    done = clinic.restore(backup)
    assert done.kept == [f"the schema {KEPT}, until DROP SCHEMA {KEPT} CASCADE removes it"]
    assert lasting(clinic.url) == lasting(example.url)
    assert before.items() >= contents(clinic.url, KEPT).items()
    clinic.restore(backup)
    assert schemas(clinic) == {"fhirapp", "public", KEPT, f"{KEPT}_2"}
    assert fhirapp_checks(clinic)


def read_records(clinic: Clinic) -> int:
    """Read a record; return how many lines the audit trail has then."""
    with app_in(clinic.folder, base_url=BASE_URL, **clinic.overrides) as app:
        assert Fhir(app, token_for(app, "system/*.rs")).get("Patient/p1").status_code == 200
        with app.app_context():
            seal_all(app)
    return int(clinic.sql("SELECT count(*) FROM audit_entry")[0][0])


def verified(clinic: Clinic) -> str:
    done = clinic.run("audit", "verify")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_audit_trail_is_restored_and_loses_no_later_line(clinic, new):
    before = read_records(clinic)
    backup = clinic.take()
    lines = read_records(clinic)
    assert lines > before
    assert clinic.restore(backup).trail is None
    # Entries from after the backup stay.
    assert clinic.sql("SELECT count(*) FROM audit_entry") == [(lines,)]
    verified(clinic)
    new.restore(backup)
    assert new.sql("SELECT count(*) FROM audit_entry") == [(before,)]
    verified(new)
    read_records(new)
    verified(new)
    # The trail of another server is put beside.
    own = new.sql("SELECT count(*) FROM audit_entry")
    done = new.restore(clinic.take("other.backup"))
    aside = "fhirapp_audit_from_backup_20260105t101500z"
    assert done.trail == f"the schema {aside}, until DROP SCHEMA {aside} CASCADE removes it"
    assert new.sql("SELECT count(*) FROM audit_entry") == own
    assert new.sql(f"SELECT count(*) FROM {aside}.audit_entry") == [(lines,)]
    verified(new)


def fhirapp_checks(clinic: Clinic) -> bool:
    done = clinic.run("db", "check")
    assert done.returncode == 0, done.stdout
    return True


def test_encrypted_backup_opens_with_its_passphrase_alone(example, new, tmp_path):
    backup = example.take("sealed.backup", "correct horse")
    assert b"database.dump" not in backup.read_bytes()
    with pytest.raises(ConfigurationError, match="is encrypted"):
        new.restore(backup)
    with pytest.raises(ConfigurationError, match="does not open"):
        new.restore(backup, "wrong")
    assert schemas(new) == {"public"}
    assert new.restore(backup, "correct horse").versions > 200
    assert verify_backup(example.settings, backup, "correct horse").faults == []


def test_backup_of_another_secret_is_refused(clinic, backup):
    other = settings_in(clinic.folder, database_url=clinic.url, secret="another" * 6)
    before = contents(clinic.url)
    with pytest.raises(ConfigurationError, match="was taken with another FHIRAPP_SECRET"):
        restore(other, backup, NOW, None, force=True)
    with pytest.raises(ConfigurationError, match="was taken with another FHIRAPP_SECRET"):
        verify_backup(other, backup, None)
    assert contents(clinic.url) == before


def test_backup_of_the_other_kind_of_database_is_refused(clinic, backup, tmp_path):
    folder = tmp_path / "sqlite"
    with app_in(folder):
        pass
    other = back_up(settings_in(folder), tmp_path / "sqlite.backup", NOW, None).path
    with pytest.raises(ConfigurationError, match=r"of SQLite, .* is PostgreSQL: .*fhirapp export"):
        clinic.restore(other)
    with pytest.raises(ConfigurationError, match=r"of PostgreSQL, .* is SQLite: .*fhirapp import"):
        restore(settings_in(folder), backup, NOW, None, force=True)


def test_database_of_a_schema_before_the_initial_one_is_not_backed_up(clinic):
    clinic.sql("UPDATE alembic_version SET version_num = '0010'")
    with pytest.raises(ConfigurationError, match=r"\(schema 0010, .*; start fhirapp 0\.1\.0 on it"):
        clinic.take()
    assert not (clinic.folder / "clinic.backup").exists()


def test_empty_database_and_a_schema_of_another_program_are_refused(new, backup):
    with pytest.raises(ConfigurationError, match="is empty: nothing to back up"):
        new.take()
    new.sql("CREATE TABLE public.song (title text)")
    new = new._replace(url=in_schema(new.url, "public"))
    with pytest.raises(ConfigurationError, match="holds other tables and none of fhirapp's"):
        new.take()
    with pytest.raises(ConfigurationError, match="holds other tables and none of fhirapp's"):
        new.restore(backup)
    assert list(new.folder.iterdir()) == []


@pytest.mark.parametrize("namespace", ["public", "clinic"])
def test_backup_of_another_schema_is_restored_and_tables_of_other_programs_stay(
    example, new, new_database, tmp_path, namespace
):
    (tmp_path / "earlier").mkdir()
    url = new_database()
    earlier = Clinic(tmp_path / "earlier", in_schema(url, namespace))
    earlier.sql(f"CREATE SCHEMA IF NOT EXISTS {namespace}")
    with app_in(earlier.folder, **earlier.overrides) as app:
        load_lines(app, tmp_path, PATIENT)
    backup = earlier.take()
    assert "patient" in contents(url, namespace)
    # A database whose tables were moved, and tables of another program.
    new.sql("CREATE TABLE public.alembic_version AS SELECT 'moved to fhirapp' AS version_num")
    new.sql("CREATE TABLE public.song AS SELECT 'kept' AS title")
    others = contents(new.url, "public")
    with app_in(new.folder, **new.overrides):
        pass
    done = new.restore(backup)
    assert done.kept == [f"the schema {KEPT}, until DROP SCHEMA {KEPT} CASCADE removes it"]
    assert lasting(new.url) == lasting(url, namespace)
    assert contents(new.url, "public") == others
    assert schemas(new) == {"fhirapp", "public", KEPT}
    # So is one into a schema that the address names.
    assert earlier.restore(example.folder / "clinic.backup").kept
    assert lasting(url, namespace) == lasting(example.url)


def test_restore_does_not_replace_tables_of_another_program(clinic, backup):
    clinic.sql("CREATE TABLE fhirapp.song (title text)")
    before = contents(clinic.url)
    with pytest.raises(ConfigurationError, match=r"holds tables that are not fhirapp's \(song\)"):
        clinic.restore(backup)
    assert contents(clinic.url) == before
    assert schemas(clinic) == {"fhirapp", "public"}


def in_schema(url: str, schema: str) -> str:
    """Return a database's address that names a search_path."""
    options = {"options": f"-csearch_path={schema}"}
    return make_url(url).update_query_dict(options).render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("versions", "words"),
    [([], "none is here"), (["9.6.24", "12.22 (Debian 12.22-1)"], "only that of 12 is here")],
)
def test_missing_or_older_pg_dump_is_one_sentence(example, tmp_path, monkeypatch, versions, words):
    places = [fake_client(tmp_path / str(place), version) for place, version in enumerate(versions)]
    monkeypatch.setattr(client, "DEBIAN", tmp_path / "none")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, places)))
    (server,) = example.sql("SHOW server_version_num")
    package = f"install Debian's postgresql-client-{int(server[0]) // 10_000}."
    with pytest.raises(ConfigurationError, match=f"{words}: {package}"):
        example.take("none.backup")
    assert package in why_no_backup(example.settings)
    assert not (example.folder / "none.backup").exists()
    app = create_app(example.settings)
    with app.app_context():
        found = examine(Cost.REMOTE).findings["Backups"]
        db.engine.dispose()
    assert package in found[0].in_english()[1]


def test_owner_of_one_database_backs_up_and_restores(example, new_database, tmp_path):
    name = f"owner_of_{make_url(example.url).database}"
    own = Clinic(tmp_path / "own", new_database())
    own.folder.mkdir()
    own.sql(f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB")
    try:
        own.sql(f"ALTER DATABASE {make_url(own.url).database} OWNER TO {name}")
        url = make_url(own.url).set(username=name).render_as_string(hide_password=False)
        clinic = own._replace(url=url)
        # It was taken by another user, who owned the tables.
        clinic.restore(example.folder / "clinic.backup")
        backup = clinic.take()
        assert clinic.restore(backup).kept
        assert lasting(clinic.url) == lasting(example.url)
        verification = verify_backup(clinic.settings, backup, None)
        assert (verification.versions, verification.faults) == (None, [])
        tried = clinic.run("backup", "--verify", str(backup))
        assert "It was not loaded, since the database's user may make no other" in tried.stdout
    finally:
        own.sql(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
        own.sql(f"DROP OWNED BY {name}")
        own.sql(f"DROP ROLE {name}")


def test_verification_reads_every_version_in_a_database_of_its_own(clinic):
    before = contents(clinic.url)
    backup = clinic.take()
    verification = verify_backup(clinic.settings, backup, None)
    assert verification.faults == []
    assert verification.versions is not None
    assert verification.versions > 200
    assert contents(clinic.url) == before
    clinic.sql(
        "UPDATE patient SET body = replace(encode(body, 'escape'), 'active', 'aktive')::bytea"
    )
    found = verify_backup(clinic.settings, clinic.take(), None).faults
    assert any("has a body that differs from its columns" in fault for fault in found)
    left = "SELECT datname FROM pg_database WHERE datname LIKE 'fhirapp_drill_%'"
    number = clinic.sql("SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
    assert f"fhirapp_drill_{number}" not in {row[0] for row in clinic.sql(left)}


def test_restore_is_refused_while_a_server_runs(clinic, backup):
    with servers(clinic.folder) as run:
        server = run(PROCESSES="2", DATABASE_URL=clinic.url, SECRET=SHARED_SECRET)
        done = clinic.run("restore", str(backup), "--force")
        assert_not_done(done, "A server runs on the database", "stop that first.")
        # A backup is taken all the while.
        assert clinic.run("backup", str(clinic.folder / "x.backup")).returncode == 0
        server.end()
        done = clinic.run("restore", str(backup), "--force")
        assert done.returncode == 0, done.stderr
        assert f"What was there before is kept in the schema {KEPT[:15]}" in done.stderr


def test_no_server_starts_or_connects_during_a_restore(clinic):
    app = create_app(clinic.settings)
    with exclusive_use(clinic.settings):
        refused = clinic.run("client", "list")
        assert_not_done(refused, "is being restored; start again when that has ended.")
        # Neither does one whose connections were lost, which opens new ones.
        with app.app_context(), pytest.raises(Exception, match="the database is being restored"):
            db.engine.connect()
    with app.app_context(), db.engine.connect(), pytest.raises(ConfigurationError):
        exclusive_use(clinic.settings).__enter__()
    with app.app_context():
        db.engine.dispose()
    with (
        in_use(clinic.settings),
        in_use(clinic.settings),
        pytest.raises(ConfigurationError, match="A server runs on the database"),
        exclusive_use(clinic.settings),
    ):
        raise AssertionError


def test_restore_is_refused_while_a_program_reads_a_table(clinic, backup, monkeypatch):
    monkeypatch.setattr("fhirapp.features.backups.schemas._LOCK_MS", 50)
    before = contents(clinic.url)
    with psycopg.connect(clinic.url) as other:
        other.execute("SELECT count(*) FROM fhirapp.patient")
        with pytest.raises(ConfigurationError, match="is in use by another program; stop that"):
            clinic.restore(backup)
    assert contents(clinic.url) == before
    assert schemas(clinic) == {"fhirapp", "public"}


# Restores, and kills itself before the step whose number is given; prints how many there are.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from sqlalchemy import Connection
from fhirapp.features.backups import client
from fhirapp.features.backups.restore import restore
from tests.support.backups import NOW, settings_in

folder, url, secret, backup, left = sys.argv[1:]
left = given = int(left)

def counted(really):
    def step(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return really(*arguments, **options)
    return step

def copyfileobj(source, target, size):
    while piece := source.read(50_000):
        counted(target.write)(piece)

Connection.exec_driver_sql = counted(Connection.exec_driver_sql)
client.shutil.copyfileobj = copyfileobj
client.subprocess.Popen.wait = counted(client.subprocess.Popen.wait)
settings = settings_in(Path(folder), database_url=url, secret=secret)
restore(settings, Path(backup), NOW, None, force=True)
print(given - left)
"""


def restore_until(clinic: Clinic, backup: Path, step: int) -> subprocess.CompletedProcess[str]:
    words = [str(clinic.folder), clinic.url, SHARED_SECRET, str(backup), str(step)]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_restore_killed_at_any_step_leaves_the_old_or_the_new_whole(
    example, clinic, backup, new_database, tmp_path
):
    trial = clinic._replace(url=new_database(clinic.url))
    # The second time there are tables, as in what is restored below: that takes fewer steps.
    for _ in range(2):
        done = restore_until(trial, backup, 100_000)
        assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    old, restored = lasting(clinic.url), lasting(example.url)
    assert old != restored
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    for step in (*range(0, steps, max(1, steps // 4)), steps - 6):
        killed = restore_until(clinic, backup, step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        # What it had begun ends with it.
        while clinic.sql(others) != [(1,)]:
            pass
        assert lasting(clinic.url) == old
        assert schemas(clinic) <= {"fhirapp", "fhirapp_restoring", "public"}
    with app_in(clinic.folder, **clinic.overrides):
        pass
    assert "fhirapp_restoring" not in schemas(clinic)
    clinic.restore(backup)
    assert lasting(clinic.url) == restored
    assert fhirapp_checks(clinic)


def test_terminated_backup_leaves_neither_a_file_nor_a_program(clinic, tmp_path):
    (tmp_path / "out").mkdir()
    # It waits for whoever changes a table.
    with psycopg.connect(clinic.url) as other:
        other.execute("LOCK TABLE fhirapp.patient")
        command = [sys.executable, "-m", "fhirapp", "backup", str(tmp_path / "out")]
        environ = environment(clinic.folder, DATABASE_URL=clinic.url, SECRET=SHARED_SECRET)
        with subprocess.Popen(command, env=environ) as process:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            waiting = (
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'pg_dump' AND wait_event_type = 'Lock'"
            )
            try:
                while not clinic.sql(waiting):
                    assert process.poll() is None
                (child,) = map(int, children.read_text().split())
                told = Path(f"/proc/{child}/cmdline").read_text()
                process.terminate()
                assert process.wait(60) == 128 + signal.SIGTERM
            finally:
                process.kill()
        assert str(make_url(clinic.url).database) not in told
        assert not Path(f"/proc/{child}").exists()
    assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in clinic.folder.iterdir() if path.name.startswith(".")] == []
