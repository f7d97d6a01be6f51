"""The administrator's page of imports: uploaded, watched, reported."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import delete, select, update
from werkzeug.test import TestResponse

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.config import settings_of
from fhirapp.db import db, writing
from fhirapp.db.turns import turn
from fhirapp.exchange.imports import TURN, uploads
from fhirapp.exchange.imports.uploads import safe_name
from fhirapp.exchange.models import ImportRun, UploadPiece
from fhirapp.jobs import process, table
from fhirapp.jobs.process import Tracker
from fhirapp.ops.jobs import DAY, IMPORT, sweep
from tests.support.authorizing import rows
from tests.support.browsing import Browser, Page, add_person
from tests.support.documents import clinical, medium, section
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.importing import load
from tests.support.jobs import newest, task, task_id, wait_for
from tests.support.noted import attached, note

BEGIN = "Start import"
TOO_OLD = "This form has expired or did not come from this site. Go back and try again."

pytestmark = pytest.mark.usefixtures("_forked_jobs")


def patient(name: str) -> bytes:
    return json.dumps({"resourceType": "Patient", "id": name}).encode() + b"\n"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests import into."""
    return make_app()


@pytest.fixture(scope="module")
def username(app: Flask) -> str:
    return add_person(app, ADMINISTRATOR)


@pytest.fixture
def admin(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


@pytest.fixture
def reads(app: Flask) -> Fhir:
    return Fhir(app, token_for(app, "system/*.rs"))


class Upload:
    """What the page's script does: pieces of files, sent one after the other."""

    def __init__(self, admin: Browser) -> None:
        self.page = admin.get("/admin/imports")
        self.form = self.page.form(BEGIN)
        self.id = self.form.fields["task"]
        self.browser = admin

    def send(self, number: int, name: str, content: bytes, *, at: int = 0, **changes: Any) -> Any:
        """Send what a file has from a place on, up to the place until."""
        until = changes.pop("until", None)
        asked = {"name": name, "size": len(content), "at": at, "left": 0, **changes}
        return self.browser.client.post(
            f"/admin/uploads/{self.id}/{number}?{urlencode(asked)}",
            base_url=BASE_URL,
            data=content[at:until],
            headers={"X-Form-Token": self.form.fields["form_token"]},
        )

    def begin(self, **options: str) -> Page:
        return self.page.submit(BEGIN, **options)


def with_form(admin: Browser, *files: tuple[str, bytes], **options: str) -> Page:
    """Import files as a browser without scripts sends them."""
    form = dict(admin.get("/admin/imports").form(BEGIN).fields)
    del form["files"]
    sent = [(io.BytesIO(content), name) for name, content in files]
    return admin.post("/admin/imports", {**form, **options, "files": sent})


def report(admin: Browser, page: Page) -> Page:
    """Wait for the end of an import; return its page then."""
    wait_for(admin.client.application, task_id(page))
    return admin.get(page.path)


def fetched(admin: Browser, path: str) -> TestResponse:
    """Return a download, read to its end."""
    return admin.client.get(path, base_url=BASE_URL, buffered=True)


def reasons(page: Page) -> Any:
    """Return what was rejected: where and what is expected."""
    text = fetched(page.browser, f"{page.path}/files/report.json").data
    return [(one["place"], one["path"]) for one in json.loads(text)["rejected"]]


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, admin, role):
    begun = with_form(admin, ("a.ndjson", patient("hidden")))
    wait_for(app, task_id(begun))
    browser = Browser(app).resume(add_person(app, role))
    form = dict(browser.get("/account").form("Sign out").fields) | {"task": table.new_id()}
    for path in ("", f"/{task_id(begun)}", f"/{task_id(begun)}/files/report.json"):
        assert browser.get(f"/admin/imports{path}").status == 403
    for path in ("", f"/{task_id(begun)}/stop", f"/{task_id(begun)}/again"):
        assert browser.post(f"/admin/imports{path}", form).status == 403
    assert browser.get(f"/admin/uploads/{table.new_id()}").status == 403
    assert browser.post(f"/admin/uploads/{table.new_id()}/0", form).status == 403


