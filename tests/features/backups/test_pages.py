"""The administrator's pages of backups: taken, tested, downloaded, uploaded, deleted.

Who may open them is tested in tests/web/test_pages.py.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.disk import database_path
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.backups.prepared import DONE, PreparedRestore
from fhirapp.jobs import queue, schedules
from tests.support.browsing import Browser, Page, add_person
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL
from tests.support.jobs import HeldJobs, newest

PATH = "/admin/backups"
SECRET = "correct horse battery"

pytestmark = [pytest.mark.databases(SQLITE, POSTGRESQL), pytest.mark.usefixtures("jobs_in_process")]


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(seed=False)


@pytest.fixture(scope="module")
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def taken(admin: Browser, passphrase: str = "") -> Page:
    """Take a backup; return its page."""
    admin.get(PATH).submit("Take a backup", passphrase=passphrase, again=passphrase)
    job = newest(admin.client.application, BACKUP)
    assert job.state == "done", job.progress.notes
    return admin.get(f"{PATH}/{job.progress.name}")


def verified(page: Page, **fields: str) -> Page:
    """Test a backup; return its page after that."""
    page.send("/drill", **fields)
    newest(page.browser.client.application, VERIFICATION)
    return page.browser.get(page.path)


def uploaded(admin: Browser, content: bytes, name: str) -> Page:
    form = dict(admin.get(PATH).form_to("/upload").fields)
    sent = {**form, "files": (io.BytesIO(content), name)}
    return admin.post(f"{PATH}/upload", sent, content_type="multipart/form-data")


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / "backups"


def file_of(app: Flask, page: Page) -> Path:
    return folder_of(app) / page.path.rsplit("/", 1)[-1]


@pytest.fixture(scope="module")
def plain(admin: Browser) -> Page:
    """The page of a backup that is not encrypted."""
    return taken(admin)


def test_backup_is_taken_listed_and_downloaded(app, admin, plain):
    assert "anyone who has the file can read the records" in plain.words
    answer = admin.client.get(f"{plain.path}/file", base_url=BASE_URL, buffered=True)
    assert f"{plain.path}/file" in plain.offered.values()
    assert answer.data == file_of(app, plain).read_bytes()
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    listed = admin.get(PATH)
    assert file_of(app, plain).name in listed.words
    assert f"fhirapp restore {file_of(app, plain)} --force" in listed.words
    # One that is being taken is none yet.
    part = file_of(app, plain).with_name(".fhirapp-12345678.part")
    part.write_bytes(file_of(app, plain).read_bytes())
    assert part.name not in admin.get(PATH).words + admin.get("/admin").words
    assert admin.get(f"{PATH}/{part.name}").status == 404
    part.unlink()


def test_restore_command_names_this_server_and_no_password(app, admin, plain, monkeypatch):
    monkeypatch.setenv("FHIRAPP_INSTANCE_PATH", "/srv/the clinic")
    command = f"FHIRAPP_INSTANCE_PATH='/srv/the clinic' fhirapp restore {file_of(app, plain)}"
    assert f"{command} --force" in admin.get(plain.path).words
    monkeypatch.setenv("FHIRAPP_DATABASE_URL", "postgresql://ann:secret@host/x")
    assert "secret" not in admin.get(plain.path).words


def test_backup_is_verified_and_damage_is_found(app, admin, plain):
    assert "Never. Verify your backup before you need it." in plain.words
    never = admin.get(PATH).words.count(" never ")
    assert "Verified: all of its" in verified(plain).words
    assert admin.get(PATH).words.count(" never ") == never - 1
    page = taken(admin)
    path = file_of(app, page)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert "not a backup, or it is damaged" in verified(page).words
    assert " failed Restore" in admin.get(PATH).words
    path.unlink()


def test_passphrases_that_differ_start_no_backup(admin, held_jobs: HeldJobs):
    page = admin.get(PATH).submit("Take a backup", passphrase="one", again="other")
    assert (page.status, len(page.alerts)) == (400, 1)
    assert held_jobs.count == 0


def test_backup_is_deleted_after_a_question(app, admin):
    page = taken(admin)
    question = page.send("/delete")
    assert file_of(app, page).exists()
    assert question.send("/delete").path == f"{PATH}?done=deleted"
    assert not file_of(app, page).exists()
    assert admin.get(page.path).status == 404


def test_no_other_file_is_shown_downloaded_or_deleted(app, admin, plain):
    (folder_of(app) / "x.backup").write_text("no backup")
    for name in ("..", "%2e%2e", "../secret.key", "secret.key", "x.backup"):
        for path in (name, f"{name}/file"):
            assert admin.get(f"{PATH}/{path}").status == 404
        assert admin.post_with_token(f"{PATH}/{name}/delete", sure="yes").status == 404
    assert (folder_of(app) / "x.backup").exists()
    assert settings_of(app).is_postgresql or (settings_of(app).instance / "secret.key").exists()


@pytest.mark.databases(POSTGRESQL)
def test_page_says_what_to_install_where_pg_dump_is_missing(app, admin, plain, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("fhirapp.features.backups.client.DEBIAN", Path("/none"))
    page = admin.get(PATH)
    assert "install Debian's postgresql-client-" in page.words
    assert PATH not in page.actions
    assert admin.post_with_token(PATH, task=queue.new_id()).status == 409


def test_restore_page_shows_the_command_where_the_server_cannot_restart(app, admin, plain):
    page = admin.get(f"{plain.path}/restore")
    assert f"fhirapp restore {file_of(app, plain)} --force" in page.words
    assert "/restore" not in " ".join(page.actions)
    is_postgresql = settings_of(app).is_postgresql
    why = "all servers must be stopped" if is_postgresql else "was not started by fhirapp serve"
    assert why in page.words
    for path in ("restore", "restore/confirm"):
        form = {"typed": "restore", "reason": "A test"}
        assert admin.post_with_token(f"{plain.path}/{path}", **form).status == 409
    assert admin.get("/admin/restoring").path == PATH


def test_uploaded_backup_is_kept_under_a_name_of_its_own(app, admin, plain):
    before = {*folder_of(app).iterdir()}
    assert uploaded(admin, b"\x1f\x8b\x08 one", "../of last/week.backup").status == 200
    job = newest(app, BACKUP)
    assert job.state == "done", job.progress.notes
    # No name leads out of the folder.
    assert re.fullmatch(r"uploaded-\d{8}T\d{6}\.\d{6}Z-file-0.backup", job.progress.name)
    assert job.progress.name in admin.get(PATH).words
    kept = folder_of(app) / job.progress.name
    assert kept.read_bytes() == b"\x1f\x8b\x08 one"
    kept.unlink()
    uploaded(admin, b"{}", "x.backup")
    assert newest(app, BACKUP).error == "What was uploaded is not a backup."
    assert {*folder_of(app).iterdir()} == before
    page = admin.get(PATH).send("/upload")
    assert (page.status, len(page.alerts)) == (400, 1)


def test_demo_takes_no_uploaded_backup(make_app, held_jobs: HeldJobs):
    """Whoever signs in there would bring a database of their own making."""
    app = make_app(demo=True)
    admin = Browser(app).resume("admin")
    page = admin.get(PATH)
    assert f"{PATH}/upload" not in page.actions
    sent = {"form_token": page.token, "task": queue.new_id()}
    sent |= {"files": (io.BytesIO(b"\x1f\x8b\x08 one"), "x.backup")}
    page = admin.post(f"{PATH}/upload", sent, content_type="multipart/form-data")
    assert (page.status, held_jobs.count) == (400, 0)


@pytest.mark.process
@pytest.mark.usefixtures("job_processes")
def test_passphrase_opens_the_backup_and_is_stored_nowhere(app, admin, caplog):
    with caplog.at_level(logging.DEBUG):
        page = taken(admin, SECRET)
        assert "--force --passphrase-file PASSPHRASE.txt" in page.words
        refused = page.send("/drill", passphrase="")
        assert (refused.status, len(refused.alerts)) == (400, 1)
        page = verified(page, passphrase=SECRET)
        assert "Verified: all of its" in page.words
        assert "The passphrase does not open" in verified(page, passphrase="another one").words
    assert SECRET not in caplog.text
    stored = [path for path in settings_of(app).instance.rglob("*") if path.is_file()]
    assert stored
    assert not any(SECRET.encode() in path.read_bytes() for path in stored)
    with app.app_context():
        jobs = queue.jobs(BACKUP, VERIFICATION)
    assert {job.kind for job in jobs} == {BACKUP, VERIFICATION}
    assert "passphrase" not in json.dumps([job.request for job in jobs])


@pytest.mark.parametrize("tests_each", ["yes", ""])
def test_backup_every_night_is_scheduled_on_the_page_of_backups(app, admin, tests_each):
    form = admin.get(PATH).form("Back up every night")
    assert (form.fields["at"], form.fields["keep"]) == ("02:00", "14")
    refused = admin.post(form.action, {**form.fields, "keep": "no number"})
    assert (refused.status, refused.form("Add the schedule").fields["when"]) == (400, "daily 02:00")
    admin.post(form.action, {**form.fields, "at": "03:30", "drill": tests_each})
    with app.app_context():
        (added,) = (found for found in schedules.schedules() if found.kind == BACKUP)
        schedules.remove(added.name)
    assert (added.name, added.timing) == ("nightly", "daily 03:30")
    assert (added.options["keep"], added.options.get("drill", "")) == (14, tests_each)


def test_scheduled_backups_are_listed_instead_of_the_form(app, admin):
    form = admin.get(PATH).form("Back up every night")
    admin.post(form.action, form.fields)
    page = admin.get(PATH)
    assert "nightly daily 02:00 Next run:" in page.words
    assert admin.get(page.links["nightly"]).status == 200
    with app.app_context():
        schedules.remove("nightly")


def test_new_schedule_of_backups_tests_each_unless_told_otherwise(admin):
    form = admin.get("/admin/schedules/backup/new").form("Add the schedule")
    assert form.fields["drill"] == "yes"
    unticked = {name: value for name, value in form.fields.items() if name != "drill"}
    refused = admin.post(form.action, {**unticked, "name": "one", "when": "nonsense"})
    assert "drill" not in refused.form("Add the schedule").fields


@pytest.mark.databases(SQLITE)
def test_sign_in_after_a_restore_says_why_everyone_is_signed_out(make_app):
    app = make_app(seed=False)
    database = database_path(settings_of(app))
    assert database is not None
    folder = database.with_name(f"{database.name}.prepared")
    folder.mkdir()
    outcome = PreparedRestore("x", "a.backup", "", "", 0, {}, [], 0, state=DONE)
    (folder / "restore.json").write_text(json.dumps(asdict(outcome)))
    page = Browser(app).get("/admin/restoring")
    assert "The server was restored from a backup, so everyone was signed out." in page.words
