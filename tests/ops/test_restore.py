"""Restoring a backup: checked wholly first, then in its place with what was there kept beside."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fhirapp.auth.models import User
from fhirapp.auth.oauth import openid
from fhirapp.config import ConfigurationError
from fhirapp.db import db
from fhirapp.keys import opened
from fhirapp.ops.backups.archive import DATABASE, KEYS, Manifest, Member, pack
from fhirapp.ops.backups.drill import drill
from fhirapp.ops.backups.restore import Restored, restore
from fhirapp.ops.prepare import first_setup_code
from fhirapp.store.migrate import HEAD
from tests.support.backups import (
    NOW,
    SECRET,
    app_in,
    contents,
    copy_of,
    damage,
    make_clinic,
    settings_in,
    taken,
)
from tests.support.importing import ALLERGY, PATIENT, asking, load_lines
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp

KEPT = "before-20260105T101500Z"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance, beside it a backup of it."""
    folder = tmp_path_factory.mktemp("clinic")
    taken(make_clinic(folder / "instance"), folder / "clinic.backup")
    return folder


@pytest.fixture
def clinic(example: Path, tmp_path: Path) -> Path:
    """An instance of the test's own."""
    return copy_of(example / "instance", tmp_path / "instance")


@pytest.fixture
def backup(example: Path) -> Path:
    """A backup of that instance."""
    return example / "clinic.backup"


def restored(backup: Path, folder: Path, *, force: bool = False) -> Restored:
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


def test_a_backup_brings_an_instance_back_on_another_machine(example, backup, tmp_path):
    folder = tmp_path / "new"
    done = restored(backup, folder)
    assert done.kept == []
    assert done.manifest.schema == HEAD
    assert clinical(folder / "fhirapp.db") == clinical(example / "instance" / "fhirapp.db")
    assert {path.name for path in folder.iterdir()} == {
        "fhirapp.db",
        "fhirapp.db.lock",
        "generation",
        *KEYS,
    }
    with app_in(folder) as app, app_in(example / "instance") as before:
        question = "AllergyIntolerance?status=active"
        assert asking(app).ids(question) == asking(before).ids(question)
        with app.app_context():
            keys = openid.public_keys()
            (sealed,) = db.session.scalars(db.select(User.totp_secret)).all()
            assert opened(sealed) == SECRET
        with before.app_context():
            assert openid.public_keys() == keys


def test_the_empty_database_of_a_first_start_is_replaced(backup, tmp_path):
    folder = tmp_path / "new"
    with app_in(folder) as app:
        first_setup_code(app)
    key = (folder / KEYS[0]).read_bytes()
    done = restored(backup, folder)
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}", f"{KEYS[0]}.{KEPT}"]
    assert (folder / f"{KEYS[0]}.{KEPT}").read_bytes() == key


def test_a_database_that_holds_something_is_replaced_only_by_force_and_kept(
    clinic, backup, tmp_path
):
    with app_in(clinic) as app:
        load_lines(app, tmp_path, PATIENT, ALLERGY)
    now, before = clinical(clinic / "fhirapp.db"), state(clinic)
    with pytest.raises(ConfigurationError, match="already holds records or accounts; --force"):
        restored(backup, clinic)
    assert state(clinic) == before
    generation = (clinic / "generation").read_bytes()
    done = restored(backup, clinic, force=True)
    # The keys are the same: they stay.
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}"]
    assert clinical(done.kept[0]) == now
    assert clinical(clinic / "fhirapp.db") != now
    assert (clinic / "generation").read_bytes() != generation
    with app_in(clinic) as app:
        assert asking(app).get("Patient/one").status_code == 404
    again = restored(backup, clinic, force=True)
    assert [path.name for path in again.kept] == [f"fhirapp.db.{KEPT}-2"]
    assert clinical(done.kept[0]) == now


def test_other_keys_are_kept_beside(clinic, backup):
    (clinic / KEYS[0]).write_bytes(b"k" * 32)
    (clinic / KEYS[1]).unlink()
    done = restored(backup, clinic, force=True)
    assert [path.name for path in done.kept] == [f"fhirapp.db.{KEPT}", f"{KEYS[0]}.{KEPT}"]
    assert done.kept[1].read_bytes() == b"k" * 32
    assert (clinic / KEYS[0]).stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_is_replaced_and_kept_with_its_log(clinic, backup):
    damage(clinic)
    (clinic / "fhirapp.db").write_bytes(b"\xff" * 100_000)
    (clinic / "fhirapp.db-wal").write_bytes(b"log")
    restored(backup, clinic, force=True)
    assert (clinic / f"fhirapp.db.{KEPT}").read_bytes() == b"\xff" * 100_000
    assert not (clinic / "fhirapp.db-wal").exists()
    with app_in(clinic) as app:
        assert asking(app).get("Patient/p1").status_code == 200


def test_without_hard_links_what_was_there_is_copied(clinic, backup, monkeypatch):
    def link(_source: object, _target: object) -> None:
        raise PermissionError("this file system has none")

    before = clinical(clinic / "fhirapp.db")
    monkeypatch.setattr(os, "link", link)
    done = restored(backup, clinic, force=True)
    assert clinical(done.kept[0]) == before


