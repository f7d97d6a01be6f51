"""What administrators fetch and begin on their pages is in the audit trail too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from flask import Flask, Response

from fhirapp.audit import write
from fhirapp.audit.read import Entry, entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.ops.jobs import BACKUP
from fhirapp.trail import FOLDER
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import BASE_URL
from tests.support.jobs import newest, task_id, wait_for

SECRET = "correct horse battery"

pytestmark = pytest.mark.usefixtures("_forked_jobs")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    app = make_app()

    # A page of no blueprint: what is noted is noted of any.
    def kept(name: str) -> tuple[str, int]:
        write.note("u1", "audit", f"name={name}")
        return "", 404 if name == "none" else 200

    app.add_url_rule("/kept/<name>", view_func=kept, methods=["GET", "POST"])
    return app


@pytest.fixture(scope="module")
def username(app: Flask) -> str:
    return add_person(app, ADMINISTRATOR, name="Alex Admin")


@pytest.fixture(scope="module")
def admin(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


def noted(app: Flask, **asked: Any) -> list[Entry]:
    """Return what is noted of pages, the newest first."""
    with app.app_context():
        found: Sequence[Entry] = entries(**asked)
        return [one for one in found if not one.path.startswith("/fhir")]


def fetched(admin: Browser, path: str) -> Response:
    response: Response = admin.client.get(path, base_url=BASE_URL, buffered=True)
    return response


@pytest.mark.parametrize(("name", "status"), [("some", 200), ("none", 404)])
def test_a_page_that_says_so_is_noted_without_its_query_and_its_form(app, name, status):
    app.test_client().post(f"/kept/{name}?secret=1", data={"secret": "2"})
    entry = noted(app, user_id="u1")[0]
    assert (entry.method, entry.path, entry.body) == ("POST", f"/kept/{name}", f"name={name}")
    assert (entry.status, entry.via, entry.client_id) == (status, "audit", "pages")
    assert entry.request_id
    assert "secret" not in json.dumps(entry)


def test_a_page_that_says_nothing_is_not_noted(app, admin):
    before = len(noted(app))
    assert admin.get("/admin/exports").status == 200
    assert len(noted(app)) == before


def test_an_export_and_its_archive_are_noted(app, admin, username):
    page = admin.get("/admin/exports").submit("Start export", type=["Patient", "Group"])
    wait_for(app, task_id(page))
    assert fetched(admin, f"{page.path}/files/export.zip").status_code == 200
    assert fetched(admin, f"{page.path}/files/none.zip").status_code == 404
    got, begun = noted(app, user_id=id_of(app, username))[:2]
    assert (got.method, got.path, got.status) == ("GET", f"{page.path}/files/export.zip", 200)
    assert (begun.method, begun.path, begun.status) == ("POST", "/admin/exports", 303)
    assert begun.body.startswith(f"task={task_id(page)}&types=Patient&types=Group&")
    words = admin.get("/admin/audit").words
    assert "Alex Admin downloaded a file of an export via the administration pages" in words
    assert "Alex Admin started an export via the administration pages" in words


def test_a_backup_is_noted_without_its_passphrase(app, admin, username):
    admin.get("/admin/backups").submit("Take a backup", passphrase=SECRET, again=SECRET)
    name = newest(app, BACKUP).progress.name
    assert fetched(admin, f"/admin/backups/{name}/file").status_code == 200
    got, begun = noted(app, user_id=id_of(app, username))[:2]
    assert (got.method, got.path) == ("GET", f"/admin/backups/{name}/file")
    assert (begun.method, begun.path) == ("POST", "/admin/backups")
    (folder,) = {settings_of(app).instance / FOLDER}
    assert not any(SECRET.split()[1].encode() in one.read_bytes() for one in folder.iterdir())
    words = admin.get("/admin/audit").words
    assert "downloaded a backup" in words
    assert "took a backup" in words


def test_a_download_of_the_trail_is_noted(app, admin, username):
    assert fetched(admin, "/admin/audit/download/csv?patient=p1").status_code == 200
    (entry, *_) = noted(app, user_id=id_of(app, username))
    assert (entry.path, entry.body) == ("/admin/audit/download/csv", "patient=p1")
    assert "downloaded the audit trail of Amelia Rose Hartwell" in admin.get("/admin/audit").words