def test_a_file_is_imported_and_its_report_tells_what_came_of_it(app, admin, username, reads):
    lines = patient("ana") + b'{"resourceType":"AllergyIntolerance","id":"a2"}\n'
    lines += (
        b'{"resourceType":"AllergyIntolerance","id":"a3","patient":{"reference":"Patient/gone"}}'
    )
    begun = with_form(admin, ("records.ndjson", lines), source="lab", provenance="yes")
    page = report(admin, begun)
    assert page.heading == "Import"
    assert "1 record was rejected and is not stored. All other records were stored." in page.words
    assert "records.ndjson:2 AllergyIntolerance.patient is required" in page.words
    assert "Patient/gone" in page.words
    assert reads.get("Patient/ana").status_code == 200
    ((run,),) = rows(
        app, select(ImportRun).where(ImportRun.id == task(app, task_id(begun)).progress.run)
    )
    assert (run.who, run.inputs, bool(run.ended_at)) == (username, ["records.ndjson"], True)
    # What was refused is there to be mended, and the report for a program.
    files = {words: fetched(admin, path) for words, path in page.offered.items()}
    kept = files["Rejected records, to correct"]
    assert json.loads(kept.data) == {"resourceType": "AllergyIntolerance", "id": "a2"}
    assert kept.headers["Content-Disposition"] == "attachment; filename=rejected.ndjson"
    assert json.loads(files["Report for programs (JSON)"].data)["rejectedCount"] == 1
    listed = admin.get("/admin/imports").words
    assert f"lab: records.ndjson ({len(lines)} bytes) {username} done 2 new, 1 rejected" in listed


def test_a_folder_comes_in_pieces_and_keeps_its_names(app, admin, reads):
    upload = Upload(admin)
    whole = patient("pieces") + patient("pieces-too")
    first = upload.send(0, "clinic/b.ndjson", whole, until=10)
    assert (first.status_code, first.json) == (200, {"have": 10})
    # What is sent twice is taken once: the answer says how much is here.
    again = upload.send(0, "clinic/b.ndjson", whole, until=10)
    assert (again.status_code, again.json) == (409, {"have": 10})
    # So does whoever comes back for it.
    here = admin.client.get(f"/admin/uploads/{upload.id}", base_url=BASE_URL).json["files"]
    assert here == [{"number": 0, "name": "clinic/b.ndjson", "size": len(whole), "have": 10}]
    assert "The upload is incomplete." in upload.begin().words
    assert upload.send(0, "clinic/b.ndjson", whole, at=10).json == {"have": len(whole)}
    upload.send(1, "clinic/sub/a.ndjson", b'{"resourceType":"Patient","id":"_"}')
    page = report(admin, upload.begin())
    assert [place for place, _ in reasons(page)] == ["clinic/sub/a.ndjson:1"]
    assert reads.get("Patient/pieces-too").status_code == 200
    # Nothing of the upload is kept.
    assert not is_given(app, page)


def test_sent_twice_is_imported_once(app, admin):
    upload = Upload(admin)
    upload.send(0, "twice.ndjson", patient("twice"))
    pages = [upload.begin(), upload.begin()]
    assert pages[0].path == pages[1].path
    wait_for(app, task_id(pages[0]))
    assert upload.begin().path == pages[0].path
    runs = [one for (one,) in rows(app, select(ImportRun.inputs)) if one == ["twice.ndjson"]]
    assert len(runs) == 1
    assert upload.send(1, "b.ndjson", b"{}").status_code == 410


def test_a_dry_run_changes_nothing_and_is_then_done_in_earnest(app, admin, reads):
    page = report(admin, with_form(admin, ("a.ndjson", patient("dry")), dry_run="yes"))
    assert page.heading == "Dry run"
    assert "This was a dry run. Nothing was changed." in page.words
    assert reads.get("Patient/dry").status_code == 404
    page = report(admin, page.submit("Import now"))
    assert "All records were stored." in page.words
    assert reads.get("Patient/dry").status_code == 200


FAULTS = [
    ({}, [], "Choose files or a folder to import."),
    ({"delete_missing": "yes"}, [("a.ndjson", b"{}")], "Enter a source"),
    ({"prefix": "a/b"}, [("a.ndjson", b"{}")], "up to 20 letters, digits, dashes and dots"),
]


