"""What schedules do: backups, a watched folder, pulls from another server; and who does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.jobs import process, schedule, table
from fhirapp.jobs.schedule import IDLE, SKIPPED, Schedule
from fhirapp.jobs.table import DONE, FAILED, INTERRUPTED
from fhirapp.ops import schedules
from fhirapp.ops.jobs import BACKUP, DRILL, FOLDER, PULL
from fhirapp.ops.schedules import run_due
from fhirapp.ops.watched import waiting
from tests.support.bulk_server import EXPORT, TIME, BulkServer, accepted, file, lines_of, running
from tests.support.contract import versions_held
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import allergy, patient
from tests.support.jobs import wait_for
from tests.support.key_server import ok
from tests.support.racing import racers
from tests.support.shell import assert_not_done, fhirapp, start_job

HOUR = 3_600
# When all files that a test writes have been quiet for long.
START = int(time.time()) + 24 * HOUR
CCD = Path(__file__).parents[1] / "ccda" / "ccd.xml"
LATER = "2026-03-01T00:00:00Z"
PATIENTS = lines_of("Patient", 3)
WRONG = b'{"resourceType": "AllergyIntolerance", "id": "a1", "onsetDateTime": "yesterday"}\n'

pytestmark = [pytest.mark.databases(SQLITE, POSTGRESQL), pytest.mark.usefixtures("_forked_jobs")]


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app without records and schedules."""
    return make_app(seed=False)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder that can be watched."""
    folder = tmp_path / "inbox"
    for own in ("done", "failed"):
        (folder / own).mkdir(parents=True)
    return folder


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server, with three patients."""
    with running() as other:
        other.offer(Patient=file(PATIENTS))
        yield other


def add(app: Flask, kind: str, *, at: int = START, **options: Any) -> None:
    with app.app_context():
        schedules.add("one", kind, "hourly", options, at)


def look(app: Flask, now: int = START + HOUR) -> Schedule:
    """Look for what is due as the worker does, wait for it, look again; return the schedule."""
    with app.app_context():
        while run_due(now):
            pass
        job_id = schedule.find("one").job_id
    if job_id is not None:
        wait_for(app, job_id)
    with app.app_context():
        schedule.settle(schedule.find("one"), now)
        return schedule.find("one")


def write(folder: Path, name: str, *resources: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in resources))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def patients(app: Flask) -> set[str]:
    return set(versions_held(app).get("Patient", {}))


@pytest.mark.databases(SQLITE)
def test_a_backup_is_taken_tried_out_and_the_oldest_removed(app, tmp_path):
    other = tmp_path / "other-20260101T000000Z.backup"
    add(app, BACKUP, folder=str(tmp_path), keep=2, drill=True)
    ended = look(app)
    assert (ended.last.outcome, ended.failures) == (DONE, 0)
    assert "Backed up" in ended.last.note
    assert "It is whole: all of its" in ended.last.note
    (first,) = tmp_path.glob("one-*.backup")
    other.write_bytes(first.read_bytes())
    for number in (1, 2):
        first.rename(tmp_path / f"one-2026010{number}T000000Z.backup")
        first = tmp_path / f"one-2026010{number}T000000Z.backup"
        first.with_name(f"one-2025010{number}T000000Z.backup").write_bytes(first.read_bytes())
    look(app, START + 2 * HOUR)
    kept = [path.name[:8] for path in sorted(tmp_path.glob("one-*.backup"))]
    assert len(kept) == 2
    assert kept[0] == "one-2026"
    assert other.exists()
    with app.app_context():
        assert [job.state for job in table.jobs(DRILL)] == [DONE, DONE]
        assert {job.owner for job in table.jobs(BACKUP)} == {"schedule:one"}


