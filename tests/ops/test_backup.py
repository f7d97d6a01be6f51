"""Taking a backup: one file, whole or not there, of one instant, while others read and write."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from fhirapp.config import ConfigurationError, settings
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.ops.backups.archive import BEGIN, DATABASE, KEYS
from fhirapp.ops.backups.backup import back_up
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.write import Rendering
from tests.support.backups import (
    NOW,
    app_in,
    contents,
    copy_of,
    damage,
    inside,
    make_clinic,
    settings_in,
    taken,
)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance that tests of this module may read."""
    return make_clinic(tmp_path_factory.mktemp("clinic") / "instance")


@pytest.fixture
def clinic(example: Path, tmp_path: Path) -> Path:
    """An instance of the test's own."""
    return copy_of(example, tmp_path / "instance")


def test_a_backup_is_one_file_with_the_database_and_the_keys(clinic, tmp_path):
    before = {path.name for path in clinic.iterdir()}
    (tmp_path / "out").mkdir()
    backup = taken(clinic, tmp_path / "out" / "clinic.backup")
    assert [*backup.parent.iterdir()] == [backup]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    manifest = inside(backup, tmp_path / "copy")
    assert manifest.taken == "2026-01-05T10:15:00.000+00:00"
    assert [member.name for member in manifest.files] == [DATABASE, *KEYS]
    for name in KEYS:
        assert (tmp_path / "copy" / name).read_bytes() == (clinic / name).read_bytes()
    assert contents(tmp_path / "copy" / DATABASE) == contents(clinic / "fhirapp.db")
    # Nothing is left of how it was made, but SQLite's own files while the database is open.
    assert {path.name for path in clinic.iterdir()} <= before


def test_a_backup_opens_with_tar_where_there_is_no_fhirapp(clinic, tmp_path):
    backup = taken(clinic, tmp_path / "clinic.backup")
    subprocess.run(["tar", "xzf", backup, "-C", tmp_path], check=True)
    assert contents(tmp_path / DATABASE) == contents(clinic / "fhirapp.db")


def test_an_instance_holds_no_other_keys_than_a_backup_does(clinic):
    # The audit trail is kept apart: a restore does not take back who looked at what.
    known = {"fhirapp.db", "fhirapp.db.lock", "generation", "audit", *KEYS}
    assert {path.name for path in clinic.iterdir()} - known == set()


def test_an_encrypted_backup_holds_the_same_and_shows_nothing(clinic, tmp_path):
    backup = taken(clinic, tmp_path / "clinic.backup", "correct horse")
    sealed = backup.read_bytes()
    assert sealed.startswith(BEGIN)
    assert b"manifest.json" not in sealed
    inside(backup, tmp_path / "copy", "correct horse")
    assert contents(tmp_path / "copy" / DATABASE) == contents(clinic / "fhirapp.db")


def test_a_backup_of_the_demo_holds_no_keys(tmp_path):
    with app_in(tmp_path, demo=True):
        pass
    done = back_up(settings_in(tmp_path, demo=True), tmp_path / "demo.backup", NOW, None)
    assert [member.name for member in done.manifest.files] == [DATABASE]


def patient(number: int) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": f"w{number}"}


def allergy(number: int) -> dict[str, Any]:
    return {
        "resourceType": "AllergyIntolerance",
        "id": f"w{number}",
        "patient": {"reference": f"Patient/w{number}"},
    }


def publish(numbers: Sequence[int]) -> None:
    """Publish patients, then an allergy of each, in one transaction."""
    definitions = types()
    with writing() as connection:
        publisher = Publisher(
            connection,
            now="2026-01-02T00:00:00.000+00:00",
            rendering=Rendering.of(settings()),
            binary=definitions["Binary"],
        )
        for resources in (map(patient, numbers), map(allergy, numbers)):
            publisher.publish([prepare(definitions[one["resourceType"]], one) for one in resources])


def test_a_backup_while_others_write_is_of_one_instant(clinic, tmp_path):
    begun, enough = Event(), Event()

    def write() -> None:
        with app_in(clinic) as app, app.app_context():
            for start in count(step=20):
                publish(range(start, start + 20))
                begun.set()
                if enough.is_set():
                    return

    writer = Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        backups = [taken(clinic, tmp_path / f"{number}.backup") for number in range(3)]
    finally:
        enough.set()
        writer.join()
    for backup in backups:
        folder = tmp_path / f"copy-{backup.stem}"
        inside(backup, folder)
        with closing(sqlite3.connect(folder / DATABASE)) as copy:
            patients, allergies = (
                copy.execute(f"SELECT count(*) FROM {table} WHERE id GLOB 'w[0-9]*'").fetchone()[0]
                for table in ("patient", "allergy_intolerance")
            )
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert patients == allergies
        assert patients >= 20
        assert patients % 20 == 0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("instance/fhirapp.db", "is the server's own file"),
        ("instance/secret.key", "is the server's own file"),
        ("notes.txt", "exists and is not a backup"),
        ("missing/clinic.backup", "There is no folder"),
        ("fifo", "exists and is not a backup"),
    ],
)
def test_a_place_that_a_backup_cannot_take_is_refused_and_left_alone(
    clinic, tmp_path, target, words
):
    (tmp_path / "notes.txt").write_text("of mine")
    os.mkfifo(tmp_path / "fifo")
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    with pytest.raises(ConfigurationError, match=words):
        taken(clinic, tmp_path / target)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


def remove_key(clinic: Path) -> None:
    (clinic / KEYS[0]).unlink()


def make_foreign(clinic: Path) -> None:
    (clinic / "fhirapp.db").unlink()
    with closing(sqlite3.connect(clinic / "fhirapp.db")) as connection:
        connection.execute("CREATE TABLE song (title)")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda clinic: (clinic / "fhirapp.db").unlink(), "There is no database"),
        (lambda clinic: (clinic / "fhirapp.db").write_bytes(b""), "There is no database"),
        (lambda clinic: (clinic / "fhirapp.db").write_bytes(b"x" * 9999), "cannot be copied"),
        (remove_key, "secret.key is not there"),
        (damage, "is damaged, no backup was taken"),
        (make_foreign, "is not a fhirapp database"),
    ],
    ids=["none", "empty", "no-database", "no-key", "damaged", "foreign"],
)
def test_what_would_not_be_enough_to_come_back_is_refused(clinic, tmp_path, spoil, words):
    spoil(clinic)
    with pytest.raises(ConfigurationError, match=words):
        taken(clinic, tmp_path / "clinic.backup")
    assert not (tmp_path / "clinic.backup").exists()