@pytest.mark.parametrize(("options", "files", "message"), FAULTS)
def test_what_does_not_fit_together_is_told_on_the_form(admin, options, files, message):
    page = with_form(admin, *files, **options)
    assert page.status == 400
    assert message in page.words
    # The files are here already.
    assert ("1 file uploaded" in page.words) == bool(files)


HOSTILE = [
    "../../escape.ndjson",
    "/etc/escape.ndjson",
    "a/../../escape.ndjson",
    "escape\0.ndjson",
    "-",
    "..",
    "con.ndjson\n",
    "a" * 1500 + ".ndjson",
    "/".join("a" * 60) + ".ndjson",
    "‮nosdn.a.ndjson",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_elsewhere(tmp_path, name):
    place = safe_name(name, 7)
    assert not place.is_absolute()
    assert ".." not in place.parts
    assert str(place) != "-"
    assert "\0" not in str(place)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    assert (tmp_path / place).resolve().is_relative_to(tmp_path.resolve())


def test_files_of_hostile_names_are_imported_under_others(app, admin, reads):
    upload = Upload(admin)
    for number, name in enumerate(HOSTILE):
        assert upload.send(number, name, patient(f"hostile-{number}")).status_code == 200
    # The name that the third one gets, and a file where another has a folder.
    upload.send(98, "file-2.ndjson", patient("hostile-98"))
    upload.send(99, "file-2.ndjson/x.ndjson", patient("hostile-99"))
    page = report(admin, upload.begin())
    assert "../../escape.ndjson was stored as file-0.ndjson." in page.words
    found = [0, 1, 2, 3, 6, 7, 8, 9, 98, 99]
    assert [reads.get(f"Patient/hostile-{n}").status_code for n in found] == [200] * len(found)


def test_a_name_is_never_markup(app, admin):
    page = report(admin, with_form(admin, ("<b>bold.ndjson", b"no resource\n")))
    assert "<b>bold.ndjson:1" in page.words
    assert "<b>" not in page.response.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, "The file changed while it was uploaded; choose it again."),
        ({"at": -1}, "The file changed while it was uploaded; choose it again."),
        ({"name": ""}, "A file's name takes 1 to 2000 characters."),
        ({"left": 10**18}, "There is no room for the upload"),
    ],
)
def test_a_piece_that_cannot_be_taken_says_why(admin, changes, message):
    upload, name = Upload(admin), changes.pop("name", "a.ndjson")
    answer = upload.send(0, name, patient("never"), **changes)
    assert answer.status_code == 422
    assert message in answer.json["said"]


def test_an_upload_takes_so_many_files(admin):
    answer = Upload(admin).send(10_000, "a.ndjson", b"{}")
    assert "An upload takes 10,000 files at most" in answer.json["said"]


def test_a_piece_without_the_forms_token_is_refused(admin):
    upload = Upload(admin)
    upload.form.fields["form_token"] = "guessed"
    answer = upload.send(0, "a.ndjson", b"{}")
    assert answer.status_code == 400
    assert TOO_OLD in answer.text


def test_nobody_adds_to_the_upload_of_another(app, admin):
    upload = Upload(admin)
    upload.send(0, "a.ndjson", patient("mine"), until=5)
    other = Upload(Browser(app).resume(add_person(app, ADMINISTRATOR)))
    other.id = upload.id
    assert other.send(0, "a.ndjson", patient("mine"), at=5).json == {
        "said": "This upload belongs to another user."
    }
    listed = other.browser.client.get(f"/admin/uploads/{upload.id}", base_url=BASE_URL)
    assert listed.json == {"files": []}


def test_an_upload_outlives_the_session(app, admin, username, reads):
    upload, whole = Upload(admin), patient("later")
    upload.send(0, "a.ndjson", whole, until=5)
    form = dict(admin.get("/account").form("Sign out").fields)
    admin.post("/sign-out", form)
    # Neither is anything taken, nor is the browser told that it was.
    assert upload.send(0, "a.ndjson", whole, at=5).status_code in (303, 400)
    admin.resume(username)
    page = admin.get("/admin/imports")
    assert "Uploaded, not imported yet" in page.words
    going_on = f"/admin/imports?upload={upload.id}"
    assert f'href="{going_on}"' in page.response.text
    page = admin.get(going_on)
    assert page.form(BEGIN).fields["task"] == upload.id
    upload.page, upload.form = page, page.form(BEGIN)
    assert upload.send(0, "a.ndjson", whole, at=5).json == {"have": len(whole)}
    report(admin, upload.begin())
    assert reads.get("Patient/later").status_code == 200


