"""The administrator's page of backups: taken, tried out, fetched, deleted."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.config import settings_of
from fhirapp.jobs import table
from fhirapp.ops.jobs import BACKUP, DRILL
from tests.support.browsing import Browser, Page, add_person
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL
from tests.support.jobs import newest

TAKE, TRY = "Take a backup", "Test backup"
SECRET = "correct horse battery"
PARTS = ("drill", "delete", "restore", "restore/confirm")

pytestmark = [pytest.mark.databases(SQLITE, POSTGRESQL), pytest.mark.usefixtures("_forked_jobs")]


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture(scope="module")
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def taken(admin: Browser, passphrase: str = "") -> Page:
    """Take a backup; return its page."""
    admin.get("/admin/backups").submit(TAKE, passphrase=passphrase, again=passphrase)
    task = newest(admin.client.application, BACKUP)
    assert task.state == "done", task.progress.notes
    return admin.get(f"/admin/backups/{task.progress.name}")


def backups_begun(app: Flask) -> int:
    """Return how many backups were begun, and remembered."""
    with app.app_context():
        return len(table.jobs(BACKUP))


def tried(page: Page, **fields: str) -> Page:
    """Try a backup out; return its page after that."""
    page.submit(TRY, **fields)
    newest(page.browser.client.application, DRILL)
    return page.browser.get(page.path)


def file_of(app: Flask, page: Page) -> Path:
    return settings_of(app).instance / "backups" / page.path.rsplit("/", 1)[-1]


@pytest.fixture(scope="module")
def plain(admin: Browser) -> Page:
    """The page of a backup that is not encrypted."""
    return taken(admin)


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, plain, role):
    browser = Browser(app).resume(add_person(app, role))
    form = dict(browser.get("/account").form("Sign out").fields)
    form |= {"task": table.new_id(), "sure": "yes"}
    shown = ("/admin/backups", "/admin/restoring")
    for path in (*shown, plain.path, f"{plain.path}/file", f"{plain.path}/restore"):
        assert browser.get(path).status == 403
    for path in ("", "/upload", *(f"/{file_of(app, plain).name}/{part}" for part in PARTS)):
        assert browser.post(f"/admin/backups{path}", form).status == 403
    assert file_of(app, plain).exists()


def test_a_backup_is_taken_listed_and_fetched(app, admin, plain):
    assert "no: anyone who has the file can read the records" in plain.words
    path = plain.offered["Download backup"]
    answer = admin.client.get(path, base_url=BASE_URL, buffered=True)
    assert answer.data == file_of(app, plain).read_bytes()
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    listed = admin.get("/admin/backups")
    assert file_of(app, plain).name in listed.words
    assert f"fhirapp restore {file_of(app, plain)} --force" in listed.words


def test_one_that_is_being_taken_is_none_yet(app, admin, plain):
    part = file_of(app, plain).with_name(".fhirapp-12345678.part")
    part.write_bytes(file_of(app, plain).read_bytes())
    assert part.name not in admin.get("/admin/backups").words
    assert admin.get(f"/admin/backups/{part.name}").status == 404
    assert part.name not in admin.get("/admin").words
    part.unlink()


def test_the_command_is_about_this_servers_database(app, admin, plain, monkeypatch):
    monkeypatch.setenv("FHIRAPP_INSTANCE_PATH", "/srv/the clinic")
    command = f"FHIRAPP_INSTANCE_PATH='/srv/the clinic' fhirapp restore {file_of(app, plain)}"
    assert f"{command} --force" in admin.get(plain.path).words
    monkeypatch.setenv("FHIRAPP_DATABASE_URL", "postgresql://ann:secret@host/x")
    assert "secret" not in admin.get(plain.path).words


def test_a_backup_is_tried_out(admin, plain):
    assert "Never. Test your backup before you need it." in plain.words
    page = tried(plain)
    assert "It is whole: all of its" in page.words
    assert "passed on" in admin.get("/admin/backups").words


def test_a_passphrase_is_asked_for_and_kept_nowhere(app, admin, caplog):
    with caplog.at_level(logging.DEBUG):
        page = taken(admin, SECRET)
        assert "yes, with your passphrase" in page.words
        assert "--force --passphrase-file PASSPHRASE.txt" in page.words
        answer = page.submit(TRY, passphrase="")
        assert (answer.status, "Enter the passphrase" in answer.words) == (400, True)
        opened = tried(page, passphrase=SECRET)
        assert "It is whole" in opened.words
        refused = tried(opened, passphrase="another one")
        assert "The passphrase does not open" in refused.words
    assert SECRET not in caplog.text
    kept = [one for one in settings_of(app).instance.rglob("*") if one.is_file()]
    assert kept
    assert not any(SECRET.encode() in one.read_bytes() for one in kept)


def test_a_damaged_backup_is_told(app, admin):
    page = taken(admin)
    path = file_of(app, page)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    page = tried(page)
    assert "not a backup, or it is damaged" in page.words
    assert "test failed" in admin.get("/admin/backups").words
    path.unlink()


def test_passphrases_that_differ_take_no_backup(app, admin):
    before = backups_begun(app)
    page = admin.get("/admin/backups").submit(TAKE, passphrase="one", again="other")
    assert page.status == 400
    assert "The passphrases do not match." in page.words
    assert backups_begun(app) == before


def test_a_backup_is_deleted_once_that_was_said_twice(app, admin):
    page = taken(admin)
    asked = page.submit("Delete this backup")
    assert "Permanently delete this backup?" in asked.words
    assert file_of(app, page).exists()
    assert "Backup deleted." in asked.submit("Delete permanently").words
    assert not file_of(app, page).exists()
    assert admin.get(page.path).status == 404


@pytest.mark.parametrize("name", ["..", "%2e%2e", "../secret.key", "secret.key", "x.backup"])
def test_no_other_file_is_shown_sent_or_deleted(app, admin, plain, name):
    (settings_of(app).instance / "backups" / "x.backup").write_text("no backup")
    form = {"form_token": plain.form(TRY).fields["form_token"], "sure": "yes"}
    for path in (name, f"{name}/file"):
        assert admin.get(f"/admin/backups/{path}").status == 404
    assert admin.post(f"/admin/backups/{name}/delete", form).status == 404
    assert settings_of(app).is_postgresql or (settings_of(app).instance / "secret.key").exists()


@pytest.mark.databases(POSTGRESQL)
def test_where_there_is_no_pg_dump_the_page_says_what_to_install(app, admin, plain, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("fhirapp.ops.backups.client.DEBIAN", Path("/none"))
    page = admin.get("/admin/backups")
    assert "none is here: install Debian's postgresql-client-" in page.words
    assert not any(TAKE in form.buttons for form in page.forms)
    form = {**page.forms[0].fields, "task": table.new_id()}
    assert admin.post("/admin/backups", form).status == 409


def test_what_is_asked_for_is_kept_without_the_passphrase(app):
    with app.app_context():
        jobs = table.jobs(BACKUP, DRILL)
    assert {job.kind for job in jobs} == {BACKUP, DRILL}
    for job in jobs:
        assert "passphrase" not in json.dumps(job.request)


def test_where_no_server_of_ours_restarts_the_page_says_which_command_restores(app, admin, plain):
    page = admin.get(plain.path).browser.get(f"{plain.path}/restore")
    assert f"fhirapp restore {file_of(app, plain)} --force" in page.words
    assert not any("Prepare the restore" in form.buttons for form in page.forms)
    if settings_of(app).is_postgresql:
        assert "all servers must be stopped" in page.words
    else:
        assert "was not started by fhirapp serve" in page.words
    form = {**plain.form(TRY).fields, "typed": "restore", "reason": "A test"}
    for path in ("restore", "restore/confirm"):
        assert admin.post(f"{plain.path}/{path}", form).status == 409
    assert admin.get("/admin/restoring").path == "/admin/backups"


def test_a_backup_is_uploaded_and_listed_under_a_name_of_its_own(app, admin, plain, tmp_path):
    page = admin.get("/admin/backups")
    form = dict(page.form("Upload the backup").fields)
    sent = {"files": (io.BytesIO(b"\x1f\x8b\x08 one"), "../of last/week.backup")}
    path = page.form("Upload the backup").action
    uploaded = admin.post(path, {**form, **sent}, content_type="multipart/form-data")
    assert uploaded.status == 200
    job = newest(app, BACKUP)
    assert job.state == "done", job.progress.notes
    # No name leads out of the folder.
    assert re.fullmatch(r"uploaded-\d{8}T\d{6}Z-file-0.backup", job.progress.name)
    listed = admin.get("/admin/backups")
    assert job.progress.name in listed.words
    kept = settings_of(app).instance / "backups" / job.progress.name
    assert kept.read_bytes() == b"\x1f\x8b\x08 one"
    kept.unlink()


def test_what_is_no_backup_is_not_kept_with_them(app, admin):
    before = {*(settings_of(app).instance / "backups").iterdir()}
    page = admin.get("/admin/backups")
    form = dict(page.form("Upload the backup").fields)
    sent = {"files": (io.BytesIO(b"{}"), "x.backup")}
    admin.post("/admin/backups/upload", {**form, **sent}, content_type="multipart/form-data")
    assert newest(app, BACKUP).progress.notes[0] == "What was uploaded is not a backup."
    assert {*(settings_of(app).instance / "backups").iterdir()} == before
    page = admin.get("/admin/backups").submit("Upload the backup")
    assert (page.status, "Choose the file of a backup" in page.words) == (400, True)


def test_the_demo_takes_no_backup_from_elsewhere(make_app):
    """Whoever signs in there would bring a database of their own making."""
    app = make_app(demo=True)
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    page = admin.get("/admin/backups")
    assert "Upload one" not in page.words
    form = {**page.form(TAKE).fields, "task": table.new_id()}
    sent = {"files": (io.BytesIO(b"\x1f\x8b\x08 one"), "x.backup")}
    answer = admin.post("/admin/backups/upload", form | sent, content_type="multipart/form-data")
    assert (answer.status, "no backup from elsewhere" in answer.words) == (400, True)
    assert backups_begun(app) == 0