@pytest.mark.databases(SQLITE)
def test_the_oldest_that_the_server_keeps_itself_are_removed(app):
    add(app, BACKUP, keep=1, drill=True)
    look(app)
    kept = settings_of(app).instance / "backups"
    (first,) = kept.iterdir()
    for name in ("one-20250101T000000Z", "one-20250102T000000Z", "two-20250101T000000Z"):
        (kept / f"{name}.backup").write_bytes(first.read_bytes())
    first.unlink()
    assert look(app, START + 2 * HOUR).last.outcome == DONE
    assert [name[:8] for name in names(kept)] == ["one-2026", "two-2025"]


@pytest.mark.databases(SQLITE)
def test_a_clock_that_was_set_back_costs_no_backup_that_was_just_taken(app):
    add(app, BACKUP, keep=1)
    look(app)
    kept = settings_of(app).instance / "backups"
    (first,) = kept.iterdir()
    first.rename(kept / "one-20990101T000000Z.backup")
    assert look(app, START + 2 * HOUR).last.outcome == DONE
    assert [name[:8] for name in names(kept)] == [first.name[:8]]


@pytest.mark.databases(SQLITE)
def test_a_backup_goes_into_no_file_where_its_folder_is_gone(app, tmp_path):
    folder = tmp_path / "backups"
    folder.mkdir()
    add(app, BACKUP, folder=str(folder), keep=2)
    folder.rmdir()
    ended = look(app)
    assert (ended.last.outcome, ended.last.note) == (
        *(FAILED, f"There is no folder {folder}; mount it, or make it."),
    )
    assert not folder.exists()


@pytest.mark.databases(SQLITE)
def test_a_schedule_has_not_the_name_of_backups_taken_by_hand(app):
    name = Path(settings_of(app).database_uri).stem
    with (
        app.app_context(),
        pytest.raises(ConfigurationError, match="Manual backups are also named"),
    ):
        schedules.add(name, BACKUP, "hourly", {"keep": 2}, START)


@pytest.mark.databases(SQLITE)
def test_a_backup_is_encrypted_with_the_passphrase_of_a_file_or_of_the_server(
    app, tmp_path, monkeypatch
):
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse\n")
    add(app, BACKUP, passphrase_file=str(secret), drill=True)
    assert look(app).last.outcome == DONE
    folder = settings_of(app).instance / "backups"
    assert [path.read_bytes()[:14] for path in folder.iterdir()] == [b"-----BEGIN AGE"]
    secret.unlink()
    ended = look(app, START + 2 * HOUR)
    assert ended.last.outcome == FAILED
    assert ended.last.note == f"The passphrase file {secret} cannot be read."
    with app.app_context():
        schedule.remove("one")
    add(app, BACKUP, encrypt=True)
    assert "set FHIRAPP_BACKUP_PASSPHRASE for the server" in look(app).last.note
    assert len(names(folder)) == 1
    monkeypatch.setenv("FHIRAPP_BACKUP_PASSPHRASE", "battery staple")
    assert look(app, START + 2 * HOUR).last.outcome == DONE
    assert all(path.read_bytes()[:14] == b"-----BEGIN AGE" for path in folder.iterdir())
    with app.app_context():
        assert "battery staple" not in str([schedule.schedules(), table.jobs()])


@pytest.mark.databases(SQLITE)
def test_a_run_that_is_still_going_is_not_begun_twice(app, monkeypatch):
    add(app, BACKUP)
    held: list[str] = []
    monkeypatch.setattr(process, "_spawn", lambda _s, _m, job_id, *_more: held.append(job_id))
    with app.app_context():
        assert run_due(START + HOUR)
        assert not run_due(START + HOUR)
        assert run_due(START + 2 * HOUR)
        found = schedule.find("one")
        assert (found.job_id, [run.outcome for run in found.history]) == (held[0], [SKIPPED])
        with pytest.raises(ConfigurationError, match="The schedule one is already running"):
            schedules.run_now("one", START + 2 * HOUR)
    assert len(held) == 1


