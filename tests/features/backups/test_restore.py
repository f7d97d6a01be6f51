"""Restoring a backup: verified first, then in place; the old is kept and sessions end."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fhirapp.audit.entries import entries
from fhirapp.audit.events import record
from fhirapp.audit.seals import Seal, public_key, seal_all
from fhirapp.audit.verify import verify
from fhirapp.auth.models import CLINICIAN, User
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import new_setup_code, setup_code
from fhirapp.config import ConfigurationError
from fhirapp.db import db, writing
from fhirapp.features.backups.archive import DATABASE, KEYS, BackupFile, BackupManifest, pack
from fhirapp.features.backups.file_swap import (
    Move,
    finish_swap,
    journal_of,
    staged_for,
    swap_files,
)
from fhirapp.features.backups.restore import NOTICE, RestoreResult, restore
from fhirapp.keys import opened
from fhirapp.server.lock import exclusive_use, in_use
from fhirapp.server.prepare import first_setup_code
from fhirapp.store.migrate import HEAD
from tests.support.authorizing import Flow, SendBack, add_person, add_program, set_user
from tests.support.backups import NOW, SECRET, app_in, contents, damage, settings_in, taken
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.importing import ALLERGY, PATIENT, asking, load_lines
from tests.support.shell import assert_not_done, run_command

KEPT = "before-20260105T101500Z"


def restored(backup: Path, folder: Path, *, force: bool = False) -> RestoreResult:
    return restore(settings_in(folder), backup, NOW, None, force=force)


def clinical(database: Path) -> dict[str, list[str]]:
    """Return every row but those of what the store remembers of itself."""
    return {name: rows for name, rows in contents(database).items() if name != "store_state"}


def state(folder: Path) -> dict[str, bytes]:
    """Return every file of an instance, save SQLite's own while it is open and locks."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def test_backup_is_restored_on_another_machine(example, backup, tmp_path):
    folder = tmp_path / "new"
    done = restored(backup, folder)
    assert done.kept == []
    assert done.manifest.schema == HEAD
    assert clinical(folder / "fhirapp.db") == clinical(example / "instance" / "fhirapp.db")
    assert contents(folder / "audit.db") == contents(example / "instance" / "audit.db")
    assert {path.name for path in folder.iterdir()} == {
        "audit.db",
        "fhirapp.db",
        "fhirapp.db.lock",
        "generation",
        *KEYS,
    }
    with app_in(folder) as app, app_in(example / "instance") as before:
        question = "AllergyIntolerance?status=active"
        assert asking(app).ids(question) == asking(before).ids(question)
        with app.app_context():
            keys = signing_keys.public_keys()
            (sealed,) = db.session.scalars(db.select(User.totp_secret)).all()
            assert opened(sealed) == SECRET
        with before.app_context():
            assert signing_keys.public_keys() == keys


def sealed(folder: Path, what: str) -> Seal:
    """Record an event in an instance, and return the newest seal."""
    with app_in(folder) as app, app.app_context():
        record("sign-in", what=what)
        return seal_all(app)


def trail_of(folder: Path, *heads: Seal, key: Path | None = None) -> tuple[list[str], list[str]]:
    """Return the faults of an instance's trail, and what its sign-ins say."""
    with app_in(folder) as app, app.app_context():
        keys = {public_key((key or folder / KEYS[0]).read_bytes())}
        said = [entry.body for entry in entries(kind=None, event="sign-in")]
        return verify(app, keys, heads).faults, said


def test_restore_keeps_every_later_entry_of_the_audit_trail(clinic_folder, tmp_path):
    before = sealed(clinic_folder, "before")
    backup = taken(clinic_folder, tmp_path / "clinic.backup")
    after = sealed(clinic_folder, "after")
    assert restored(backup, clinic_folder, force=True).trail is None
    assert trail_of(clinic_folder, before, after) == ([], ["after", "before"])
    assert [*clinic_folder.glob("audit.*.db")] == []


def test_restore_brings_the_audit_trail_where_there_is_none(clinic_folder, tmp_path):
    head = sealed(clinic_folder, "before")
    backup = taken(clinic_folder, tmp_path / "clinic.backup")
    restored(backup, tmp_path / "new")
    assert trail_of(tmp_path / "new", head) == ([], ["before"])


