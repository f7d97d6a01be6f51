"""The administrator's pages of schedules: added, run, paused, removed; failures are shown.

Who may open them is tested in test_pages.py, which schedules are refused and what a run does in
tests/server/test_scheduler.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.audit.entries import entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.features.health import metrics
from fhirapp.features.health.examine import examine
from fhirapp.features.imports.jobs import FOLDER, PULL
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.queue import DONE
from fhirapp.jobs.schedules import run_due
from fhirapp.probe import WRONG, Cost
from tests.support.browsing import Browser, Page, add_person
from tests.support.importing import patient, write
from tests.support.jobs import HeldJobs, newest

PATH = "/admin/schedules"
pytestmark = pytest.mark.usefixtures("jobs_in_process")


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


@pytest.fixture
def lab(admin: Browser, inbox: Path) -> Page:
    """The page of a schedule that watches a folder."""
    form = {"name": "lab", "when": "every 5 minutes", "folder": str(inbox), "source": "lab"}
    listed = admin.get(f"{PATH}/folder/new").send("/new", **form)
    assert listed.path == f"{PATH}?done=added"
    assert "lab Import from a folder every 5 minutes" in listed.words
    return admin.get(listed.links["lab"])


def run_later(app: Flask, seconds: int) -> None:
    """Start what is due as the worker does, so many seconds later."""
    now = int(time.time()) + seconds
    with app.app_context():
        while run_due(now):
            pass


def test_schedule_is_added_run_paused_and_removed(app, admin, inbox, lab):
    write(inbox, patient("p1"), "one.ndjson")
    assert f"Folder {inbox}" in lab.words
    assert "No runs yet." in lab.words
    page = admin.get(lab.send("/run").path)
    # What was just written may still grow.
    assert "There was nothing to import." in page.words
    report = admin.get(f"/admin/imports/{newest(app, FOLDER).id}")
    assert "by schedule:lab" in report.words
    page = page.send("/pause")
    assert "none while paused" in page.words
    assert "paused" in admin.get(PATH).words
    question = page.send("/resume").send("/remove")
    assert question.send("/remove").path == f"{PATH}?done=removed"
    assert admin.get(f"{PATH}/lab").status == 404
    with app.app_context():
        events = [entry.event for entry in entries(kind="administration", limit=50)]
    told = [event for event in events if event.startswith("schedule-")][::-1]
    assert told == [
        f"schedule-{event}" for event in ["added", "begun", "paused", "resumed", "removed"]
    ]


def test_refused_schedule_stays_as_typed(app, admin):
    for kind, typed in (
        ("folder", {"folder": "/no/such"}),
        ("pull", {"address": "https://h/fhir/Patient"}),
        ("backup", {"keep": "many"}),
        ("backup", {"keep": "0"}),
    ):
        page = admin.get(f"{PATH}/{kind}/new").send("/new", name="x-1", when="hourly", **typed)
        assert (page.status, len(page.alerts)) == (400, 1)
        assert {name: page.form_to("/new").fields[name] for name in typed} == typed
    with app.app_context():
        assert schedules.schedules() == []


def test_failure_is_shown_on_the_overview_in_metrics_and_in_the_check(app, admin, inbox, lab):
    inbox.rename(inbox.with_name("away"))
    run_later(app, 600)
    why = f"The watched folder {inbox} cannot be read (No such file or directory)."
    told = f"The schedule lab failed (consecutive failures: 1): {why}"
    assert admin.get("/admin").links[told] == lab.path
    assert why in admin.get(PATH).words
    with app.app_context():
        found = examine(Cost.FAST).findings["Schedules"]
    assert [(each.state, why in each.in_english()[0]) for each in found] == [(WRONG, True)]
    samples = {
        sample.name.removeprefix("fhirapp_schedule_"): sample.value
        for metric in metrics._ProbeCollector(app).collect()
        for sample in metric.samples
        if sample.labels.get("schedule") == "lab"
    }
    assert (samples["failures"], samples["success_seconds"]) == (1, 0)
    assert samples["failure_seconds"] > 1_700_000_000
    inbox.with_name("away").rename(inbox)
    run_later(app, 1_200)
    assert "The schedule lab failed" not in admin.get("/admin").words


def test_refused_file_is_shown_until_somebody_removes_it(app, admin, inbox, lab):
    (inbox / "wrong.ndjson").write_text("{}")
    run_later(app, 600)
    failed = ["", ".rejected.ndjson", ".report.html", ".report.json"]
    found = sorted(path.name for path in (inbox / "failed").iterdir())
    assert found == [f"wrong.ndjson{end}" for end in failed]
    # What is stored after does not mend it.
    write(inbox / "right", patient("p1"))
    run_later(app, 1_200)
    told = next(words for words in admin.get("/admin").links if "schedule lab" in words)
    assert told.endswith("failed/ that could not be imported completely: 1")
    assert "In the folder failed/ 1 " in admin.get(lab.path).words
    for path in (inbox / "failed").iterdir():
        path.unlink()
    assert "entries in its folder failed/" not in admin.get("/admin").words
    assert "In the folder failed/" not in admin.get(lab.path).words


def test_run_is_shown_and_stopped(app, admin, lab, held_jobs: HeldJobs):
    page = lab.send("/run")
    assert held_jobs.count == 1
    assert "starting" in page.words
    assert "running" in admin.get(PATH).words
    assert "stopping" in page.send("/stop").words
    with app.app_context():
        job = queue.jobs(FOLDER)[0]
        assert job.stop_requests == 1
        queue.finish(job, DONE, int(time.time()))
    assert f"{lab.path}/run" in admin.get(lab.path).actions


def test_address_is_shown_without_its_query(app, admin):
    address = "https://h.example/fhir/$export?token=secret"
    admin.get(f"{PATH}/pull/new").send("/new", name="h", when="hourly", address=address)
    shown = admin.get(f"{PATH}/h")
    assert "https://h.example/fhir/$export" in shown.words
    assert "secret" not in shown.response.text
    with app.app_context():
        assert schedules.find("h").kind == PULL
    for path in ("/none", "/none/new", "/folder"):
        assert admin.get(f"{PATH}{path}").status == 404
