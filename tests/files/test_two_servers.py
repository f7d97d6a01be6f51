"""Files of two servers are shared: exports, jobs, reports, backups; uploads are not."""

from __future__ import annotations

import os
import time

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.exports.jobs import EXPORT
from fhirapp.files import shared_files
from fhirapp.jobs import process, queue
from tests.support.browsing import Browser, add_person
from tests.support.bulk import Exports
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL
from tests.support.import_pages import Upload, import_lock, patient
from tests.support.jobs import newest, task, task_id, wait_for

BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)
Servers = tuple[Flask, Flask]


@pytest.fixture
def exports(servers: Servers) -> tuple[Exports, Exports]:
    """A backend client that asks either server."""
    first = Exports(servers[0])
    second = Exports(servers[1], client_id=first.client_id)
    return first, second


@pytest.fixture(scope="module")
def browsers(servers: Servers) -> tuple[Browser, Browser]:
    """An administrator whose requests go to either server."""
    username = add_person(servers[0], ADMINISTRATOR)
    first, second = (Browser(app).resume(username) for app in servers)
    return first, second


@BOTH
def test_export_is_fetched_and_deleted_through_any_server(exports, place):
    first, second = exports
    status = first.started("$export?_type=Patient")
    assert second.get(status).status_code == 202
    assert second.work() == 1
    export = f"exports/{status.rpartition('/')[2]}"
    assert [name for name in place.names() if name.startswith(export)] == [
        f"{export}/1/Patient.1.ndjson",
        f"{export}/1/manifest.json",
        f"{export}/request.json",
    ]
    assert first.get(status).json["output"][0]["count"] == 14
    whole = first.get(f"{status}/Patient.1.ndjson").data
    assert len(whole.splitlines()) == 14
    part = second.get(f"{status}/Patient.1.ndjson", headers={"Range": "bytes=5-104"})
    assert (part.status_code, part.data) == (206, whole[5:105])
    assert second.request("DELETE", status).status_code == 202
    assert first.get(status).status_code == 404
    assert not [name for name in place.names() if name.startswith(export)]


def test_upload_whose_next_piece_reaches_another_server_is_refused(servers, browsers, place):
    content = patient("in-pieces")
    first, second = Upload(browsers[0]), Upload(browsers[1])
    second.id = first.id
    assert first.send(0, "a.ndjson", content, until=10).json == {"have": 10}
    answer = second.send(0, "a.ndjson", content, at=10)
    assert answer.status_code == 422
    assert "Send it again." in answer.json["said"]
    assert "sticky sessions" in answer.json["said"]
    assert not [name for name in place.names() if first.id in name]
    assert first.send(0, "a.ndjson", content, at=10).json == {"have": len(content)}
    # Nor is the import started by a server that has none of the files.
    sent = {"task": first.id, "uploaded": f"1:{len(content)}"}
    refused = browsers[1].post_with_token("/admin/imports", **sent)
    assert (refused.status, "Send it again." in refused.alerts[0]) == (400, True)
    begun = first.begin()
    assert wait_for(servers[0], task_id(begun)).state == "done"


def test_files_of_a_dry_run_are_imported_by_the_server_that_has_them(servers, browsers):
    upload = Upload(browsers[0])
    upload.send(0, "a.ndjson", patient("in-earnest"))
    begun = upload.begin(dry_run="yes")
    assert wait_for(servers[0], task_id(begun)).state == "done"
    elsewhere = browsers[1].get(begun.path)
    assert "Import now" not in elsewhere.words
    refused = browsers[1].post_with_token(f"{begun.path}/again", task=queue.new_id())
    assert (refused.status, "Upload them again." in refused.words) == (409, True)
    again = browsers[0].get(begun.path).submit("Import now")
    assert wait_for(servers[0], task_id(again)).state == "done"
    assert "All records were stored." in browsers[1].get(again.path).words


@pytest.mark.process
@BOTH
def test_job_is_stopped_and_its_files_removed_through_the_other_server(servers, browsers, place):
    with import_lock(servers[0]):
        upload = Upload(browsers[0])
        upload.send(0, "a.ndjson", patient("stopped"))
        begun = upload.begin()
        while task(servers[1], task_id(begun)).progress.phase != "waits":
            time.sleep(0.02)
        browsers[1].get(begun.path).submit("Stop")
        assert wait_for(servers[1], task_id(begun)).state == "stopped"
    exported = browsers[0].get("/admin/exports").submit("Start export", type="Group")
    assert wait_for(servers[1], task_id(exported)).state == "done"
    page = browsers[1].get(exported.path)
    archive = next(path for path in page.offered.values() if path.endswith("export.zip"))
    assert page.browser.client.get(archive, base_url=BASE_URL).data.startswith(b"PK")
    page.submit("Remove files now")
    assert browsers[0].get(exported.path).status == 404
    assert not [name for name in place.names() if task_id(exported) in name]


def test_backups_are_listed_verified_fetched_and_deleted_through_any_server(
    servers, browsers, place
):
    first, second = browsers
    first.get("/admin/backups").submit("Take a backup", passphrase="", again="")
    taken = newest(servers[0], BACKUP)
    assert taken.state == "done", taken.progress.notes
    assert f"backups/{taken.progress.name}" in place.names()
    page = second.get(f"/admin/backups/{taken.progress.name}")
    assert f"{place.files}/backups/{taken.progress.name} --force" in page.words
    page.submit("Verify backup")
    tried = newest(servers[1], VERIFICATION)
    assert tried.state == "done", tried.progress.notes
    path = f"/admin/backups/{taken.progress.name}/file"
    sent = second.client.get(path, base_url=BASE_URL, buffered=True)
    assert len(sent.data) == sent.content_length > 10_000
    part = first.client.get(path, base_url=BASE_URL, headers={"Range": "bytes=-5"})
    assert (part.status_code, part.data) == (206, sent.data[-5:])
    asked = first.get(page.path).submit("Delete this backup")
    asked.submit("Delete permanently")
    assert second.get(page.path).status == 404
    assert f"backups/{taken.progress.name}" not in place.names()


def test_old_files_of_no_job_are_removed(servers, place):
    app = servers[0]
    known, unknown = queue.new_id(), queue.new_id()
    with app.app_context():
        files = shared_files(settings_of(app))
        for job_id in (known, unknown):
            files.put(f"tasks/{job_id}/made/export.zip", b"PK")
        with writing() as connection:
            assert queue.add(connection, known, EXPORT, "admin", int(time.time()), runs=True)
        process.remove_orphans(time.time() - 3_600)
        assert f"tasks/{unknown}/made/export.zip" in place.names()
        # A store is looked through once an hour.
        if files.is_folder:
            process.remove_orphans(time.time() + 3_600)
            assert f"tasks/{unknown}/made/export.zip" not in place.names()
        assert f"tasks/{known}/made/export.zip" in place.names()
        queue.delete_job(known)


def test_shared_files_are_private(servers, place):
    if place.files.startswith("s3://"):
        pytest.skip("whoever has a key of the bucket reads it")
    with servers[0].app_context():
        shared_files(settings_of(servers[0])).put("exports/x/1/a.ndjson", b"{}")
    root = settings_of(servers[0]).files
    assert os.stat(f"{root}/exports/x/1/a.ndjson").st_mode & 0o777 == 0o600  # noqa: PTH116
    assert os.stat(f"{root}/exports/x").st_mode & 0o777 == 0o700  # noqa: PTH116
