"""Taking a backup: one whole file of one instant, or none; its command; full disks."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import text

from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from fhirapp.disk import temporary_folder, write_atomically
from fhirapp.features.backups.archive import BEGIN, DATABASE, GZIP, KEYS, TRAIL
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.rotation import Naming, prune
from tests.support.backups import NOW, app_in, contents, damage, inside, run_sql, settings_in, taken
from tests.support.shell import assert_not_done, run_command


def test_backup_is_one_private_file_with_database_trail_and_keys(clinic_folder, tmp_path):
    before = {path.name for path in clinic_folder.iterdir()}
    assert (
        before - {"fhirapp.db", "fhirapp.db.lock", "generation", "start.lock", "audit.db", *KEYS}
        == set()
    )
    (tmp_path / "out").mkdir()
    backup = taken(clinic_folder, tmp_path / "out" / "clinic.backup")
    assert [*backup.parent.iterdir()] == [backup]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    manifest = inside(backup, tmp_path / "copy")
    assert manifest.taken == "2026-01-05T10:15:00.000+00:00"
    assert [member.name for member in manifest.files] == [DATABASE, TRAIL, *KEYS]
    for name in KEYS:
        assert (tmp_path / "copy" / name).read_bytes() == (clinic_folder / name).read_bytes()
    assert contents(tmp_path / "copy" / DATABASE) == contents(clinic_folder / "fhirapp.db")
    assert contents(tmp_path / "copy" / TRAIL) == contents(clinic_folder / "audit.db")
    # Nothing is left of how it was made, but SQLite's own files while the database is open.
    assert {path.name for path in clinic_folder.iterdir()} <= before
    # It opens without fhirapp, too.
    with tarfile.open(backup) as archive:
        assert archive.extractfile(KEYS[0]).read() == (clinic_folder / KEYS[0]).read_bytes()


def test_backup_of_the_demo_holds_no_keys(tmp_path):
    with app_in(tmp_path, demo=True):
        pass
    done = back_up(settings_in(tmp_path, demo=True), tmp_path / "demo.backup", NOW, None)
    assert [member.name for member in done.manifest.files] == [DATABASE, TRAIL]


def test_backup_while_others_write_is_of_one_instant(clinic_folder, tmp_path):
    begun, enough = Event(), Event()

    def write() -> None:
        with app_in(clinic_folder) as app:
            for number in count():
                with app.app_context(), writing() as connection:
                    for name in ("first", "second"):
                        connection.execute(
                            text(
                                "INSERT INTO store_state (name, value)"
                                f" VALUES ('{name}-{number}', 'x')"
                            )
                        )
                begun.set()
                if enough.is_set():
                    return

    writer = Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        backups = [taken(clinic_folder, tmp_path / f"{number}.backup") for number in range(2)]
    finally:
        enough.set()
        writer.join()
    for backup in backups:
        folder = tmp_path / f"copy-{backup.stem}"
        inside(backup, folder)
        with closing(sqlite3.connect(folder / DATABASE)) as copy:
            first, second = (
                copy.execute(f"SELECT count(*) FROM store_state WHERE name GLOB '{name}-*'")
                for name in ("first", "second")
            )
            assert first.fetchone() == second.fetchone() >= (1,)
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_unusable_target_of_a_backup_is_refused_and_left_alone(clinic_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("of mine")
    os.mkfifo(tmp_path / "fifo")
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    for target, words in {
        "instance/fhirapp.db": "is the server's own file",
        "instance/secret.key": "is the server's own file",
        "notes.txt": "exists and is not a backup",
        "missing/clinic.backup": "There is no folder",
        "fifo": "exists and is not a backup",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            taken(clinic_folder, tmp_path / target)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


def test_instance_that_could_not_be_restored_is_not_backed_up(clinic_folder, tmp_path):
    database, whole = clinic_folder / "fhirapp.db", (clinic_folder / "fhirapp.db").read_bytes()

    def refused(words: str) -> None:
        with pytest.raises(ConfigurationError, match=words):
            taken(clinic_folder, tmp_path / "clinic.backup")
        assert not (tmp_path / "clinic.backup").exists()
        database.write_bytes(whole)

    database.unlink()
    refused("There is no database")
    database.write_bytes(b"")
    refused("There is no database")
    database.write_bytes(b"x" * 9999)
    refused("cannot be copied")
    run_sql(clinic_folder, "UPDATE alembic_version SET version_num = '0010'")
    refused(r"\(schema 0010, this one upgrades 0011 and later\); start fhirapp 0\.1\.0 on it")
    damage(clinic_folder)
    refused("is damaged, no backup was taken")
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE song (title)")
    refused("is not a fhirapp database")
    (clinic_folder / KEYS[0]).unlink()
    refused("secret.key is missing")


def test_backup_command_prints_the_file_name_and_keeps_the_newest(clinic_folder, backup, tmp_path):
    for year in (2023, 2024, 2025):
        shutil.copyfile(backup, tmp_path / f"fhirapp-{year}0101T000000Z.backup")
    done = run_command(clinic_folder, "backup", str(tmp_path), "--keep", "2")
    assert done.returncode == 0, done.stderr
    newest = Path(done.stdout.strip())
    assert "not encrypted" in done.stderr
    assert {*tmp_path.glob("*.backup")} == {tmp_path / "fhirapp-20250101T000000Z.backup", newest}


def test_backup_command_takes_the_passphrase_from_file_or_environment(clinic_folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse\nsecond line\n")
    (tmp_path / "out").mkdir()
    done = run_command(
        clinic_folder, "backup", str(tmp_path / "out"), "--passphrase-file", str(secret)
    )
    assert done.returncode == 0, done.stderr
    backup = Path(done.stdout.strip())
    assert backup.name.startswith("fhirapp-2")
    assert backup.read_bytes().startswith(BEGIN)
    assert b"manifest.json" not in backup.read_bytes()
    inside(backup, tmp_path / "copy", "correct horse")
    assert contents(tmp_path / "copy" / DATABASE) == contents(clinic_folder / "fhirapp.db")
    assert contents(tmp_path / "copy" / TRAIL) == contents(clinic_folder / "audit.db")
    # A folder stands for the newest backup in it.
    verify = ("backup", "--verify", str(tmp_path / "out"))
    verified = run_command(clinic_folder, *verify, BACKUP_PASSPHRASE="correct horse")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert f"{backup}, taken 2" in verified.stdout
    assert " is verified: " in verified.stdout
    assert_not_done(run_command(clinic_folder, *verify, BACKUP_PASSPHRASE="wrong"), "does not open")
    assert_not_done(
        run_command(clinic_folder, *verify), "No passphrase is set: use --passphrase-file"
    )


def test_backup_command_refuses_in_one_sentence(clinic_folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "empty").write_text("\n")
    for arguments, words in {
        ("{}", "--encrypt"): "No passphrase is set",
        ("{}/x.backup", "--keep", "3"): "--keep needs a folder",
        ("{}", "--keep", "0"): "--keep",
        ("{}", "--verify", "--keep", "3"): "--verify takes no backup",
        ("{}/x-%F.backup",): "would be one file, which each backup replaces",
        ("{}", "--passphrase-file", "{}/none"): "--passphrase-file",
        ("{}", "--passphrase-file", "{}/empty"): "The first line of",
        ("{}/none/",): "There is no folder",
        ("{}/none.backup", "--verify"): "There is no file",
        ("{}", "--verify"): "There is no backup",
    }.items():
        given = [argument.replace("{}", str(out)) for argument in arguments]
        assert_not_done(run_command(clinic_folder, "backup", *given), words)
    url = "postgresql+psycopg://clinic:hunter2@127.0.0.1:9/clinic"
    done = run_command(clinic_folder, "backup", str(out), DATABASE_URL=url)
    assert_not_done(done, "The database postgresql+psycopg://clinic:***@127.0.0.1:9/clinic cannot")
    assert "hunter2" not in done.stderr
    assert [path.name for path in out.iterdir()] == ["empty"]


def fill_disk_at(suffix: str) -> Callable[[int], None]:
    """Return an fsync that finds the disk full for files with a suffix."""
    really = os.fsync

    def fsync(descriptor: int) -> None:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(suffix):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(descriptor)

    return fsync


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        (".part", r"clinic\.backup cannot be written \(No space left on device\)"),
        (DATABASE, r"cannot be copied into .* \(No space left on device\)"),
    ],
)
def test_full_disk_leaves_the_earlier_backup(clinic_folder, tmp_path, monkeypatch, suffix, words):
    (tmp_path / "out").mkdir()
    backup = taken(clinic_folder, tmp_path / "out" / "clinic.backup")
    before = backup.read_bytes()
    names = {path.name for path in clinic_folder.iterdir()}
    monkeypatch.setattr(os, "fsync", fill_disk_at(suffix))
    with pytest.raises(ConfigurationError, match=words):
        taken(clinic_folder, backup)
    assert [*backup.parent.iterdir()] == [backup]
    assert backup.read_bytes() == before
    assert {path.name for path in clinic_folder.iterdir()} <= names


def test_too_little_space_is_reported_before_anything_is_written(
    clinic_folder, tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1_000_000))
    with pytest.raises(ConfigurationError, match=r"There is no room for a copy of fhirapp\.db"):
        taken(clinic_folder, tmp_path / "clinic.backup")


def test_leftovers_of_a_killed_backup_are_removed_by_the_next(clinic_folder, tmp_path):
    left = clinic_folder / ".fhirapp-scratch-left"
    left.mkdir()
    (left / DATABASE).write_bytes(b"x")
    part = tmp_path / ".fhirapp-left.part"
    part.write_bytes(b"x")
    taken(clinic_folder, tmp_path / "clinic.backup")
    assert not left.exists()
    assert not part.exists()


def test_unfinished_files_of_another_backup_stay(clinic_folder, tmp_path):
    with (
        temporary_folder(clinic_folder) as folder,
        write_atomically(tmp_path / "other.backup") as file,
    ):
        taken(clinic_folder, tmp_path / "clinic.backup")
        assert folder.exists()
        file.write(b"more")
    assert (tmp_path / "other.backup").read_bytes() == b"more"
    assert not folder.exists()


# Rotation: which backups of one naming are removed.
def put(folder: Path, *names: str, content: bytes = GZIP) -> None:
    """Write files that begin as backups do, each an hour newer than the one before."""
    for hour, name in enumerate(names):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (hour * 3600, hour * 3600))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rotation_removes_the_oldest_backups_by_name_and_nothing_else(tmp_path):
    # As if they had been copied back in any order.
    put(
        tmp_path,
        "c-20260105T000000.000002Z.backup",
        "c-20240101T000000Z.backup",
        "c-20251231T000000.5Z.backup",
        "c-20260105T000000.000001Z.backup",
        "c-20230707T000000.999999Z.backup",
    )
    put(tmp_path, "c-20200101T000000Z.bak", "c-d-20200101T000000Z.backup", "c-monday.backup")
    put(tmp_path, "C-20200101T000000Z.backup", "c-20201301T000000Z.backup", "c-2020-01-01.backup")
    put(tmp_path, "c-20190101T000000Z.backup", content=b"notes of mine")
    put(tmp_path, "c-20240601T000000Z.backup", content=BEGIN)
    (tmp_path / "c-20180101T000000Z.backup").mkdir()
    (tmp_path / "c-20170101T000000Z.backup").symlink_to(tmp_path / "c-20240101T000000Z.backup")
    before = left(tmp_path)
    naming = Naming(tmp_path, "c")
    removed, stuck = prune(naming, 2, tmp_path / "c-20260105T000000.000002Z.backup")
    gone = [
        "c-20230707T000000.999999Z.backup",
        "c-20240101T000000Z.backup",
        "c-20240601T000000Z.backup",
    ]
    assert ([path.name for path in removed], stuck) == (gone, [])
    assert left(tmp_path) == sorted({*before} - {*gone})


def test_rotation_keeps_the_newest_backup_where_the_clock_was_ahead(tmp_path):
    ahead = [f"c-203{number}0101T000000Z.backup" for number in (1, 2)]
    put(tmp_path, *ahead, "c-20260105T000000Z.backup")
    prune(Naming(tmp_path, "c"), 1, tmp_path / "c-20260105T000000Z.backup")
    assert left(tmp_path) == ["c-20260105T000000Z.backup"]


def test_backups_of_one_second_have_names_in_the_order_in_which_they_were_taken(tmp_path):
    moments = [NOW.replace(microsecond=number) for number in (0, 9, 10, 999_999)]
    paths = [Naming(tmp_path, "c").path(moment) for moment in moments]
    assert len({*paths}) == 4
    put(tmp_path, *(path.name for path in reversed(paths)))
    assert Naming(tmp_path, "c").backups() == paths
    assert sorted(path.name for path in paths) == [path.name for path in paths]