def test_an_address_that_names_no_upload_shows_the_form(admin):
    for odd in ("%00", "x" * 24, "../tasks"):
        assert admin.get(f"/admin/imports?upload={odd}").status == 200


def is_given(app: Flask, page: Page) -> bool:
    """Say whether what an import reads is kept."""
    with app.app_context():
        return uploads.is_kept(task_id(page))


def grow_old(app: Flask) -> None:
    """Have all that was uploaded be there for more than a day."""
    with app.app_context(), writing() as connection:
        connection.execute(update(UploadPiece).values(added_at=UploadPiece.added_at - DAY - 1))


def test_an_upload_can_be_removed_and_is_after_a_day(app, admin):
    first, second = Upload(admin), Upload(admin)
    for one in (first, second):
        one.send(0, "a.ndjson", b"{}")
    form = {"form_token": first.form.fields["form_token"]}
    assert "Upload removed." in admin.post(f"/admin/uploads/{first.id}/discard", form).words
    kept = Path(settings_of(app).files or settings_of(app).instance) / "uploads"
    assert [(kept / one.id).exists() for one in (first, second)] == [False, True]
    grow_old(app)
    admin.get("/admin/imports")
    assert not [*kept.iterdir()]


@contextmanager
def waiting_for(app: Flask) -> Iterator[None]:
    """Have imports wait."""
    with ExitStack() as stack:
        with app.app_context():
            stack.enter_context(turn(settings_of(app), TURN, lambda: None))
        yield


def test_an_import_waits_for_its_turn_and_can_be_stopped(app, admin, reads):
    with waiting_for(app):
        begun = with_form(admin, ("a.ndjson", patient("stopped")))
        while "waiting for another import" not in (page := admin.get(begun.path)).words:
            assert task(app, task_id(begun)).is_under_way
        page.submit("Stop")
        assert wait_for(app, task_id(begun)).state == "stopped"
    page = admin.get(begun.path)
    assert (
        "The import was stopped before it finished. Records stored before that stay." in page.words
    )
    assert reads.get("Patient/stopped").status_code == 404
    # Nothing needs to be uploaded again.
    page = report(admin, page.submit("Import again"))
    assert "All records were stored." in page.words


def test_an_import_that_was_killed_says_so_and_is_begun_again(app, admin):
    with waiting_for(app):
        begun = with_form(admin, ("a.ndjson", patient("killed")))
        while task(app, task_id(begun)).progress.phase != "waits":
            pass
        os.kill(task(app, task_id(begun)).progress.pid, 9)
        wait_for(app, task_id(begun))
    page = admin.get(begun.path)
    assert "The import was interrupted" in page.words
    assert "every 1s" not in page.response.text
    assert "All records were stored." in report(admin, page.submit("Import again")).words


def test_an_import_outlives_the_server_and_its_report_too(app, make_app, admin, username):
    """Another app on the same folder and database is what a restart leaves."""
    begun = with_form(admin, ("a.ndjson", patient("restarted")))
    wait_for(app, task_id(begun))
    restarted = create_app(settings_of(app))
    other = Browser(restarted).resume(username)
    assert "All records were stored." in other.get(begun.path).words
    with restarted.app_context():
        db.engine.dispose()


def test_a_zip_bomb_stands_in_the_report(admin):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ndjson", b" " * 200_000_000 + b"\n")
        archive.writestr("b.ndjson", b"{\n")
    page = report(admin, with_form(admin, ("bomb.zip", bomb.getvalue())))
    assert "bomb.zip!" in page.words


def test_a_damaged_archive_stands_in_the_report(admin):
    page = report(admin, with_form(admin, ("broken.zip", b"PK\x03\x04 and nothing else")))
    assert "broken.zip cannot be read" in page.words.replace("whole record ", "")


