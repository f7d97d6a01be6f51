"""Audit entries of pages: what administrators download and start there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.audit.store import NAME
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.features.backups.jobs import BACKUP
from fhirapp.rest import recorder
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import BASE_URL
from tests.support.jobs import newest, task_id

SECRET = "correct horse battery"

pytestmark = pytest.mark.usefixtures("jobs_in_process")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    app = make_app()

    # A page of no blueprint: what is noted is noted of any.
    def noting(name: str) -> tuple[str, int]:
        recorder.note("u1", "audit", f"name={name}")
        return "", 404 if name == "none" else 200

    app.add_url_rule("/noting/<name>", view_func=noting, methods=["GET", "POST"])
    return app


@pytest.fixture(scope="module")
def username(app: Flask) -> str:
    return add_person(app, ADMINISTRATOR, name="Alex Admin")


@pytest.fixture(scope="module")
def admin(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


def noted(app: Flask, **filters: Any) -> list[AuditEntry]:
    """Return the entries of pages, the newest first."""
    with app.app_context():
        return [entry for entry in entries(**filters) if not entry.path.startswith("/fhir")]


def status_of(admin: Browser, path: str) -> int:
    """Download something to its end; return the status."""
    return admin.client.get(path, base_url=BASE_URL, buffered=True).status_code


def test_page_is_noted_without_its_query_and_its_form(app, admin):
    for name, status in (("some", 200), ("none", 404)):
        app.test_client().post(f"/noting/{name}?secret=1", data={"secret": "2"})
        entry = noted(app, user_id="u1")[0]
        assert (entry.method, entry.path, entry.body) == ("POST", f"/noting/{name}", f"name={name}")
        assert (entry.status, entry.via, entry.client_id) == (status, "audit", "pages")
        assert entry.request_id
        assert "secret" not in json.dumps(entry)
    # Most pages are not noted.
    before = len(noted(app))
    assert admin.get("/admin/exports").status == 200
    assert len(noted(app)) == before


def test_export_and_its_download_are_noted(app, admin, username):
    page = admin.get("/admin/exports").submit("Start export", type=["Patient", "Group"])
    assert status_of(admin, f"{page.path}/files/export.zip") == 200
    assert status_of(admin, f"{page.path}/files/none.zip") == 404
    download, start = noted(app, user_id=id_of(app, username))[:2]
    found = [(entry.method, entry.path, entry.status) for entry in (download, start)]
    archive = f"{page.path}/files/export.zip"
    assert found == [("GET", archive, 200), ("POST", "/admin/exports", 303)]
    assert start.body.startswith(f"task={task_id(page)}&types=Patient&types=Group&")
    words = admin.get("/admin/audit").words
    assert "Alex Admin downloaded a file of an export via the administration pages" in words
    assert "Alex Admin started an export via the administration pages" in words


def test_backup_is_noted_without_its_passphrase(app, admin, username):
    admin.get("/admin/backups").submit("Take a backup", passphrase=SECRET, again=SECRET)
    name = newest(app, BACKUP).progress.name
    assert status_of(admin, f"/admin/backups/{name}/file") == 200
    found = [(entry.method, entry.path) for entry in noted(app, user_id=id_of(app, username))[:2]]
    assert found == [("GET", f"/admin/backups/{name}/file"), ("POST", "/admin/backups")]
    trail = [*settings_of(app).instance.glob(f"{NAME}*")]
    assert trail
    assert not any(b"horse" in path.read_bytes() for path in trail)
    words = admin.get("/admin/audit").words
    assert "downloaded a backup" in words
    assert "took a backup" in words


def test_download_of_the_audit_trail_is_noted(app, admin, username):
    assert status_of(admin, "/admin/audit/download/csv?patient=p1") == 200
    entry = noted(app, user_id=id_of(app, username))[0]
    assert (entry.path, entry.body) == ("/admin/audit/download/csv", "patient=p1")
    assert "downloaded the audit trail of Amelia Rose Hartwell" in admin.get("/admin/audit").words
