"""The administrator's pages of exports: started and downloaded here, and those that apps started.

Who may open them is tested in tests/web/test_pages.py.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.jobs.worker import sweep
from tests.support.browsing import Browser, Page
from tests.support.bulk import Exports
from tests.support.helpers import BASE_URL
from tests.support.jobs import task, task_id
from tests.support.pages import browser_of

PATH = "/admin/exports"

pytestmark = pytest.mark.usefixtures("jobs_in_process")


def unreachable(_before: float) -> None:
    raise OSError("the store does not answer")


def exported(admin: Browser, **filled: str | list[str]) -> Page:
    """Export; return the page of the export."""
    page = admin.get(PATH).submit("Start export", **filled)
    return admin.get(page.path)


def fetched(admin: Browser, path: str) -> bytes:
    """Return a download, read to its end."""
    return admin.client.get(path, base_url=BASE_URL, buffered=True).data


@pytest.fixture(scope="module")
def whole(clinic: Flask) -> Page:
    """The page of an export of everything."""
    return exported(browser_of(clinic, ADMINISTRATOR))


def made(clinic: Flask, page: Page) -> list[Path]:
    """Return what an export made, as it lies in the instance folder."""
    return [*(settings_of(clinic).instance / "tasks" / task_id(page)).glob("made/*")]


def test_everything_is_exported_into_files_and_an_archive(admin, whole):
    assert "The export is complete and consistent" in whole.words
    path = f"{whole.path}/files/Patient.ndjson"
    content = fetched(admin, path)
    assert {json.loads(line)["resourceType"] for line in content.splitlines()} == {"Patient"}
    assert len(content.splitlines()) == 14
    archive = f"{whole.path}/files/export.zip"
    assert archive in whole.offered.values()
    with zipfile.ZipFile(io.BytesIO(fetched(admin, archive))) as opened:
        assert opened.testzip() is None
        assert opened.read("Patient.ndjson") == content
        names = {file["url"] for file in json.loads(opened.read("manifest.json"))["output"]}
        assert names == set(opened.namelist()) - {"manifest.json"}


@pytest.mark.usefixtures("whole")
def test_audit_trail_names_the_administrator_who_exported(clinic, admin):
    words = admin.get("/admin/audit?kind=administration").words
    assert "exported records" in words
    assert "Deleted user" not in words


def test_export_of_some_types_since_a_day_with_all_versions(clinic, admin):
    page = exported(admin, type=["Patient", "Group"], since="2020-01-01", history="yes")
    assert task(clinic, task_id(page)).request["since"] == "2020-01-01T00:00:00.000+00:00"
    names = {"Patient.ndjson", "Group.ndjson", "export.zip", "manifest.json"}
    assert {path.name for path in made(clinic, page)} == names
    bundle = json.loads(fetched(admin, f"{page.path}/files/Patient.ndjson").splitlines()[0])
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "history")
    refused = admin.get(PATH).submit("Start export", since="yesterday")
    assert (refused.status, len(refused.alerts)) == (400, 1)


def test_form_that_is_sent_twice_exports_once(admin):
    form = admin.get(PATH).form("Start export").fields
    assert len({admin.post(PATH, {**form, "type": "Group"}).path for _ in range(2)}) == 1


def test_files_are_removed_when_they_expire_or_on_request(clinic, admin, monkeypatch):
    expired, removed = (exported(admin, type="Group") for _ in range(2))
    assert removed.send("/remove").path == f"{PATH}?done=removed"
    assert admin.get(removed.path).status == 404
    over = task(clinic, task_id(expired)).ended_at + settings_of(clinic).export_hours * 3_600
    with clinic.app_context():
        sweep(over - 1)
        assert made(clinic, expired)
        # What another step cannot remove keeps no export.
        monkeypatch.setattr("fhirapp.jobs.process.remove_orphans", unreachable)
        sweep(over + 1)
    assert not made(clinic, expired)
    assert admin.get(expired.path).status == 404


def test_no_other_file_is_downloaded(admin, whole):
    for name in ("asked.json", "../asked.json", "%2e%2e/asked.json", ".export.zip.part", "x"):
        assert admin.get(f"{whole.path}/files/{name}").status == 404
    # Neither is an export an import.
    assert admin.get(f"/admin/imports/{task_id(whole)}").status == 404


def test_export_of_an_app_is_listed_and_cancelled(clinic, admin):
    exports = Exports(clinic)
    path = exports.started()
    page = admin.get(PATH)
    assert "waiting 0 %" in page.words
    assert page.send("/cancel").path == f"{PATH}?done=cancelled"
    assert exports.get(path).status_code == 404
    assert exports.kept() == 0
    for name in ("x", "..", "%2e%2e"):
        assert admin.post_with_token(f"{PATH}/clients/{name}/cancel").status == 404