def test_a_file_without_records_beside_others_is_listed_as_skipped(admin):
    files = [("a.ndjson", patient("beside")), ("scan.pdf", b"%PDF-")]
    page = report(admin, with_form(admin, *files))
    assert "Skipped files: 1" in page.words
    assert "scan.pdf is in none of the formats that are imported" in page.words
    assert "All records were stored." in page.words


def test_an_uploaded_file_of_any_name_is_read_by_its_content(admin, reads):
    files = [("visit", patient("by-content")), ("scan.pdf", b"%PDF-")]
    report(admin, with_form(admin, *files))
    assert reads.get("Patient/by-content").status_code == 200


def test_an_uploaded_file_that_a_table_names_is_not_listed_as_skipped(admin):
    upload = Upload(admin)
    table = b"patient_id,patient_family,type,file\nnamer,Doe,11506-3,scan.pdf\n"
    upload.send(0, "documents.csv", table)
    upload.send(1, "scan.pdf", b"%PDF-")
    page = report(admin, upload.begin())
    assert "Skipped files" not in page.words
    assert "All records were stored." in page.words


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.ndjson", b""),
        ("scan.pdf", b"%PDF-"),
        ("o.ndjson", b'{"resourceType":"Observation"}\n'),
    ],
)
def test_where_nothing_was_stored_nothing_else_is_said(admin, name, content):
    files = [(name, content), ("beside.ndjson", b"\n")]
    page = report(admin, with_form(admin, *files))
    assert "These files contain no records of a supported type." in page.words
    assert "All records were stored" not in page.words
    assert "The file of rejected records contains" not in page.words
    assert "done nothing" in admin.get("/admin/imports").words


def test_a_note_with_an_unreadable_file_inside_is_named(admin):
    document = clinical(section("Pictures", "None", medium("image/tiff", "SUkqAA==")))
    inside = json.dumps(note("n-tiff", attached(document, "text/xml")))
    page = report(admin, with_form(admin, ("a.ndjson", inside.encode())))
    assert "image/tiff is not read: DocumentReference/n-tiff" in page.words


def test_records_of_other_types_are_not_said_to_be_stored(admin):
    lines = patient("kept") + b'{"resourceType":"Observation","id":"o"}\n'
    page = report(admin, with_form(admin, ("a.ndjson", lines)))
    assert "All records of supported types were stored" in page.words
    assert "1 Observation: this type is not stored on this server" in page.words


def test_what_nobody_can_read_is_told_with_what_to_do(admin):
    binary = b'{"resourceType":"Binary","id":"lone","contentType":"text/plain","data":"QUJD"}\n'
    page = report(admin, with_form(admin, ("a.ndjson", binary)))
    assert "1 stored, but unreadable: Binary can only be read through a document" in page.words
    assert "import the DocumentReference with its address too" in page.words


