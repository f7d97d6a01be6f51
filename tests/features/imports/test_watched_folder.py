"""A folder that a schedule watches: files are imported and moved, none is lost or taken twice."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.db import writing
from fhirapp.features.imports.jobs import FOLDER
from fhirapp.features.imports.watched import waiting
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE, FAILED
from fhirapp.jobs.schedules import run_due
from tests import TESTS
from tests.support.importing import allergy, patient
from tests.support.jobs import wait_for
from tests.support.schedules import HOUR, START, add, look, names, patients, write
from tests.support.shell import start_job

pytestmark = pytest.mark.usefixtures("jobs_in_process")


CCD = TESTS / "ccda" / "ccd.xml"


INVALID_ALLERGY = (
    b'{"resourceType": "AllergyIntolerance", "id": "a1", "onsetDateTime": "yesterday"}\n'
)


@pytest.fixture
def app(empty: Flask) -> Flask:
    """An app without records and schedules."""
    return empty


def test_files_and_folders_are_imported_and_moved(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"), allergy("a1", "Patient/p1"))
    write(inbox, "export/Patient.ndjson", patient("p2"))
    write(inbox, "export/deep/AllergyIntolerance.ndjson", allergy("a2", "Patient/p2"))
    (inbox / "wrong.ndjson").write_bytes(
        json.dumps(patient("p3")).encode() + b"\n" + INVALID_ALLERGY
    )
    (inbox / "-").write_text(json.dumps(patient("p4")))
    (inbox / "\u00e4 & 'quote'.ndjson").write_text(json.dumps(patient("p5")))
    write(inbox, ".hidden.ndjson", patient("p9"))
    add(app, FOLDER, folder=str(inbox), source="lab")
    ended = look(app)
    assert patients(app) == {"p1", "p2", "p3", "p4", "p5"}
    assert ended.outcome == FAILED
    assert ended.note.startswith("1 of 5 were not fully imported; what failed is in ")
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
    assert (inbox / "failed" / "wrong.ndjson.rejected.ndjson").read_bytes() == INVALID_ALLERGY
    with app.app_context():
        (job,) = queue.jobs(FOLDER)
    assert job.progress.counts["Patient"]["new"] == 5
    assert [note for note in job.progress.notes if note.startswith("wrong.ndjson: 1 records")]


def test_skipped_files_of_a_folder_are_reported_beside_it(app, inbox):
    write(inbox, "export/Patient.ndjson", patient("p1"))
    (inbox / "export" / "visit.ccd").write_bytes(CCD.read_bytes())
    (inbox / "export" / "scan.pdf").write_bytes(b"%PDF-1.7")
    add(app, FOLDER, folder=str(inbox))
    assert look(app).outcome == DONE
    assert names(inbox / "done") == ["export", "export.report.html", "export.report.json"]
    report = json.loads((inbox / "done" / "export.report.json").read_text())
    assert [file["name"] for file in report["files"] if file["state"] == "skipped"] == [
        "export/scan.pdf"
    ]
    assert report["changes"]["DocumentReference"]["new"] == 1
    with app.app_context():
        (job,) = queue.jobs(FOLDER)
    assert job.progress.notes[1:] == [
        "export: Files without records were skipped: 1. The report beside it names them."
    ]


@pytest.mark.campaign
def test_file_without_records_fails(app, inbox):
    contents = {"visit.pdf": b"%PDF-", "a.json": b"", "a.csv": b"", "a.xml": b" \n", "empty": b""}
    for name, content in contents.items():
        (inbox / name).write_bytes(content)
        (inbox / f"folder-{name}").mkdir()
        (inbox / f"folder-{name}" / name).write_bytes(content)
    add(app, FOLDER, folder=str(inbox))
    assert look(app).outcome == FAILED
    assert names(inbox / "done") == []
    assert {name for name in names(inbox / "failed") if ".report." not in name} == {
        *contents,
        *(f"folder-{name}" for name in contents),
    }


def test_files_of_operating_systems_are_ignored(app, inbox):
    for name in ("Thumbs.db", "desktop.ini", "._lab.ndjson", ".DS_Store"):
        (inbox / name).write_bytes(b"\0\5\x16\7")
    write(inbox, "__MACOSX/._x.json", "x")
    add(app, FOLDER, folder=str(inbox))
    assert look(app).outcome == "idle"
    assert names(inbox / "failed") == []


def test_same_name_again_overwrites_nothing(app, inbox):
    write(inbox, "done/lab.ndjson", "the first")
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    look(app)
    found = names(inbox / "done")
    assert len(found) == 2
    assert json.loads((inbox / "done" / "lab.ndjson").read_text()) == "the first"


def test_growing_file_is_left_until_it_is_quiet(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    now = int(time.time())
    add(app, FOLDER, folder=str(inbox), at=now - 2 * HOUR)
    assert look(app, now).outcome == "idle"
    assert names(inbox) == ["done", "failed", "lab.ndjson"]
    assert look(app).outcome == DONE
    assert names(inbox / "done") == ["lab.ndjson"]


def test_links_are_not_followed_and_pipes_not_read(app, inbox, tmp_path):
    outside = write(tmp_path, "outside.ndjson", patient("p1"))
    (inbox / "link.ndjson").symlink_to(outside)
    write(inbox, "folder/Patient.ndjson", patient("p2"))
    (inbox / "folder" / "more.ndjson").symlink_to(outside)
    os.mkfifo(inbox / "pipe.ndjson")
    add(app, FOLDER, folder=str(inbox))
    ended = look(app)
    assert (ended.outcome, patients(app)) == (FAILED, set())
    assert outside.exists()
    failed = names(inbox / "failed")
    assert [name for name in failed if ".report." not in name] == [
        *("folder", "link.ndjson", "pipe.ndjson")
    ]
    report = json.loads((inbox / "failed" / "folder.report.json").read_text())
    assert report["rejected"][0]["message"] == "more.ndjson is a link, which is not followed."


@pytest.mark.parametrize("own", ["done", ".fhirapp"])
def test_link_in_place_of_an_own_folder_is_refused(app, inbox, tmp_path, own):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    (tmp_path / "elsewhere").mkdir()
    if own == "done":
        (inbox / own).rmdir()
    (inbox / own).symlink_to(tmp_path / "elsewhere")
    ended = look(app)
    assert ended.note == f"{inbox / own} is a link; there must be a folder in its place."
    assert names(tmp_path / "elsewhere") == []
    assert (inbox / "lab.ndjson").exists()


def test_missing_folder_fails_the_run_until_it_is_back(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    inbox.rename(inbox.with_name("away"))
    ended = look(app)
    assert (ended.outcome, ended.failures) == (FAILED, 1)
    assert ended.note == (f"The watched folder {inbox} cannot be read (No such file or directory).")
    inbox.with_name("away").rename(inbox)
    ended = look(app, START + 2 * HOUR)
    assert (ended.outcome, ended.failures) == (DONE, 0)


def test_unresponsive_folder_blocks_one_thread(app, inbox, monkeypatch):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    answers = Event()

    def hang(folder: Path, now: float) -> list[Path]:
        answers.wait()
        return waiting(folder, now)

    def looking() -> list[Thread]:
        return [thread for thread in enumerate_threads() if thread.name == "watched folder"]

    # As a folder of a network does whose server is away.
    monkeypatch.setattr("fhirapp.features.imports.folder.waiting", hang)
    monkeypatch.setattr("fhirapp.features.imports.folder._LOOK_SECONDS", 0.1)
    for hours in (1, 2, 3):
        ended = look(app, START + hours * HOUR)
        assert ended.note == f"The watched folder {inbox} does not answer."
        assert len(looking()) == 1
    answers.set()
    looking()[0].join()
    monkeypatch.undo()
    assert look(app, START + 4 * HOUR).outcome == DONE


def left_behind(inbox: Path) -> Path:
    """Return a unit that a run had taken whose process is gone."""
    work = inbox / ".fhirapp" / queue.new_id()
    unit = write(work, "left.ndjson", patient("p1"))
    (work / ".held").touch()
    return unit


@pytest.mark.campaign
def test_file_taken_by_a_dead_run_is_imported_by_the_next(app, inbox):
    left_behind(inbox)
    add(app, FOLDER, folder=str(inbox))
    assert look(app).outcome == DONE
    assert (patients(app), names(inbox / "done")) == ({"p1"}, ["left.ndjson"])
    assert names(inbox / ".fhirapp") == []


def test_file_held_by_a_living_run_is_left_alone(app, inbox):
    unit = left_behind(inbox)
    with unit.with_name(".held").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        add(app, FOLDER, folder=str(inbox))
        assert look(app).outcome == DONE
        assert (unit.exists(), patients(app)) == (True, set())
    assert look(app, START + 2 * HOUR).outcome == DONE
    assert patients(app) == {"p1"}


@pytest.mark.campaign
def test_database_error_leaves_the_file_in_place(app, inbox):
    write(inbox, "lab.ndjson", patient("p1"))
    add(app, FOLDER, folder=str(inbox))
    with app.app_context(), writing() as connection:
        connection.execute(text("ALTER TABLE import_run RENAME TO away"))
    ended = look(app)
    assert ended.outcome == FAILED
    assert ended.note.startswith("The database cannot be used (")
    assert names(inbox) == [".fhirapp", "done", "failed", "lab.ndjson"]
    assert names(inbox / "failed") == []
    with app.app_context(), writing() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO import_run"))
    assert look(app, START + 2 * HOUR).outcome == DONE
    assert names(inbox / "done") == ["lab.ndjson"]


@pytest.mark.process
def test_two_servers_import_each_file_of_a_folder_once(make_app, inbox, monkeypatch):
    monkeypatch.setattr("fhirapp.jobs.process._spawn", start_job)
    both = [make_app(seed=False), make_app(seed=False)]
    wanted = {f"p{number}" for number in range(30)}
    for name in wanted:
        write(inbox, f"{name}.ndjson", patient(name))
    jobs = []
    for app in both:
        add(app, FOLDER, folder=str(inbox))
        with app.app_context():
            run_due(START + HOUR)
            jobs.append(queue.jobs(FOLDER)[0].id)
    for app, job_id in zip(both, jobs, strict=True):
        assert wait_for(app, job_id).state == DONE
    first, second = map(patients, both)
    assert first | second == wanted
    assert not first & second
    assert len(names(inbox / "done")) == 30
