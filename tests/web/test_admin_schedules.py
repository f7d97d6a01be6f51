"""The administrator's page of schedules: added, looked at, run, paused, removed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import insert, update

from fhirapp.audit.read import entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.jobs import schedule, table
from fhirapp.jobs.schedule import ScheduleRow
from fhirapp.jobs.table import DONE, RUNNING, JobRow
from fhirapp.ops import doctor, metrics
from fhirapp.ops.jobs import FOLDER, PULL
from fhirapp.ops.schedules import run_due
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person
from tests.support.importing import patient, write
from tests.support.jobs import newest, wait_for

ADD = "Add the schedule"
pytestmark = pytest.mark.usefixtures("_forked_jobs")


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(seed=False)


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    for own in ("done", "failed"):
        (tmp_path / "inbox" / own).mkdir(parents=True)
    return tmp_path / "inbox"


def added(admin: Browser, inbox: Path, name: str = "lab") -> Page:
    """Add a schedule that watches a folder; return its page."""
    page = admin.get("/admin/schedules/folder/new")
    listed = page.submit(ADD, name=name, when="every 5 minutes", folder=str(inbox), source="lab")
    assert "Schedule added." in listed.words
    assert f"{name} Import from a folder every 5 minutes" in listed.words
    return admin.get(listed.links[name])


def looked(app: Flask, later: int) -> None:
    """Look for what is due as the worker does, so many seconds later, and wait for it."""
    now = int(time.time()) + later
    with app.app_context():
        while run_due(now):
            pass
        job_id = schedule.find("lab").job_id
    if job_id is not None:
        wait_for(app, job_id)
    with app.app_context():
        schedule.settle(schedule.find("lab"), now)


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, admin, inbox, role):
    added(admin, inbox)
    browser = Browser(app).resume(add_person(app, role))
    form = dict(browser.get("/account").form("Sign out").fields)
    form |= {"name": "x", "when": "hourly", "folder": str(inbox), "sure": "yes"}
    for path in ("", "/lab", "/folder/new"):
        assert browser.get(f"/admin/schedules{path}").status == 403
    for path in ("/folder/new", "/lab/run", "/lab/remove", "/lab/pause", "/lab/stop"):
        assert browser.post(f"/admin/schedules{path}", form).status == 403
    with app.app_context():
        assert [one.name for one in schedule.schedules()] == ["lab"]


def test_a_schedule_is_added_run_paused_and_removed(app, admin, inbox):
    write(inbox, patient("p1"), "one.ndjson")
    page = added(admin, inbox)
    assert page.heading == "lab"
    assert f"Folder {inbox}" in page.words
    assert "No runs yet." in page.words
    page = page.submit("Run now")
    job = newest(app, FOLDER)
    page = admin.get(page.path)
    assert "done" in page.words
    # What was just written may still grow.
    assert "There was nothing to import." in page.words
    report = admin.get(f"/admin/imports/{job.id}")
    assert "by schedule:lab" in report.words
    page = page.submit("Pause")
    assert "none while paused" in page.words
    assert "paused" in admin.get("/admin/schedules").words
    page = page.submit("Resume")
    page = page.submit("Remove")
    assert "Remove this schedule?" in page.words
    page = page.submit("Remove schedule")
    assert "Schedule removed." in page.words
    assert admin.get("/admin/schedules/lab").status == 404
    with app.app_context():
        told = [one.event for one in entries(kind="administration", limit=50)]
        told = [event for event in told if event.startswith("schedule-")]
    assert told[::-1] == [
        *("schedule-added", "schedule-begun", "schedule-paused"),
        *("schedule-resumed", "schedule-removed"),
    ]


@pytest.mark.parametrize("state", [RUNNING, None])
def test_the_question_whether_to_remove_stays_while_the_schedule_runs(app, admin, inbox, state):
    page = added(admin, inbox)
    if state is not None:
        alter(app, update(ScheduleRow).values(job_id="a" * 24, began_at=int(time.time())))
        row = {"id": "a" * 24, "kind": FOLDER, "owner": "schedule:lab", "state": state}
        row |= {"created_at": int(time.time()), "lease_until": int(time.time()) + 600}
        alter(
            app, insert(JobRow).values(**row, attempts=1, stop_requests=0, request={}, progress={})
        )
        page = admin.get(page.path)
    page = page.submit("Remove")
    before, polled = page.response.text.split('<div id="schedule"')
    assert ("every 1s" in polled) == (state is not None)
    # What is fetched each second replaces the block of this id alone.
    assert "Remove this schedule?" in before
    assert "Remove this schedule?" not in polled
    assert "Schedule removed." in page.submit("Remove schedule").words


@pytest.mark.parametrize(
    ("kind", "typed", "words"),
    [
        ("folder", {"when": "daily 25:00"}, "is not a valid schedule. Use hourly"),
        ("folder", {"name": "Lab 1"}, "lowercase letters, digits or dashes"),
        ("folder", {"folder": "/no/such"}, "The folder /no/such does not exist"),
        ("folder", {"folder": "/"}, "contains files of the server itself"),
        ("pull", {"address": "https://h/fhir/Patient"}, "is not the URL of an export"),
        ("pull", {"address": "https://h/$export", "key": "/none"}, "needs a key file"),
        ("backup", {"keep": "0"}, "Keep 1 to 10,000 backups."),
        ("backup", {"keep": "many"}, "Keep 1 to 10,000 backups."),
    ],
)
def test_what_is_not_right_is_told_and_what_was_typed_stays(app, admin, kind, typed, words):
    page = admin.get(f"/admin/schedules/{kind}/new")
    page = page.submit(ADD, **{"name": "one", "when": "hourly", **typed})
    assert page.status == 400
    assert words in page.words
    assert {name: page.form(ADD).fields[name] for name in typed} == typed
    with app.app_context():
        assert schedule.schedules() == []


def test_a_failure_waits_on_the_overview_and_is_in_metrics_and_checkup(app, admin, inbox):
    added(admin, inbox)
    inbox.rename(inbox.with_name("away"))
    with app.app_context():
        while run_due(int(time.time()) + 600):
            pass
    why = f"The watched folder {inbox} cannot be read (No such file or directory)."
    told = f"The schedule lab failed (1 consecutive failures): {why}"
    overview = admin.get("/admin")
    assert told in overview.words
    assert overview.links[told] == "/admin/schedules/lab"
    assert why in admin.get("/admin/schedules").words
    with app.app_context():
        found = [one for one in doctor.examine(app, quick=True) if one.what == "Schedules"]
    assert [(one.state, one.words) for one in found] == [
        (doctor.WRONG, f"lab failed (1 consecutive failures): {why}")
    ]
    samples = {
        (sample.name, sample.labels.get("schedule")): sample.value
        for metric in metrics._State(app).collect()
        for sample in metric.samples
    }
    assert samples["fhirapp_schedule_failures", "lab"] == 1
    assert samples["fhirapp_schedule_failure_seconds", "lab"] > 1_700_000_000
    assert samples["fhirapp_schedule_success_seconds", "lab"] == 0
    inbox.with_name("away").rename(inbox)
    with app.app_context():
        while run_due(int(time.time()) + 1_200):
            pass
    assert "failed" not in admin.get("/admin").words


def test_what_was_refused_waits_until_somebody_sees_to_it(app, admin, inbox):
    added(admin, inbox)
    (inbox / "wrong.ndjson").write_text("{}")
    looked(app, 600)
    assert sorted(path.name for path in (inbox / "failed").iterdir()) == [
        *("wrong.ndjson", "wrong.ndjson.rejected.ndjson"),
        *("wrong.ndjson.report.html", "wrong.ndjson.report.json"),
    ]
    # Nothing is there, and then something that is stored: neither mends it.
    looked(app, 1_200)
    write(inbox / "right", patient("p1"))
    looked(app, 1_800)
    told = (
        "The schedule lab: entries in its folder failed/ that could not be imported completely: 1"
    )
    assert admin.get("/admin").links[told] == "/admin/schedules/lab"
    assert "In the folder failed/ 1 " in admin.get("/admin/schedules/lab").words
    words = f"lab: {inbox / 'failed'} has what was not fully imported (1)"
    with app.app_context():
        assert words in [one.words for one in doctor.examine(app, quick=True)]
    for path in (inbox / "failed").iterdir():
        path.unlink()
    assert "failed" not in admin.get("/admin").words
    assert "failed" not in admin.get("/admin/schedules/lab").words.partition("Last runs")[0]


def test_a_run_that_is_at_work_is_shown_and_stopped(app, admin, inbox, monkeypatch):
    page = added(admin, inbox)
    monkeypatch.setattr("fhirapp.jobs.process._spawn", lambda *_of: None)
    page = page.submit("Run now")
    assert "starting" in page.words
    assert "running" in admin.get("/admin/schedules").words
    page = page.submit("Stop run")
    assert "stopping" in page.words
    with app.app_context():
        job = table.find(schedule.find("lab").job_id, FOLDER)
        assert job.stop_requests == 1
        table.finish(job, DONE, int(time.time()))
    page = admin.get(page.path)
    assert "Run now" in [label for form in page.forms for label in form.buttons]


def test_an_address_is_shown_without_what_may_be_secret(app, admin):
    page = admin.get("/admin/schedules/pull/new")
    address = "https://h.example/fhir/$export?token=secret"
    page.submit(ADD, name="h", when="hourly", address=address)
    shown = admin.get("/admin/schedules/h")
    assert "https://h.example/fhir/$export" in shown.words
    assert "secret" not in shown.response.text
    with app.app_context():
        assert schedule.find("h").kind == PULL


@pytest.mark.parametrize("path", ["/none", "/none/new", "/folder"])
def test_what_is_not_there_is_not_found(admin, path):
    assert admin.get(f"/admin/schedules{path}").status == 404
