"""Schedules: backups, pulls from another server, who starts a run, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.imports.jobs import FOLDER, PULL
from fhirapp.jobs import process, queue, schedules
from fhirapp.jobs.queue import DONE, FAILED, INTERRUPTED
from fhirapp.jobs.schedules import run_due
from tests.support.bulk_server import EXPORT, TIME, BulkServer, accepted, file, lines_of, running
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import patient
from tests.support.jobs import wait_for
from tests.support.key_server import ok
from tests.support.racing import racers
from tests.support.schedules import HOUR, START, add, found, look, names, patients, write
from tests.support.shell import assert_not_done, run_command, start_job

LATER = "2026-03-01T00:00:00Z"


PATIENTS = lines_of("Patient", 3)


INVALID_ALLERGY = (
    b'{"resourceType": "AllergyIntolerance", "id": "a1", "onsetDateTime": "yesterday"}\n'
)


@pytest.fixture
def app(empty: Flask) -> Flask:
    """An app without records and schedules."""
    return empty


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server, with three patients."""
    with running() as other:
        other.offer(Patient=file(PATIENTS))
        yield other


@pytest.fixture(autouse=True)
def _jobs(request: pytest.FixtureRequest) -> None:
    """Do jobs in this process, but for tests that are about processes."""
    if not request.node.get_closest_marker("process"):
        request.getfixturevalue("jobs_in_process")


def test_backup_is_taken_and_verified_and_the_oldest_removed(app, tmp_path):
    other = tmp_path / "other-20260101T000000Z.backup"
    add(app, BACKUP, folder=str(tmp_path), keep=2, drill=True)
    ended = look(app)
    assert (ended.outcome, ended.failures) == (DONE, 0)
    assert "Backed up" in ended.note
    assert "Verified: all of its" in ended.note
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
        assert [job.state for job in queue.jobs(VERIFICATION)] == [DONE, DONE]
        assert {job.owner for job in queue.jobs(BACKUP)} == {"schedule:one"}


def test_oldest_backup_in_the_server_folder_is_removed_and_the_new_one_never(app):
    add(app, BACKUP, keep=1, drill=True)
    look(app)
    kept = settings_of(app).instance / "backups"
    (first,) = kept.iterdir()
    for name in ("one-20250101T000000Z", "one-20250102T000000Z", "two-20250101T000000Z"):
        (kept / f"{name}.backup").write_bytes(first.read_bytes())
    # The clock was ahead when this one was taken.
    first.rename(kept / "one-20990101T000000Z.backup")
    assert look(app, START + 2 * HOUR).outcome == DONE
    assert [name[:8] for name in names(kept)] == [first.name[:8], "two-2025"]


def test_backup_without_its_folder_fails(app, tmp_path):
    folder = tmp_path / "backups"
    folder.mkdir()
    add(app, BACKUP, folder=str(folder), keep=2)
    folder.rmdir()
    ended = look(app)
    assert (ended.outcome, ended.note) == (
        *(FAILED, f"There is no folder {folder}; mount it, or make it."),
    )
    assert not folder.exists()


def test_schedule_named_as_manual_backups_is_refused(app):
    name = Path(settings_of(app).database_uri).stem
    with (
        app.app_context(),
        pytest.raises(ConfigurationError, match="Manual backups are also named"),
    ):
        schedules.add(name, BACKUP, "hourly", {"keep": 2}, START)


def test_scheduled_backup_is_encrypted_by_file_or_variable(app, tmp_path, monkeypatch):
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse\n")
    add(app, BACKUP, passphrase_file=str(secret), drill=True)
    assert look(app).outcome == DONE
    folder = settings_of(app).instance / "backups"
    assert [path.read_bytes()[:14] for path in folder.iterdir()] == [b"-----BEGIN AGE"]
    secret.unlink()
    ended = look(app, START + 2 * HOUR)
    assert ended.outcome == FAILED
    assert ended.note == f"The passphrase file {secret} cannot be read."
    with app.app_context():
        schedules.remove("one")
    add(app, BACKUP, encrypt=True)
    assert "set FHIRAPP_BACKUP_PASSPHRASE for the server" in look(app).note
    assert len(names(folder)) == 1
    monkeypatch.setenv("FHIRAPP_BACKUP_PASSPHRASE", "battery staple")
    assert look(app, START + 2 * HOUR).outcome == DONE
    assert all(path.read_bytes()[:14] == b"-----BEGIN AGE" for path in folder.iterdir())
    with app.app_context():
        assert "battery staple" not in str([schedules.schedules(), queue.jobs()])