def test_a_restored_demo_leaves_the_clinics_keys(backup, tmp_path):
    with app_in(tmp_path, demo=True):
        pass
    demo = tmp_path / "demo"
    key = (demo / KEYS[0]).read_bytes()
    restore(settings_in(tmp_path, demo=True), backup, NOW, None, force=True)
    assert (demo / KEYS[0]).read_bytes() == key
    assert not any((folder / KEYS[1]).exists() for folder in (tmp_path, demo))
    assert not (tmp_path / KEYS[0]).exists()


def repacked(folder: Path, statements: str) -> Path:
    """Return a backup whose checksums are right, and whose database was changed."""
    copy = folder / DATABASE
    with closing(sqlite3.connect(copy)) as connection:
        connection.executescript(statements)
    path = folder / "made.backup"
    stated = Manifest.new("2026-01-01T00:00:00.000+00:00", HEAD, [Member.of(DATABASE, copy)])
    with path.open("wb") as out:
        pack(out, stated, {DATABASE: copy})
    return path


def own_file(clinic: Path) -> Path:
    return clinic / "fhirapp.db"


def other_program(clinic: Path) -> Path:
    folder = clinic.parent
    return repacked(folder, "CREATE TABLE song (title); INSERT INTO song VALUES ('x')")


def newer(clinic: Path) -> Path:
    shutil.copyfile(clinic / "fhirapp.db", clinic.parent / DATABASE)
    return repacked(clinic.parent, "UPDATE alembic_version SET version_num = '9999'")


def inconsistent(clinic: Path) -> Path:
    shutil.copyfile(clinic / "fhirapp.db", clinic.parent / DATABASE)
    return repacked(clinic.parent, "UPDATE patient SET body = NULL WHERE id = 'p1'")


def plain_sqlite(clinic: Path) -> Path:
    return Path(shutil.copyfile(clinic / "fhirapp.db", clinic.parent / "copy.db"))


def cut_off(clinic: Path) -> Path:
    path = taken(clinic, clinic.parent / "cut.backup")
    path.write_bytes(path.read_bytes()[:-100])
    return path


def folder(clinic: Path) -> Path:
    return clinic.parent


def missing(clinic: Path) -> Path:
    return clinic.parent / "none.backup"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (own_file, "is the database itself, and no backup"),
        (other_program, r"nothing was changed \(it is not a fhirapp database\)"),
        (newer, r"was made by a newer fhirapp \(schema 9999"),
        (inconsistent, r"nothing was changed \(Patient/p1, version \d has no body\)"),
        (plain_sqlite, "is not a backup, or it is damaged"),
        (cut_off, "is not a backup, or it is damaged"),
        (folder, "There is no file"),
        (missing, "There is no file"),
    ],
)
def test_what_is_no_whole_backup_of_ours_is_refused_and_nothing_is_touched(clinic, make, words):
    path = make(clinic)
    before = state(clinic)
    with pytest.raises(ConfigurationError, match=words):
        restored(path, clinic, force=True)
    assert state(clinic) == before


def test_a_file_that_may_not_be_read_is_one_sentence(clinic, backup, tmp_path, monkeypatch):
    def refuse(path: Path, *_arguments: object, **_options: object) -> io.BytesIO:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"cannot be read \(Permission denied\)"):
        restored(backup, clinic, force=True)


def test_an_encrypted_backup_needs_its_passphrase(clinic, example, tmp_path):
    sealed = taken(example / "instance", tmp_path / "sealed.backup", "correct horse")
    before = state(clinic)
    assert_not_done(fhirapp(clinic, "restore", str(sealed), "--force"), "No passphrase is set")
    secret = tmp_path / "secret"
    secret.write_text("wrong")
    options = ("restore", str(sealed), "--force", "--passphrase-file", str(secret))
    assert_not_done(fhirapp(clinic, *options), "The passphrase does not open")
    assert state(clinic) == before
    secret.write_text("correct horse")
    done = fhirapp(clinic, *options)
    assert done.returncode == 0, done.stderr
    assert "Restored as of 2026-01-05T10:15:00.000+00:00: " in done.stderr
    assert f"What was there before is kept in {clinic / 'fhirapp.db'}.before-" in done.stderr


def test_a_backup_taken_during_an_import_restores_and_passes_the_drill(tmp_path, synthea_folder):
    folder = tmp_path / "instance"
    with app_in(folder) as app:
        load_lines(app, tmp_path, PATIENT)
    command = [sys.executable, "-c", MAIN, "import", str(synthea_folder)]
    with subprocess.Popen(command, env=environment(folder), stdout=subprocess.DEVNULL) as process:
        backups = []
        while process.poll() is None:
            backups.append(taken(folder, tmp_path / f"{len(backups)}.backup"))
    assert process.returncode == 0
    versions = []
    for path in (backups[0], backups[len(backups) // 2], backups[-1]):
        drilled = drill(settings_in(folder), path, None)
        assert drilled.faults == []
        versions.append(drilled.versions)
    assert versions == sorted(versions)
    assert versions[0] >= 1
    done = restored(backups[-1], folder, force=True)
    assert done.versions == versions[-1]
    checked = fhirapp(folder, "db", "check")
    assert checked.returncode == 0, checked.stdout