def test_a_file_that_is_cut_off_is_named_first(admin, reads):
    lines = b"".join(patient(f"cut-{number}-{'x' * 40}") for number in range(2_000))
    packed = gzip.compress(lines)
    page = report(admin, with_form(admin, ("a.ndjson.gz", packed[: len(packed) // 2])))
    assert "These files could not be read completely: a.ndjson.gz." in page.words
    assert "Correct it or get it again" in page.words
    # There is no file of it to be mended.
    assert "Mend what stands in the file below" not in page.words
    assert reads.get("Patient?_id=cut-0-" + "x" * 40).json["total"] == 1


def test_an_upload_that_is_too_large_without_scripts_says_what_to_do(admin):
    kind = "multipart/form-data; boundary=x"
    page = admin.post("/admin/imports", b" " * 1_500_000, content_type=kind)
    assert (page.status, page.heading) == (413, "Too large for this form")
    assert "Allow JavaScript for this site, or copy the files to the server" in page.words
    assert page.offered["Back to the form"] == "/admin/imports"


def test_a_job_keeps_room_to_say_that_the_disk_is_full(app):
    job_id = table.new_id()
    room = process.folder_of(job_id, settings_of(app).instance) / "room"
    with app.app_context():
        with writing() as connection:
            table.add(connection, job_id, IMPORT, "admin", 0, runs=True)
        job = table.find(job_id, IMPORT)
    assert job is not None
    room.parent.mkdir(parents=True)
    with Tracker(app, job) as tracker:
        tracker.phase("works", 10)
        tracker.add(5)
        assert room.stat().st_size == 256 * 1024
        tracker.end("failed", "The disk is full.")
    assert not room.exists()
    assert task(app, job_id).progress.notes == ["The disk is full."]


def test_a_folder_without_records_says_so(admin):
    upload = Upload(admin)
    upload.send(0, "photos/cat.jpg", b"\xff\xd8")
    page = report(admin, upload.begin())
    assert "photos whole record contains no importable file" in page.words
    assert "photos/cat.jpg is in none of the formats" in page.words


def test_where_a_task_finds_no_place_the_upload_is_kept(app, admin):
    upload = Upload(admin)
    upload.send(0, "a.ndjson", patient("full"))
    folder = process.folders(settings_of(app).instance)
    folder.mkdir(exist_ok=True)
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()
    page = upload.begin()
    assert (page.status, page.heading) == (503, "Not started")
    assert "cannot be written (File exists); make room, and try again." in page.words
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    assert "All records were stored." in report(admin, upload.begin()).words


def test_an_import_that_ends_nowhere_is_no_page(admin):
    for path in ("x", "../../x", table.new_id()):
        assert admin.get(f"/admin/imports/{path}").status == 404
    begun = with_form(admin, ("a.ndjson", patient("files")))
    page = report(admin, begun)
    for name in ("../asked.json", "asked.json", "nothing", ".."):
        assert admin.get(f"{page.path}/files/{name}").status == 404


def test_whoever_watches_is_sent_to_sign_in_when_the_session_ends(app, admin):
    begun = with_form(admin, ("a.ndjson", patient("watched")))
    answer = app.test_client().get(begun.path, base_url=BASE_URL, headers={"HX-Request": "true"})
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"].startswith("/sign-in?next=%2Fadmin%2Fimports%2F")
    wait_for(app, task_id(begun))


def test_imports_of_the_command_line_are_listed_too(app, admin, tmp_path):
    path = tmp_path / "shell.ndjson"
    path.write_bytes(patient("shell"))
    load(app, path, who="operator", source="night")
    words = admin.get("/admin/imports").words
    assert "night: shell.ndjson on the command line operator done 1 new" in words


def test_what_is_done_is_logged_without_names_of_files(app, admin, username, caplog):
    with caplog.at_level(logging.INFO, logger="fhirapp.web.admin.jobs"):
        begun = with_form(admin, ("Ana Example.ndjson", patient("logged")))
        page = report(admin, begun)
        fetched(admin, f"{page.path}/files/report.json")
    said = [one.getMessage() for one in caplog.records]
    assert f"{username} began import {task_id(begun)}" in said
    assert f"{username} fetched a file of import {task_id(begun)}" in said
    assert "Ana Example" not in caplog.text


def test_old_reports_are_forgotten_and_files_sooner(app, admin):
    begun = with_form(admin, ("a.ndjson", patient("old")), source="old", dry_run="yes")
    ended = wait_for(app, task_id(begun)).ended_at
    grow_old(app)
    with app.app_context():
        sweep(ended + DAY - 1)
        assert is_given(app, begun)
        sweep(ended + DAY + 1)
    assert not is_given(app, begun)
    assert task(app, task_id(begun))


def test_only_so_many_begin_at_once(app, admin):
    with waiting_for(app):
        begun = [
            with_form(admin, ("a.ndjson", patient(f"many-{number}")))
            for number in range(process.MOST)
        ]
        page = with_form(admin, ("a.ndjson", patient("too-many")))
        assert (page.status, page.heading) == (503, "Not started")
    for one in begun:
        assert wait_for(app, task_id(one)).state == "done"
    with app.app_context(), writing() as connection:
        connection.execute(delete(UploadPiece))


def test_the_newest_comes_first(app, admin):
    with_form(admin, ("newest.ndjson", patient("newest")))
    assert newest(app, IMPORT).request["names"] == ["newest.ndjson"]