def test_running_schedule_is_not_started_again(app, monkeypatch):
    add(app, BACKUP)
    held: list[str] = []
    monkeypatch.setattr(process, "_spawn", lambda _s, job, *_more: held.append(job.id))
    with app.app_context():
        assert run_due(START + HOUR)
        assert not run_due(START + HOUR)
        assert run_due(START + 2 * HOUR)
        assert [job.id for job in found(app).runs.jobs] == held
        with pytest.raises(ConfigurationError, match="The schedule one is already running"):
            schedules.run_now("one", START + 2 * HOUR)
    assert len(held) == 1


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_run_whose_job_was_not_queued_is_started_later(app, inbox):
    write(inbox, "one.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with app.app_context():
        with db.engine.begin() as connection:
            connection.execute(text("ALTER TABLE job RENAME TO elsewhere"))
        with pytest.raises(DBAPIError):
            run_due(START + HOUR)
        with db.engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO job"))
    assert look(app).outcome == DONE
    assert patients(app) == {"p1"}


@pytest.mark.process
@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_killed_run_loses_nothing(app, inbox, monkeypatch):
    write(inbox, "export/1.ndjson", patient("p1"))
    write(inbox, "export/2.ndjson", patient("p2"))
    add(app, FOLDER, folder=str(inbox))
    with monkeypatch.context() as patch, app.app_context():
        patch.setattr(
            process,
            "_spawn",
            partial(start_job, module="tests.support.killed_job"),
        )
        assert run_due(START + HOUR)
        (job_id,) = [job.id for job in found(app).runs.jobs]
    assert wait_for(app, job_id).state == INTERRUPTED
    assert patients(app) == {"p1"}
    assert (names(inbox), names(inbox / "done")) == ([".fhirapp", "done", "failed"], [])
    assert (found(app).outcome, found(app).failures) == (INTERRUPTED, 1)
    monkeypatch.setattr(process, "_spawn", start_job)
    ended = look(app, START + 2 * HOUR)
    assert (ended.outcome, ended.failures) == (DONE, 0)
    assert patients(app) == {"p1", "p2"}
    assert names(inbox / "done") == ["export"]


def requested_exports(server: BulkServer) -> list[str]:
    """Return the exports that were begun."""
    return [line.removeprefix("GET ") for line in server.lines if EXPORT in line]


def since(moment: str) -> str:
    return f"{EXPORT}?_since={quote(moment, safe='')}"


def offer(server: BulkServer, path: str, moment: str, *patients: bytes) -> None:
    """Offer files under an export's address, as of a moment."""
    server.answers[path] = [accepted("/job")]
    server.answers["/job"] = [server.manifest("Patient", transactionTime=moment)]
    server.answers["/files/Patient"] = [*map(file, patients)]


def test_pull_requests_everything_and_then_changes(app, server):
    add(app, PULL, address=server.url + EXPORT, source="hospital")
    ended = look(app)
    assert (ended.outcome, ended.note, ended.schedule.since) == (DONE, "", TIME)
    assert len(patients(app)) == 3
    offer(server, since(TIME), LATER, json.dumps(patient("new")).encode() + b"\n")
    ended = look(app, START + 2 * HOUR)
    assert (ended.outcome, ended.schedule.since) == (DONE, LATER)
    assert "new" in patients(app)
    assert requested_exports(server) == [EXPORT, since(TIME)]
    assert not list((settings_of(app).instance / "downloads").iterdir())


def test_failed_pull_requests_the_same_again(app, server):
    add(app, PULL, address=server.url + EXPORT, since=TIME)
    offer(server, since(TIME), LATER, INVALID_ALLERGY)
    ended = look(app)
    assert (ended.outcome, ended.schedule.since, ended.failures) == (FAILED, TIME, 1)
    assert ended.note.startswith("1 records were rejected (")
    assert ended.note.endswith("The next run asks for the same again.")
    server.answers["/job"] = [
        server.manifest("Patient", error=[{"type": "OperationOutcome", "url": "/files/error"}])
    ]
    fault = {"severity": "error", "code": "exception", "diagnostics": "A disk is gone."}
    outcome = {"resourceType": "OperationOutcome", "issue": [fault]}
    server.answers["/files/error"] = [file(json.dumps(outcome).encode() + b"\n")]
    server.answers["/files/Patient"] = [file(PATIENTS)]
    ended = look(app, START + 2 * HOUR)
    assert (ended.failures, ended.schedule.since) == (2, TIME)
    assert "A disk is gone." in ended.note
    offer(server, since(TIME), LATER, PATIENTS)
    ended = look(app, START + 3 * HOUR)
    assert (ended.outcome, ended.schedule.since, ended.failures) == (DONE, LATER, 0)
    assert requested_exports(server) == [since(TIME)] * 3


def test_pull_without_transaction_time_requests_everything_again(app, server):
    server.answers["/job"] = [server.manifest("Patient", transactionTime=None)]
    add(app, PULL, address=server.url + EXPORT)
    ended = look(app)
    assert (ended.outcome, ended.schedule.since) == (DONE, None)
    assert "the next is of everything" in ended.note


def test_pull_from_a_failing_server_is_recorded(app, server):
    server.answers[EXPORT] = [ok({"not": "accepted"})]
    add(app, PULL, address=server.url + EXPORT)
    ended = look(app)
    assert (ended.outcome, ended.failures) == (FAILED, 1)
    assert "answers 200, and not 202" in ended.note


def test_invalid_schedule_is_refused_when_it_is_added(app, tmp_path):
    instance = settings_of(app).instance
    (instance / "in").mkdir()
    export = "https://h/$export"
    for kind, options, words in [
        (FOLDER, {}, "does not exist. Enter an absolute path"),
        (FOLDER, {"folder": "/no/such/folder"}, "The folder /no/such/folder does not exist"),
        (FOLDER, {"folder": str(instance)}, "contains files of the server itself"),
        (FOLDER, {"folder": f"{instance}/in"}, "contains files of the server itself"),
        (FOLDER, {"folder": str(tmp_path)}, "Create the folders done and failed in"),
        (FOLDER, {"folder": str(tmp_path), "keep": 3}, "has no option keep"),
        (BACKUP, {"folder": "relative"}, "The folder relative does not exist"),
        (BACKUP, {"passphrase_file": f"{tmp_path}/none"}, "passphrase file"),
        (PULL, {}, "Enter the URL of an export"),
        (PULL, {"address": "ftp://h/$export"}, "is not an http:// or https:// address"),
        (PULL, {"address": "https://h/fhir/Patient"}, "is not the URL of an export"),
        (PULL, {"address": "https://u:p@h/fhir/$export"}, "must not hold a user name"),
        (PULL, {"address": f"{export}?_since=2026-01-01"}, "Remove _since"),
        (PULL, {"address": export, "key": "/k"}, "needs a key file"),
        (PULL, {"address": export, "key": "/k", "client_id": "c"}, "cannot be read"),
        (PULL, {"address": export, "since": "yesterday"}, "is not a date or time"),
        ("nonsense", {}, "Unknown kind of schedule: nonsense"),
        ("demo-reset", {}, "Unknown kind of schedule: demo-reset"),
    ]:
        with pytest.raises(ConfigurationError, match=words):
            add(app, kind, **options)
    with app.app_context():
        assert schedules.schedules() == []


def test_demo_takes_no_schedule_but_its_reset(make_app, tmp_path):
    app = make_app(demo=True, seed=False)
    with pytest.raises(
        ConfigurationError, match="The demo can't have other schedules than its own reset"
    ):
        add(app, BACKUP)
    app.config["FHIRAPP"] = replace(settings_of(app), demo_reset="hourly")
    with app.app_context():
        run_due(START)
        for change in (
            lambda: schedules.remove("demo-reset"),
            lambda: schedules.pause("demo-reset", START, paused=True),
            lambda: schedules.run_now("demo-reset", START),
        ):
            with pytest.raises(ConfigurationError, match="only be changed with FHIRAPP_DEMO_RESET"):
                change()


def test_schedule_of_a_clinic_that_is_named_like_the_demo_reset_is_changed_like_others(app):
    with app.app_context():
        schedules.add("demo-reset", BACKUP, "weekly sunday 02:00", {}, START)
        run_due(START)
        assert schedules.pause("demo-reset", START, paused=True)
        schedules.remove("demo-reset")
        assert schedules.schedules() == []


def test_schedule_command_adds_lists_runs_and_removes(tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    folder = tmp_path / "instance"
    added = run_command(
        folder, "schedule", "add", "lab", "folder", "Every 5 minutes", "--folder", str(inbox)
    )
    assert (added.returncode, names(inbox)) == (0, ["done", "failed"])
    assert added.stderr.splitlines()[-1] == (
        "The schedule lab runs every 5 minutes, while a server runs."
    )
    listed = run_command(folder, "schedule", "list").stdout
    assert listed.startswith("lab  folder  every 5 minutes  next ")
    ran = run_command(folder, "schedule", "run", "lab")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        0,
        "done. There was nothing to import.",
    )
    told = json.loads(run_command(folder, "schedule", "list", "--json").stdout)
    assert (told["name"], told["history"][0]["outcome"], told["failures"]) == ("lab", DONE, 0)
    inbox.rename(tmp_path / "away")
    ran = run_command(folder, "schedule", "run", "lab")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"failed. There is no folder {inbox}." in ran.stderr
    assert run_command(folder, "schedule", "remove", "lab").returncode == 0
    assert_not_done(run_command(folder, "schedule", "run", "lab"), "Unknown schedule: lab")
    assert_not_done(
        run_command(folder, "schedule", "add", "x", "backup", "daily 31:00"), "Use hourly, every 15"
    )
    assert "added a schedule  lab: folder, every 5" in run_command(folder, "audit", "list").stdout


@pytest.mark.process
@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_one_of_many_processes_starts_a_run(app, inbox):
    write(inbox, "one.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with racers(app, processes=2, threads=2) as race:
        race({"due": START + HOUR})
    with app.app_context():
        jobs = queue.jobs(FOLDER)
    assert len(jobs) == 1
    assert wait_for(app, jobs[0].id).state == DONE
    assert names(inbox / "done") == ["one.ndjson"]
