"""Files of two servers are shared: exports, uploads, jobs, reports, backups."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import urlencode

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.files import shared_files
from fhirapp.jobs import process, table
from fhirapp.ops.jobs import BACKUP, DRILL, EXPORT
from tests.support.browsing import Browser, add_person
from tests.support.bulk import Exports
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL
from tests.support.import_pages import import_lock
from tests.support.jobs import newest, task, task_id, wait_for

BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)
Servers = tuple[Flask, Flask]


def patient(name: str) -> bytes:
    return json.dumps({"resourceType": "Patient", "id": name}).encode()


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


class Upload:
    """An upload whose pieces go to either server."""

    def __init__(self, browsers: tuple[Browser, Browser]) -> None:
        self.pages = [browser.get("/admin/imports") for browser in browsers]
        self.id = self.pages[0].form("Start import").fields["task"]

    def send(self, server: int, content: bytes, at: int, until: int) -> tuple[int, object]:
        """Send a part of a file to a server; return what that answers."""
        page = self.pages[server]
        query = urlencode({"name": "a.ndjson", "size": len(content), "at": at, "left": 0})
        response = page.browser.client.post(
            f"/admin/uploads/{self.id}/0?{query}",
            base_url=BASE_URL,
            data=content[at:until],
            headers={"X-Form-Token": page.form("Start import").fields["form_token"]},
        )
        return response.status_code, response.json


@BOTH
def test_one_of_two_concurrent_pieces_is_taken(browsers, place):
    content = b"x" * 100_000
    upload = Upload(browsers)
    barrier = Barrier(2)

    def send(server: int) -> int:
        barrier.wait()
        return upload.send(server, content, 0, 50_000)[0]

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(send, (0, 1))) == [200, 409]
    assert len([name for name in place.names() if upload.id in name]) == 1
    form = {"form_token": upload.pages[1].form("Start import").fields["form_token"]}
    browsers[1].post(f"/admin/uploads/{upload.id}/discard", form)
    assert not [name for name in place.names() if upload.id in name]


def test_dry_run_of_one_server_is_imported_by_the_other(servers, browsers):
    upload = Upload(browsers)
    content = patient("in-earnest")
    upload.send(0, content, 0, len(content))
    page = browsers[0].get(f"/admin/imports?upload={upload.id}")
    begun = page.submit("Start import", dry_run="yes")
    assert wait_for(servers[0], task_id(begun)).state == "done"
    again = browsers[1].get(begun.path).submit("Import now")
    assert wait_for(servers[1], task_id(again)).state == "done"
    assert "All records were stored." in browsers[0].get(again.path).words


@pytest.mark.process
@BOTH
def test_job_is_stopped_and_its_files_removed_through_the_other_server(servers, browsers, place):
    with import_lock(servers[0]):
        upload = Upload(browsers)
        content = patient("stopped")
        upload.send(0, content, 0, len(content))
        begun = browsers[0].get(f"/admin/imports?upload={upload.id}").submit("Start import")
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
    page.submit("Test backup")
    tried = newest(servers[1], DRILL)
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
    known, unknown = table.new_id(), table.new_id()
    with app.app_context():
        files = shared_files(settings_of(app))
        for job_id in (known, unknown):
            files.put(f"tasks/{job_id}/made/export.zip", b"PK")
        with writing() as connection:
            assert table.add(connection, known, EXPORT, "admin", int(time.time()), runs=True)
        process.remove_orphans(time.time() - 3_600)
        assert f"tasks/{unknown}/made/export.zip" in place.names()
        # A store is looked through once an hour.
        if files.is_folder:
            process.remove_orphans(time.time() + 3_600)
            assert f"tasks/{unknown}/made/export.zip" not in place.names()
        assert f"tasks/{known}/made/export.zip" in place.names()
        table.delete_job(known)


def test_shared_files_are_private(servers, place):
    if place.files.startswith("s3://"):
        pytest.skip("whoever has a key of the bucket reads it")
    with servers[0].app_context():
        shared_files(settings_of(servers[0])).put("exports/x/1/a.ndjson", b"{}")
    root = settings_of(servers[0]).files
    assert os.stat(f"{root}/exports/x/1/a.ndjson").st_mode & 0o777 == 0o600  # noqa: PTH116
    assert os.stat(f"{root}/exports/x").st_mode & 0o777 == 0o700  # noqa: PTH116