def test_a_run_whose_job_could_not_be_queued_is_begun_by_the_next_look(app, inbox):
    write(inbox, "one.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with app.app_context():
        with db.engine.begin() as connection:
            connection.execute(text("ALTER TABLE job RENAME TO elsewhere"))
        with pytest.raises(DBAPIError):
            run_due(START + HOUR)
        with db.engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO job"))
    assert look(app).last.outcome == DONE
    assert patients(app) == {"p1"}


def test_of_many_processes_one_begins_a_run(app, inbox):
    write(inbox, "one.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with racers(app, processes=2, threads=2) as race:
        race({"due": START + HOUR})
    with app.app_context():
        jobs = table.jobs(FOLDER)
    assert len(jobs) == 1
    assert wait_for(app, jobs[0].id).state == DONE
    assert names(inbox / "done") == ["one.ndjson"]


def test_units_of_a_watched_folder_are_imported_and_moved(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"), allergy("a1", "Patient/p1"))
    write(inbox, "export/Patient.ndjson", patient("p2"))
    write(inbox, "export/deep/AllergyIntolerance.ndjson", allergy("a2", "Patient/p2"))
    (inbox / "wrong.ndjson").write_bytes(json.dumps(patient("p3")).encode() + b"\n" + WRONG)
    (inbox / "-").write_text(json.dumps(patient("p4")))
    (inbox / "\u00e4 & 'quote'.ndjson").write_text(json.dumps(patient("p5")))
    write(inbox, ".hidden.ndjson", patient("p9"))
    add(app, FOLDER, folder=str(inbox), source="lab")
    ended = look(app)
    assert patients(app) == {"p1", "p2", "p3", "p4", "p5"}
    assert ended.last.outcome == FAILED
    assert ended.last.note.startswith("1 of 5 were not fully imported; what failed is in ")
    assert names(inbox) == [".fhirapp", ".hidden.ndjson", "done", "failed"]
    assert names(inbox / ".fhirapp") == []
    assert names(inbox / "done") == ["-", "export", "lab.ndjson", "\u00e4 & 'quote'.ndjson"]
    assert names(inbox / "failed") == [
        "wrong.ndjson",
        "wrong.ndjson.rejected.ndjson",
        "wrong.ndjson.report.html",
        "wrong.ndjson.report.json",
    ]
    report = json.loads((inbox / "failed" / "wrong.ndjson.report.json").read_text())
    assert report["rejectedCount"] == 1
    assert report["rejected"][0]["place"] == "wrong.ndjson:2"
    assert (inbox / "failed" / "wrong.ndjson.rejected.ndjson").read_bytes() == WRONG
    with app.app_context():
        (job,) = table.jobs(FOLDER)
    assert job.progress.counts["Patient"]["new"] == 5
    assert [note for note in job.progress.notes if note.startswith("wrong.ndjson: 1 records")]


def test_files_of_a_unit_that_were_skipped_are_named_beside_it(app, inbox):
    write(inbox, "export/Patient.ndjson", patient("p1"))
    (inbox / "export" / "visit.ccd").write_bytes(CCD.read_bytes())
    (inbox / "export" / "scan.pdf").write_bytes(b"%PDF-1.7")
    add(app, FOLDER, folder=str(inbox))
    assert look(app).last.outcome == DONE
    assert names(inbox / "done") == ["export", "export.report.html", "export.report.json"]
    report = json.loads((inbox / "done" / "export.report.json").read_text())
    assert [*report["skippedFiles"]] == ["export/scan.pdf"]
    assert report["changes"]["DocumentReference"]["new"] == 1
    with app.app_context():
        (job,) = table.jobs(FOLDER)
    assert job.progress.notes[1:] == [
        "export: Files without records were skipped: 1. The report beside it names them."
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [("visit.pdf", b"%PDF-"), ("a.json", b""), ("a.csv", b""), ("a.xml", b" \n"), ("empty", b"")],
)
def test_a_unit_without_records_fails(app, inbox, name, content):
    (inbox / name).write_bytes(content)
    (inbox / "folder").mkdir()
    (inbox / "folder" / name).write_bytes(content)
    add(app, FOLDER, folder=str(inbox))
    assert look(app).last.outcome == FAILED
    assert names(inbox / "done") == []
    assert [one for one in names(inbox / "failed") if ".report." not in one] == sorted(
        [name, "folder"]
    )


def test_what_a_system_puts_into_a_watched_folder_is_no_unit(app, inbox):
    for name in ("Thumbs.db", "desktop.ini", "._lab.ndjson", ".DS_Store"):
        (inbox / name).write_bytes(b"\0\5\x16\7")
    write(inbox, "__MACOSX/._x.json", "x")
    add(app, FOLDER, folder=str(inbox))
    assert look(app).last.outcome == IDLE
    assert names(inbox / "failed") == []


def test_the_same_name_again_covers_nothing(app, inbox):
    write(inbox, "done/lab.ndjson", "the first")
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    look(app)
    found = names(inbox / "done")
    assert len(found) == 2
    assert json.loads((inbox / "done" / "lab.ndjson").read_text()) == "the first"


def test_a_file_that_grows_is_left_until_it_is_quiet(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    now = int(time.time())
    add(app, FOLDER, folder=str(inbox), at=now - 2 * HOUR)
    assert look(app, now).last.outcome == IDLE
    assert names(inbox) == ["done", "failed", "lab.ndjson"]
    assert look(app).last.outcome == DONE
    assert names(inbox / "done") == ["lab.ndjson"]


def test_no_link_is_followed_and_nothing_waits_for_a_pipe(app, inbox, tmp_path):
    outside = write(tmp_path, "outside.ndjson", patient("p1"))
    (inbox / "link.ndjson").symlink_to(outside)
    write(inbox, "folder/Patient.ndjson", patient("p2"))
    (inbox / "folder" / "more.ndjson").symlink_to(outside)
    os.mkfifo(inbox / "pipe.ndjson")
    add(app, FOLDER, folder=str(inbox))
    ended = look(app)
    assert (ended.last.outcome, patients(app)) == (FAILED, set())
    assert outside.exists()
    failed = names(inbox / "failed")
    assert [name for name in failed if ".report." not in name] == [
        *("folder", "link.ndjson", "pipe.ndjson")
    ]
    report = json.loads((inbox / "failed" / "folder.report.json").read_text())
    assert report["rejected"][0]["message"] == "more.ndjson is a link, which is not followed."


@pytest.mark.parametrize("own", ["done", ".fhirapp"])
def test_a_link_in_the_place_of_a_folder_of_ours_is_refused(app, inbox, tmp_path, own):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    (tmp_path / "elsewhere").mkdir()
    if own == "done":
        (inbox / own).rmdir()
    (inbox / own).symlink_to(tmp_path / "elsewhere")
    ended = look(app)
    assert ended.last.note == f"{inbox / own} is a link; there must be a folder in its place."
    assert names(tmp_path / "elsewhere") == []
    assert (inbox / "lab.ndjson").exists()


def test_a_folder_that_is_gone_is_a_state_and_comes_back(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    inbox.rename(inbox.with_name("away"))
    ended = look(app)
    assert (ended.last.outcome, ended.failures) == (FAILED, 1)
    assert ended.last.note == (
        f"The watched folder {inbox} cannot be read (No such file or directory)."
    )
    inbox.with_name("away").rename(inbox)
    ended = look(app, START + 2 * HOUR)
    assert (ended.last.outcome, ended.failures) == (DONE, 0)


def test_a_folder_that_does_not_answer_holds_one_thread(app, inbox, monkeypatch):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    answers = Event()

    def hang(folder: Path, now: float) -> list[Path]:
        answers.wait()
        return waiting(folder, now)

    def looking() -> list[Thread]:
        return [thread for thread in enumerate_threads() if thread.name == "watched folder"]

    # As a folder of a network does whose server is away.
    monkeypatch.setattr(schedules, "waiting", hang)
    monkeypatch.setattr(schedules, "_LOOK_SECONDS", 0.1)
    for hours in (1, 2, 3):
        ended = look(app, START + hours * HOUR)
        assert ended.last.note == f"The watched folder {inbox} does not answer."
        assert len(looking()) == 1
    answers.set()
    looking()[0].join()
    monkeypatch.undo()
    assert look(app, START + 4 * HOUR).last.outcome == DONE


def left_behind(inbox: Path) -> Path:
    """Return a unit that a run had taken whose process is gone."""
    work = inbox / ".fhirapp" / table.new_id()
    unit = write(work, "left.ndjson", patient("p1"))
    (work / ".held").touch()
    return unit


def test_what_a_dead_run_had_taken_is_taken_again(app, inbox):
    left_behind(inbox)
    add(app, FOLDER, folder=str(inbox))
    assert look(app).last.outcome == DONE
    assert (patients(app), names(inbox / "done")) == ({"p1"}, ["left.ndjson"])
    assert names(inbox / ".fhirapp") == []


def test_what_a_living_run_has_is_left_alone(app, inbox):
    unit = left_behind(inbox)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(unit.with_name(".held"))], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        add(app, FOLDER, folder=str(inbox))
        assert look(app).last.outcome == DONE
        assert (unit.exists(), patients(app)) == (True, set())
    finally:
        holder.kill()
        holder.communicate()
    assert look(app, START + 2 * HOUR).last.outcome == DONE
    assert patients(app) == {"p1"}


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_a_run_that_is_killed_in_the_middle_loses_nothing(app, inbox, monkeypatch):
    write(inbox, "export/1.ndjson", patient("p1"))
    write(inbox, "export/2.ndjson", patient("p2"))
    add(app, FOLDER, folder=str(inbox))
    with monkeypatch.context() as patch, app.app_context():
        patch.setattr(
            process,
            "_spawn",
            lambda settings, _module, *job: start_job(settings, "tests.support.killed_job", *job),
        )
        assert run_due(START + HOUR)
        job_id = schedule.find("one").job_id
    assert wait_for(app, job_id).state == INTERRUPTED
    assert patients(app) == {"p1"}
    assert (names(inbox), names(inbox / "done")) == ([".fhirapp", "done", "failed"], [])
    with app.app_context():
        assert not schedule.settle(schedule.find("one"), START + HOUR)
        assert schedule.find("one").last.outcome == INTERRUPTED
    ended = look(app, START + 2 * HOUR)
    assert (ended.last.outcome, ended.failures) == (DONE, 0)
    assert patients(app) == {"p1", "p2"}
    assert names(inbox / "done") == ["export"]


def test_a_fault_of_the_server_leaves_the_unit_where_it_was(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with app.app_context(), writing() as connection:
        connection.execute(text("ALTER TABLE import_run RENAME TO away"))
    ended = look(app)
    assert ended.last.outcome == FAILED
    assert ended.last.note.startswith("The database cannot be used (")
    assert names(inbox) == [".fhirapp", "done", "failed", "lab.ndjson"]
    assert names(inbox / "failed") == []
    with app.app_context(), writing() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO import_run"))
    assert look(app, START + 2 * HOUR).last.outcome == DONE
    assert names(inbox / "done") == ["lab.ndjson"]


def test_two_servers_on_one_folder_take_each_unit_once(make_app, inbox):
    both = [make_app(seed=False), make_app(seed=False)]
    wanted = {f"p{number}" for number in range(30)}
    for name in wanted:
        write(inbox, f"{name}.ndjson", patient(name))
    jobs = []
    for app in both:
        add(app, FOLDER, folder=str(inbox))
        with app.app_context():
            run_due(START + HOUR)
            jobs.append(schedule.find("one").job_id)
    for app, job_id in zip(both, jobs, strict=True):
        assert wait_for(app, job_id).state == DONE
    first, second = map(patients, both)
    assert first | second == wanted
    assert not first & second
    assert len(names(inbox / "done")) == 30


def asked(server: BulkServer) -> list[str]:
    """Return the exports that were begun."""
    return [line.removeprefix("GET ") for line in server.lines if EXPORT in line]


def since(moment: str) -> str:
    return f"{EXPORT}?_since={quote(moment, safe='')}"


def offer(server: BulkServer, path: str, moment: str, *patients: bytes) -> None:
    """Offer files under an export's address, as of a moment."""
    server.answers[path] = [accepted("/job")]
    server.answers["/job"] = [server.manifest("Patient", transactionTime=moment)]
    server.answers["/files/Patient"] = [*map(file, patients)]


def test_a_pull_asks_for_all_and_then_for_what_changed(app, server):
    add(app, PULL, address=server.url + EXPORT, source="hospital")
    ended = look(app)
    assert (ended.last.outcome, ended.last.note, ended.since) == (DONE, "", TIME)
    assert len(patients(app)) == 3
    offer(server, since(TIME), LATER, json.dumps(patient("new")).encode() + b"\n")
    ended = look(app, START + 2 * HOUR)
    assert (ended.last.outcome, ended.since) == (DONE, LATER)
    assert "new" in patients(app)
    assert asked(server) == [EXPORT, since(TIME)]
    assert not list((settings_of(app).instance / "downloads").iterdir())


def test_a_pull_that_failed_asks_again_from_the_same(app, server):
    add(app, PULL, address=server.url + EXPORT, since=TIME)
    offer(server, since(TIME), LATER, WRONG)
    ended = look(app)
    assert (ended.last.outcome, ended.since, ended.failures) == (FAILED, TIME, 1)
    assert ended.last.note.startswith("1 records were rejected (")
    assert ended.last.note.endswith("The next run asks for the same again.")
    server.answers["/job"] = [
        server.manifest("Patient", error=[{"type": "OperationOutcome", "url": "/files/error"}])
    ]
    fault = {"severity": "error", "code": "exception", "diagnostics": "A disk is gone."}
    outcome = {"resourceType": "OperationOutcome", "issue": [fault]}
    server.answers["/files/error"] = [file(json.dumps(outcome).encode() + b"\n")]
    server.answers["/files/Patient"] = [file(PATIENTS)]
    ended = look(app, START + 2 * HOUR)
    assert (ended.failures, ended.since) == (2, TIME)
    assert "A disk is gone." in ended.last.note
    offer(server, since(TIME), LATER, PATIENTS)
    ended = look(app, START + 3 * HOUR)
    assert (ended.last.outcome, ended.since, ended.failures) == (DONE, LATER, 0)
    assert asked(server) == [since(TIME)] * 3


def test_a_pull_from_a_server_that_tells_no_time_asks_for_all_again(app, server):
    server.answers["/job"] = [server.manifest("Patient", transactionTime=None)]
    add(app, PULL, address=server.url + EXPORT)
    ended = look(app)
    assert (ended.last.outcome, ended.since) == (DONE, None)
    assert "the next is of everything" in ended.last.note


def test_a_pull_from_a_server_that_is_away_is_a_state(app, server):
    server.answers[EXPORT] = [ok({"not": "accepted"})]
    add(app, PULL, address=server.url + EXPORT)
    ended = look(app)
    assert (ended.last.outcome, ended.failures) == (FAILED, 1)
    assert "answers 200, and not 202" in ended.last.note


@pytest.mark.databases(SQLITE)
@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (FOLDER, {}, "does not exist. Enter an absolute path"),
        (FOLDER, {"folder": "/no/such/folder"}, "The folder /no/such/folder does not exist"),
        (FOLDER, {"folder": "{instance}"}, "contains files of the server itself"),
        (FOLDER, {"folder": "{instance}/in"}, "contains files of the server itself"),
        (FOLDER, {"folder": "{tmp}"}, "Create the folders done and failed in"),
        (FOLDER, {"folder": "{tmp}", "keep": 3}, "has no option keep"),
        (BACKUP, {"folder": "relative"}, "The folder relative does not exist"),
        (BACKUP, {"passphrase_file": "{tmp}/none"}, "passphrase file"),
        (PULL, {}, "Enter the URL of an export"),
        (PULL, {"address": "ftp://h/$export"}, "is not an http:// or https:// address"),
        (PULL, {"address": "https://h/fhir/Patient"}, "is not the URL of an export"),
        (PULL, {"address": "https://u:p@h/fhir/$export"}, "must not hold a user name"),
        (PULL, {"address": "https://h/$export?_since=2026-01-01"}, "Remove _since"),
        (PULL, {"address": "https://h/$export", "key": "/k"}, "needs a key file"),
        (PULL, {"address": "https://h/$export", "key": "/k", "client_id": "c"}, "cannot be read"),
        (PULL, {"address": "https://h/$export", "since": "yesterday"}, "is not a date or time"),
        ("nonsense", {}, "Unknown kind of schedule: nonsense"),
    ],
)
def test_what_cannot_be_met_is_refused_when_it_is_added(app, tmp_path, kind, options, words):
    instance = settings_of(app).instance
    (instance / "in").mkdir()
    named = {
        name: value.format(instance=instance, tmp=tmp_path) if isinstance(value, str) else value
        for name, value in options.items()
    }
    with pytest.raises(ConfigurationError, match=words):
        add(app, kind, **named)
    with app.app_context():
        assert schedule.schedules() == []


def test_the_demo_takes_no_schedule(make_app, tmp_path):
    app = make_app(demo=True, seed=False)
    with pytest.raises(
        ConfigurationError, match="The demo can't have other schedules than its own reset"
    ):
        add(app, BACKUP)
    app.config["FHIRAPP"] = replace(settings_of(app), demo_reset="hourly")
    with app.app_context():
        run_due(START)
        for change in (
            lambda: schedule.remove("demo-reset"),
            lambda: schedule.pause("demo-reset", START, paused=True),
            lambda: schedules.run_now("demo-reset", START),
        ):
            with pytest.raises(ConfigurationError, match="only be changed with FHIRAPP_DEMO_RESET"):
                change()


def test_the_command_adds_lists_runs_and_removes(tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    folder = tmp_path / "instance"
    added = fhirapp(
        folder, "schedule", "add", "lab", "folder", "Every 5 minutes", "--folder", str(inbox)
    )
    assert (added.returncode, names(inbox)) == (0, ["done", "failed"])
    assert added.stderr.splitlines()[-1] == (
        "The schedule lab runs every 5 minutes, while a server runs."
    )
    listed = fhirapp(folder, "schedule", "list").stdout
    assert listed.startswith("lab  folder  every 5 minutes  next ")
    ran = fhirapp(folder, "schedule", "run", "lab")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        0,
        "done. There was nothing to import.",
    )
    told = json.loads(fhirapp(folder, "schedule", "list", "--json").stdout)
    assert (told["name"], told["history"][0]["outcome"], told["failures"]) == ("lab", DONE, 0)
    inbox.rename(tmp_path / "away")
    ran = fhirapp(folder, "schedule", "run", "lab")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"failed. There is no folder {inbox}." in ran.stderr
    assert fhirapp(folder, "schedule", "remove", "lab").returncode == 0
    assert_not_done(fhirapp(folder, "schedule", "run", "lab"), "Unknown schedule: lab")
    assert_not_done(
        fhirapp(folder, "schedule", "add", "x", "backup", "daily 31:00"), "Use hourly, every 15"
    )
    assert "added a schedule  lab: folder, every 5" in fhirapp(folder, "audit", "list").stdout
