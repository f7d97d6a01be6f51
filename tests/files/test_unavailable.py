"""Unreachable file storage: the message, no loss, and no key in a log."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.environment import load_settings
from fhirapp.features.exports.jobs import EXPORT
from fhirapp.features.health.examine import examine
from fhirapp.files import Bucket, FilesUnavailable, UnusableFiles, shared_files
from fhirapp.jobs import process
from fhirapp.probe import WRONG, Cost
from tests.support.browsing import Browser, add_person
from tests.support.bulk import Exports
from tests.support.helpers import assert_outcome
from tests.support.jobs import newest, task
from tests.support.object_store import BUCKET, ObjectStore
from tests.support.shell import environment

UNREACHABLE = "the store cannot be reached"


def test_invalid_files_setting_stops_the_start():
    for files, words in {
        "shared": "is not a whole path; it begins with a slash.",
        "gs://bucket": "is neither a folder nor s3://bucket/prefix.",
        "s3://": "is neither a folder nor s3://bucket/prefix.",
        "s3://Bucket/x": "is neither a folder nor s3://bucket/prefix.",
        "s3://bucket/../x": "is neither a folder nor s3://bucket/prefix.",
        "s3://AKID:secret@bucket/x": "keys are set in AWS_ACCESS_KEY_ID",
    }.items():
        with pytest.raises(ConfigurationError) as raised:
            load_settings({"FHIRAPP_FILES": files})
        assert words in str(raised.value)
        assert "secret" not in str(raised.value)


def start(folder: Path, files: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start a server that ends once it listens: its host is no address of this machine."""
    return subprocess.run(
        [sys.executable, "-m", "fhirapp", "serve", "--host", "192.0.2.1"],
        env={**environment(folder, FILES=files, BASE_URL="https://fhir.example"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("bucket", "variables", "reason"),
    [
        (BUCKET, {"AWS_SECRET_ACCESS_KEY": "not-the-secret"}, "the store refuses the key"),
        (BUCKET, {"AWS_ACCESS_KEY_ID": "AKIDSTRANGER"}, "the store refuses the key"),
        ("elsewhere", {}, "there is no bucket elsewhere"),
        (BUCKET, {"AWS_ENDPOINT_URL": "s3.clinic.example"}, "AWS_ENDPOINT_URL is no address"),
    ],
)
def test_store_that_refuses_stops_the_start(tmp_path, store, bucket, variables, reason):
    done = start(tmp_path, f"s3://{bucket}/x", **variables)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert f"FHIRAPP_FILES=s3://{bucket}/x cannot be used: {reason}" in line
    for value in {**store.environment, **variables}.values():
        if not value.startswith(("http", "us-")):
            assert value not in done.stderr + done.stdout


@pytest.mark.process
def test_unreachable_store_is_reported_and_records_are_served(tmp_path, store):
    done = start(tmp_path, f"s3://{BUCKET}", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    told, _created, listened = done.stderr.splitlines()
    assert f"FHIRAPP_FILES=s3://{BUCKET} cannot be used: {UNREACHABLE}" in told
    assert told.endswith("Until this is fixed, exports, import reports and backups fail.")
    assert "Cannot listen on 192.0.2.1" in listened


def test_unresponsive_store_times_out(monkeypatch, store):
    assert store
    monkeypatch.setattr("fhirapp.files._QUICK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # It takes connections, and says nothing.
        port = listener.getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        files = Bucket(f"s3://{BUCKET}")
        began = time.monotonic()
        for ask in (files.check, lambda: files.stat("a"), lambda: [*files.list("a")]):
            with pytest.raises((UnusableFiles, FilesUnavailable), match=UNREACHABLE):
                ask()
        assert time.monotonic() - began < 10


class Away:
    """A server whose files can be taken away and given back, and an administrator of it."""

    def __init__(
        self, app: Flask, go: Callable[[], object], come: Callable[[], object], reason: str
    ) -> None:
        self.app, self.go, self.come, self.reason = app, go, come, reason
        self.admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
        self.exports = Exports(app)


@pytest.fixture(params=["folder", "s3"])
def away(
    request: pytest.FixtureRequest,
    make_app: Callable[..., Flask],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Away]:
    monkeypatch.setattr("fhirapp.files._RETRIES", 0)
    if request.param == "folder":
        folder = tmp_path / "shared"
        folder.mkdir()
        other = tmp_path / "elsewhere"
        app = make_app(files=str(folder))
        reason = f"there is no folder {folder}"
        yield Away(app, lambda: folder.rename(other), lambda: other.rename(folder), reason)
        rmtree(folder)
        return
    store: ObjectStore = request.getfixturevalue("store")
    app = make_app(files=f"s3://{BUCKET}/away-{tmp_path.name}")
    yield Away(app, store.stop, store.start, UNREACHABLE)


def test_pages_and_exports_report_missing_files_and_go_on_afterwards(away, caplog):
    status = away.exports.started("$export?_type=Patient")
    away.exports.work()
    waiting = away.exports.started("$export?_type=Patient")
    away.go()
    try:
        fetched = away.exports.get(f"{status}/Patient.1.ndjson")
        assert_outcome(fetched, 503, "transient", "Files cannot be reached now; try again later.")
        assert away.exports.kick_off().status_code == 503
        assert away.exports.work() == 1
        page = away.admin.get("/admin/backups")
        assert (page.status, "shared by the servers are not available" in page.words) == (503, True)
        overview = away.admin.get("/admin").words
        assert "The shared file storage cannot be used (" in overview
        assert "There is no backup" not in overview
        with away.app.app_context():
            findings = examine(Cost.REMOTE).findings
        assert [finding.state for finding in findings["Files"]] == [WRONG]
        assert findings["Backups"] == []
        assert away.exports.get("Patient?_count=1").status_code == 200
    finally:
        away.come()
    assert away.exports.get(f"{status}/Patient.1.ndjson").status_code == 200
    reason = "The export's files could not be written; see the server's log."
    assert_outcome(away.exports.get(waiting), 500, "exception", reason)
    assert away.reason in caplog.text
    assert not [
        record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR
    ]
    assert "s3cr3t" not in caplog.text


@pytest.mark.process
def test_files_of_a_job_are_kept_once_the_store_is_back(away):
    admin, app = away.admin, away.app
    form = admin.get("/admin/exports")
    away.go()
    try:
        form.submit("Start export", type="Group")
        job = newest(app, EXPORT)
        assert (job.state, job.outcome) == ("uploading", "done")
        assert job.progress.storage_error.endswith(away.reason)
        page = admin.get(f"/admin/exports/{job.id}")
        assert "storing files" in page.words
        assert f"Its files are still being stored: {job.progress.storage_error}" in page.words
        assert process.folder_of(job.id, settings_of(app).instance).is_dir()
    finally:
        away.come()
    with app.app_context():
        deadline = time.monotonic() + 60
        # Its process may take a moment to end.
        while process.folder_of(job.id, settings_of(app).instance).exists():
            assert time.monotonic() < deadline
            process.store_leftover_files()
        files = shared_files(settings_of(app))
        manifest = json.loads(files.read(f"tasks/{job.id}/made/manifest.json"))
    assert manifest["output"]
    assert (task(app, job.id).state, task(app, job.id).progress.notes) == ("done", [])
    assert "export.zip" in str(admin.get(f"/admin/exports/{job.id}").offered)