def test_restore_puts_the_audit_trail_of_another_server_beside(clinic_folder, tmp_path):
    head = sealed(clinic_folder, "of another")
    backup = taken(clinic_folder, tmp_path / "clinic.backup")
    here = tmp_path / "here"
    own = sealed(here, "of here")
    key = Path(shutil.copy(here / KEYS[0], tmp_path))
    done = restored(backup, here, force=True)
    assert done.trail == here / "audit.from-backup-20260105T101500Z.db"
    assert trail_of(here, own, key=key) == ([], ["of here"])
    (here / "audit.from-backup-20260105T101500Z.db").replace(here / "audit.db")
    assert trail_of(here, head) == ([], ["of another"])


def test_empty_database_of_a_first_start_is_replaced(backup, tmp_path):
    folder = tmp_path / "new"
    with app_in(folder) as app:
        first_setup_code(app)
    key = (folder / KEYS[0]).read_bytes()
    done = restored(backup, folder)
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}", f"{KEYS[0]}.{KEPT}"]
    assert (folder / f"{KEYS[0]}.{KEPT}").read_bytes() == key


def test_database_with_records_is_replaced_only_by_force_and_kept(clinic_folder, backup, tmp_path):
    with app_in(clinic_folder) as app:
        load_lines(app, tmp_path, PATIENT, ALLERGY)
    now, before = clinical(clinic_folder / "fhirapp.db"), state(clinic_folder)
    with pytest.raises(ConfigurationError, match="already holds records or accounts; --force"):
        restored(backup, clinic_folder)
    assert state(clinic_folder) == before
    generation = (clinic_folder / "generation").read_bytes()
    done = restored(backup, clinic_folder, force=True)
    # The keys are the same: they stay.
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}"]
    assert clinical(done.kept[0]) == now
    assert clinical(clinic_folder / "fhirapp.db") != now
    assert (clinic_folder / "generation").read_bytes() != generation
    with app_in(clinic_folder) as app:
        assert asking(app).get("Patient/one").status_code == 404
    again = restored(backup, clinic_folder, force=True)
    assert [path.name for path in again.kept] == [f"fhirapp.db.{KEPT}-2"]
    assert clinical(done.kept[0]) == now


def test_replaced_keys_are_kept(clinic_folder, backup):
    (clinic_folder / KEYS[0]).write_bytes(b"k" * 32)
    (clinic_folder / KEYS[1]).unlink()
    done = restored(backup, clinic_folder, force=True)
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}", f"{KEYS[0]}.{KEPT}"]
    assert done.kept[1].read_bytes() == b"k" * 32
    assert (clinic_folder / KEYS[0]).stat().st_mode & 0o777 == 0o600


def test_damaged_database_is_replaced_and_kept(clinic_folder, backup):
    damage(clinic_folder)
    (clinic_folder / "fhirapp.db").write_bytes(b"\xff" * 100_000)
    (clinic_folder / "fhirapp.db-wal").write_bytes(b"log")
    restored(backup, clinic_folder, force=True)
    assert (clinic_folder / f"fhirapp.db.{KEPT}").read_bytes() == b"\xff" * 100_000
    assert not (clinic_folder / "fhirapp.db-wal").exists()
    with app_in(clinic_folder) as app:
        assert asking(app).get("Patient/p1").status_code == 200


def test_old_database_is_copied_where_hard_links_are_missing(clinic_folder, backup, monkeypatch):
    def link(_source: object, _target: object) -> None:
        raise PermissionError("this file system has none")

    before = clinical(clinic_folder / "fhirapp.db")
    monkeypatch.setattr(os, "link", link)
    done = restored(backup, clinic_folder, force=True)
    assert clinical(done.kept[0]) == before


def repacked(folder: Path, statements: str) -> Path:
    """Return a backup whose checksums are right, and whose database was changed."""
    copy = folder / DATABASE
    with closing(sqlite3.connect(copy)) as connection:
        connection.executescript(statements)
    path = folder / "made.backup"
    stated = BackupManifest.new(
        "2026-01-01T00:00:00.000+00:00", HEAD, [BackupFile.of(DATABASE, copy)]
    )
    with path.open("wb") as out:
        pack(out, stated, {DATABASE: copy})
    return path


