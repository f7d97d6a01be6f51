"""The administrator's page of exports: begun and fetched here, and those that apps began."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.config import settings_of
from fhirapp.jobs import table
from fhirapp.ops.jobs import sweep
from tests.support.browsing import Browser, Page, add_person
from tests.support.bulk import Exports
from tests.support.helpers import BASE_URL
from tests.support.jobs import task, task_id, wait_for

BEGIN = "Start export"

pytestmark = pytest.mark.usefixtures("_forked_jobs")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture(scope="module")
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def ended(admin: Browser, page: Page) -> Page:
    """Wait for the end of an export; return its page then."""
    wait_for(admin.client.application, task_id(page))
    return admin.get(page.path)


def fetched(admin: Browser, path: str, **headers: str) -> bytes:
    """Return a download, read to its end."""
    return admin.client.get(path, base_url=BASE_URL, headers=headers, buffered=True).data


@pytest.fixture(scope="module")
def whole(admin: Browser) -> Page:
    """The page of an export of everything."""
    return ended(admin, admin.get("/admin/exports").submit(BEGIN))


def made(app: Flask, page: Page) -> list[Path]:
    """Return what an export made, as it lies in the instance folder."""
    return [*(settings_of(app).instance / "tasks" / task_id(page)).glob("made/*")]


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, whole, role):
    browser = Browser(app).resume(add_person(app, role))
    form = dict(browser.get("/account").form("Sign out").fields) | {"task": table.new_id()}
    for path in ("", f"/{task_id(whole)}", f"/{task_id(whole)}/files/export.zip"):
        assert browser.get(f"/admin/exports{path}").status == 403
    for path in ("", f"/{task_id(whole)}/remove", f"/{task_id(whole)}/stop", "/clients/x/cancel"):
        assert browser.post(f"/admin/exports{path}", form).status == 403
    assert made(app, whole)


def test_everything_comes_out_in_files_and_in_an_archive(app, admin, whole):
    assert "The export is complete and consistent" in whole.words
    lines = fetched(admin, f"{whole.path}/files/Patient.ndjson").splitlines()
    assert len(lines) == 14
    assert json.loads(lines[0])["resourceType"] == "Patient"
    (archive,) = (path for words, path in whole.offered.items() if "one archive" in words)
    with zipfile.ZipFile(io.BytesIO(fetched(admin, archive))) as opened:
        assert opened.testzip() is None
        assert opened.read("Patient.ndjson").splitlines() == lines
        names = {one["url"] for one in json.loads(opened.read("manifest.json"))["output"]}
        assert names == set(opened.namelist()) - {"manifest.json"}


def test_a_download_that_broke_goes_on_where_it_was(admin, whole):
    path = f"{whole.path}/files/Patient.ndjson"
    assert fetched(admin, path, Range="bytes=10-19") == fetched(admin, path)[10:20]


def test_some_types_since_a_day_with_all_versions(app, admin):
    page = admin.get("/admin/exports").submit(
        BEGIN, type=["Patient", "Group"], since="2020-01-01", history="yes"
    )
    asked = task(app, task_id(page)).request
    assert asked["since"] == "2020-01-01T00:00:00.000+00:00"
    page = ended(admin, page)
    names = {path.name for path in made(app, page)}
    assert names == {
        "Patient.ndjson",
        "Group.ndjson",
        "export.zip",
        "manifest.json",
    }
    bundle = json.loads(fetched(admin, f"{page.path}/files/Patient.ndjson").splitlines()[0])
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "history")


def test_what_is_no_moment_is_told_on_the_form(admin):
    page = admin.get("/admin/exports").submit(BEGIN, since="yesterday")
    assert page.status == 400
    assert "Enter the date or time as" in page.words


def test_sent_twice_is_exported_once(app, admin):
    form = admin.get("/admin/exports").form(BEGIN).fields
    pages = [admin.post("/admin/exports", {**form, "type": "Group"}) for _ in range(2)]
    assert pages[0].path == pages[1].path
    assert wait_for(app, task_id(pages[0])).state == "done"


def test_files_are_gone_when_their_time_is_over_and_when_somebody_says_so(app, admin):
    pages = [admin.get("/admin/exports").submit(BEGIN, type="Group") for _ in range(2)]
    expired, removed = (ended(admin, page) for page in pages)
    removed.submit("Remove files now")
    assert admin.get(removed.path).status == 404
    over = task(app, task_id(expired)).ended_at + settings_of(app).export_hours * 3_600
    with app.app_context():
        sweep(over - 1)
        assert made(app, expired)
        sweep(over + 1)
    assert not made(app, expired)
    assert admin.get(expired.path).status == 404


def test_no_other_file_is_sent(admin, whole):
    for name in ("asked.json", "../asked.json", "%2e%2e/asked.json", ".export.zip.part", "x"):
        assert admin.get(f"{whole.path}/files/{name}").status == 404
    # Neither is an export an import.
    assert admin.get(f"/admin/imports/{task_id(whole)}").status == 404


def test_exports_of_apps_are_listed_and_cancelled(app, admin):
    exports = Exports(app)
    path = exports.started()
    page = admin.get("/admin/exports")
    assert "Started by apps" in page.words
    assert "waiting 0 %" in page.words
    page = page.submit("Cancel")
    assert "Export cancelled. Its files were removed." in page.words
    assert exports.get(path).status_code == 404
    assert exports.kept() == 0


@pytest.mark.parametrize("name", ["x", "..", "%2e%2e"])
def test_an_export_of_no_app_is_cancelled_by_nobody(admin, name):
    form = {"form_token": admin.get("/admin/exports").form(BEGIN).fields["form_token"]}
    assert admin.post(f"/admin/exports/clients/{name}/cancel", form).status == 404