def test_file_that_is_no_whole_backup_is_refused_and_nothing_changes(
    clinic_folder, backup, tmp_path
):
    database, before = clinic_folder / "fhirapp.db", state(clinic_folder)

    def refused(path: Path, words: str) -> None:
        with pytest.raises(ConfigurationError, match=words):
            restored(path, clinic_folder, force=True)
        assert state(clinic_folder) == before

    refused(database, "is the database itself, and no backup")
    refused(Path(shutil.copyfile(database, tmp_path / "copy.db")), "is not a backup, or it is dam")
    refused(tmp_path, "There is no file")
    refused(tmp_path / "none.backup", "There is no file")
    (tmp_path / "cut.backup").write_bytes(backup.read_bytes()[:-100])
    refused(tmp_path / "cut.backup", "is not a backup, or it is damaged")
    song = "CREATE TABLE song (title); INSERT INTO song VALUES ('x')"
    refused(repacked(tmp_path, song), r"nothing was changed \(it is not a fhirapp database\)")
    shutil.copyfile(database, tmp_path / DATABASE)
    bodies = "UPDATE patient SET body = NULL WHERE id = 'p1'"
    refused(repacked(tmp_path, bodies), r"nothing was changed \(Patient/p1, version \d has no body")
    newer = "UPDATE alembic_version SET version_num = '9999'"
    refused(repacked(tmp_path, newer), r"was made by a newer fhirapp \(schema 9999")
    older = "UPDATE alembic_version SET version_num = '0010'"
    refused(repacked(tmp_path, older), r"was made by an older fhirapp \(schema 0010")


def test_unreadable_backup_is_refused_in_one_sentence(clinic_folder, backup, tmp_path, monkeypatch):
    def refuse(path: Path, *_arguments: object, **_options: object) -> io.BytesIO:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"cannot be read \(Permission denied\)"):
        restored(backup, clinic_folder, force=True)


def test_encrypted_backup_needs_its_passphrase(clinic_folder, tmp_path):
    sealed = taken(clinic_folder, tmp_path / "sealed.backup", "correct horse")
    before = state(clinic_folder)
    assert_not_done(
        run_command(clinic_folder, "restore", str(sealed), "--force"), "No passphrase is set"
    )
    secret = tmp_path / "secret"
    secret.write_text("wrong")
    options = ("restore", str(sealed), "--force", "--passphrase-file", str(secret))
    assert_not_done(run_command(clinic_folder, *options), "The passphrase does not open")
    assert state(clinic_folder) == before
    secret.write_text("correct horse")
    done = run_command(clinic_folder, *options)
    assert done.returncode == 0, done.stderr
    assert "Restored as of 2026-01-05T10:15:00.000+00:00: " in done.stderr
    assert f"What was there before is kept in {clinic_folder / 'fhirapp.db'}.before-" in done.stderr


def test_restore_is_refused_while_a_program_has_the_database_open(clinic_folder, backup):
    before = state(clinic_folder)
    with closing(sqlite3.connect(clinic_folder / "fhirapp.db")) as other:
        other.execute("SELECT count(*) FROM patient").fetchone()
        with pytest.raises(ConfigurationError, match="is in use by another program; stop that"):
            restored(backup, clinic_folder, force=True)
    assert state(clinic_folder) == before
    restored(backup, clinic_folder, force=True)


def test_server_does_not_start_during_a_restore(clinic_folder):
    settings = settings_in(clinic_folder)
    with exclusive_use(settings):
        assert_not_done(
            run_command(clinic_folder, "client", "list"), "is being restored; start again"
        )
    refused = pytest.raises(ConfigurationError, match="A server runs on the database")
    with in_use(settings), in_use(settings), refused, exclusive_use(settings):
        raise AssertionError


OFFLINE = "patient/*.rs offline_access"


def test_sessions_tokens_and_codes_of_the_backup_are_revoked_by_a_restore(tmp_path):
    folder = tmp_path / "instance"
    with app_in(folder, base_url=BASE_URL) as app:
        flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
        token = token_for(app, "system/*.rs")
        tokens = flow.tokens(OFFLINE, patient="one")
        code, launch = flow.code(OFFLINE, patient="one"), flow.launch("one")
        handle = flow.park(OFFLINE)
        with app.app_context(), writing() as connection:
            setup = new_setup_code(connection, flow.user_id)
        backup = taken(folder, tmp_path / "x.backup")
        # All of it serves until then.
        assert Fhir(app, token).get("Patient").status_code == 200
        assert Fhir(app, tokens["access_token"]).get("Patient").status_code == 200
        with app.test_request_context():
            assert sessions.find(flow.session) is not None
            assert setup_code(setup) is not None
    restored(backup, folder, force=True)
    with app_in(folder, base_url=BASE_URL) as app:
        flow.app = app
        for earlier_token in (token, tokens["access_token"]):
            assert Fhir(app, earlier_token).get("Patient").status_code == 401
        assert flow.refresh(tokens["refresh_token"]).get_json()["error"] == "invalid_grant"
        assert flow.redeem(code).get_json()["error"] == "invalid_grant"
        with app.test_request_context():
            assert sessions.find(flow.session) is None
            assert setup_code(setup) is None
        # Somebody signs in anew: what an app began before is not gone on with.
        with app.app_context(), writing() as connection:
            flow.session = sessions.begin(connection, flow.user_id, complete=True)
        with pytest.raises(SendBack):
            flow.park(f"launch {OFFLINE}", launch=launch)
        with pytest.raises(AssertionError):
            flow.decide(handle)
        again = flow.tokens(OFFLINE, patient="one")
        assert Fhir(app, again["access_token"]).get("Patient").status_code == 200


def test_restore_command_reports_what_is_as_before(tmp_path):
    folder = tmp_path / "instance"
    with app_in(folder) as app:
        person = add_person(app, CLINICIAN)
        backup = taken(folder, tmp_path / "x.backup")
        set_user(app, person, disabled=True)
    done = run_command(folder, "restore", str(backup), "--force")
    assert done.returncode == 0, done.stderr
    assert NOTICE in done.stderr
    assert "what you have disabled, unlinked or changed since, do again" in NOTICE
    with app_in(folder) as app, app.app_context():
        assert db.session.scalars(db.select(User.disabled)).all() == [False]


@pytest.fixture
def half_done(clinic_folder: Path, tmp_path: Path) -> Path:
    """An instance in which a restore was killed as it began to move files."""
    database = clinic_folder / "fhirapp.db"
    shutil.copyfile(database, staged_for(database))
    kept = database.with_name("fhirapp.db.before")
    moves = [[str(staged_for(database)), str(database), str(kept)]]
    journal_of(database).write_text(json.dumps(moves))
    return clinic_folder


def test_next_start_completes_an_interrupted_restore(half_done):
    done = run_command(half_done, "db", "upgrade")
    assert done.returncode == 0
    assert "An interrupted restore was completed." in done.stderr
    assert (half_done / "fhirapp.db.before").exists()
    assert not journal_of(half_done / "fhirapp.db").exists()
    assert "interrupted" not in run_command(half_done, "db", "upgrade").stderr


def test_interrupted_restore_is_not_completed_under_a_server(half_done):
    database = half_done / "fhirapp.db"
    settings = settings_in(half_done)
    with in_use(settings), pytest.raises(ConfigurationError, match="A server runs"):
        finish_swap(settings)
    assert staged_for(database).exists()


def test_unreadable_journal_of_a_restore_stops_the_start(half_done):
    database = half_done / "fhirapp.db"
    journal_of(database).write_text("[[")
    with pytest.raises(
        ConfigurationError, match="A restore was interrupted and cannot be completed"
    ):
        finish_swap(settings_in(half_done))


def test_repeated_swap_keeps_the_first_old_database(tmp_path):
    database, kept = tmp_path / "x.db", tmp_path / "x.db.before"
    settings = settings_in(tmp_path, database_url=f"sqlite:///{database}")
    database.write_text("old")
    staged_for(database).write_text("new")
    swap_files(database, [Move(staged_for(database), database, kept)])
    assert (database.read_text(), kept.read_text()) == ("new", "old")
    journal_of(database).write_text(
        json.dumps([[str(staged_for(database)), str(database), str(kept)]])
    )
    assert finish_swap(settings)
    assert (database.read_text(), kept.read_text()) == ("new", "old")
    assert not finish_swap(settings)


def test_restored_demo_leaves_the_keys_of_the_clinic(backup, tmp_path):
    with app_in(tmp_path, demo=True):
        pass
    demo = tmp_path / "demo"
    key = (demo / KEYS[0]).read_bytes()
    restore(settings_in(tmp_path, demo=True), backup, NOW, None, force=True)
    assert (demo / KEYS[0]).read_bytes() == key
    assert not any((folder / KEYS[1]).exists() for folder in (tmp_path, demo))
    assert not (tmp_path / KEYS[0]).exists()
