"""The administrator's pages of imports: files uploaded, imported, reported.

Who may open them is tested in tests/web/test_pages.py, what an import does
in the other modules of this folder.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.features.imports.jobs import IMPORT
from fhirapp.jobs import process, queue, uploads
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.uploads import safe_name
from fhirapp.jobs.worker import DAY
from fhirapp.store.import_models import ImportRun
from tests.support.authorizing import rows
from tests.support.browsing import Browser, Page, add_person
from tests.support.documents import clinical, medium, section
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.import_pages import PATH, Upload, import_lock, patient
from tests.support.importing import load, write
from tests.support.jobs import HeldJobs, task, task_id, wait_for
from tests.support.noted import attached, note

BINARY = b'{"resourceType":"Binary","id":"lone","contentType":"text/plain","data":"QUJD"}\n'
TIFF = clinical(section("Pictures", "None", medium("image/tiff", "SUkqAA==")))
NOTE = json.dumps(note("n-tiff", attached(TIFF, "text/xml"))).encode()
DONE = "All records were stored."
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

pytestmark = pytest.mark.usefixtures("jobs_in_process")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests import into."""
    return make_app(seed=False)


@pytest.fixture(scope="module")
def username(app: Flask) -> str:
    return add_person(app, ADMINISTRATOR)


@pytest.fixture
def admin(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


@pytest.fixture
def reads(app: Flask) -> Fhir:
    return Fhir(app, token_for(app, "system/*.rs"))


def started(admin: Browser, *files: tuple[str, bytes], **options: str) -> Page:
    """Start an import as a browser without scripts does; return the page that comes of it."""
    form = dict(admin.get(PATH).form("Start import").fields)
    del form["files"]
    sent = [(io.BytesIO(content), name) for name, content in files]
    return admin.post(PATH, {**form, **options, "files": sent})


def report_of(page: Page) -> Page:
    """Return the page of an import after its end."""
    wait_for(page.browser.client.application, task_id(page))
    return page.browser.get(page.path)


def imported(admin: Browser, *files: tuple[str, bytes], **options: str) -> Page:
    return report_of(started(admin, *files, **options))


def fetched(admin: Browser, path: str) -> TestResponse:
    """Return a download, read to its end."""
    return admin.client.get(path, base_url=BASE_URL, buffered=True)


def is_kept(app: Flask, page: Page) -> bool:
    """Return whether what was uploaded for an import is kept."""
    with app.app_context():
        return uploads.is_kept(task_id(page))


def test_report_of_an_import_says_what_was_stored_and_rejected(
    app, admin, username, reads, tmp_path
):
    lines = patient("ana") + b'{"resourceType":"AllergyIntolerance","id":"a2"}\n'
    lines += (
        b'{"resourceType":"AllergyIntolerance","id":"a3","patient":{"reference":"Patient/gone"}}'
    )
    page = imported(admin, ("records.ndjson", lines), source="lab", provenance="yes")
    assert "1 record was rejected and is not stored. All other records were stored." in page.words
    assert "records.ndjson:2 AllergyIntolerance.patient is required" in page.words
    assert "Patient/gone" in page.words
    assert reads.get("Patient/ana").status_code == 200
    of_run = ImportRun.id == task(app, task_id(page)).progress.run
    ((run,),) = rows(app, select(ImportRun).where(of_run))
    assert (run.who, run.inputs, bool(run.ended_at)) == (username, ["records.ndjson"], True)
    # What was rejected can be downloaded and corrected, and the report is there for a program.
    rejected = fetched(admin, f"{page.path}/files/rejected.ndjson")
    assert json.loads(rejected.data) == {"resourceType": "AllergyIntolerance", "id": "a2"}
    assert rejected.headers["Content-Disposition"] == "attachment; filename=rejected.ndjson"
    report = json.loads(fetched(admin, f"{page.path}/files/report.json").data)
    assert [row["place"] for row in report["rejected"]] == ["records.ndjson:2"]
    listed = admin.get(PATH).words
    assert f"lab: records.ndjson ({len(lines)} bytes) {username} done 2 new, 1 rejected" in listed
    # An import of the command line is listed too.
    load(app, write(tmp_path, patient("shell"), "shell.ndjson"), who="operator", source="night")
    told = "night: shell.ndjson on the command line operator done 1 new"
    assert told in admin.get(PATH).words
    for name in ("../asked.json", "asked.json", "nothing", ".."):
        assert admin.get(f"{page.path}/files/{name}").status == 404
    for path in ("x", "../../x", queue.new_id()):
        assert admin.get(f"{PATH}/{path}").status == 404


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([("<b>bold.ndjson", b"no resource\n")], ["<b>bold.ndjson:1"]),
        (
            [("broken.zip", b"PK\x03\x04 and nothing else")],
            ["broken.zip cannot be read", "check that the file is complete"],
        ),
        (
            [("visit", patient("by-content")), ("scan.pdf", b"%PDF-")],
            ["Skipped files: 1", "scan.pdf is in none of the formats", DONE],
        ),
        (
            [("a.ndjson", patient("kept") + b'{"resourceType":"Observation","id":"o"}\n')],
            ["All records of supported types were stored", "1 Observation: this type is not"],
        ),
        *(
            (
                [(name, content), ("beside.ndjson", b"\n")],
                ["These files contain no records of a supported type.", f"not {DONE}"],
            )
            for name, content in (
                ("empty.ndjson", b""),
                ("scan.pdf", b"%PDF-"),
                ("o.ndjson", b'{"resourceType":"Observation"}\n'),
            )
        ),
        ([("a.ndjson", NOTE)], ["image/tiff is not read: DocumentReference/n-tiff"]),
(
            [("a.ndjson", BINARY)],
            ["1 stored, but unreadable", "import the DocumentReference with its address too"],
        ),
    ],
)  # fmt: skip
def test_report_names_what_was_not_stored(admin, files, said):
    page = imported(admin, *files)
    for words in said:
        assert (words.removeprefix("not ") in page.words) is not words.startswith("not ")
    assert "<b>" not in page.response.text


def test_report_names_a_truncated_file_first(admin, reads):
    noise = Random(1)
    records = [
        {
            "resourceType": "Patient",
            "id": f"cut-{n}",
            "name": [{"text": noise.randbytes(2_000).hex()}],
        }
        for n in range(60)
    ]
    packed = gzip.compress("\n".join(map(json.dumps, records)).encode())
    page = imported(admin, ("a.ndjson.gz", packed[: len(packed) // 2]))
    assert "These files could not be read completely: a.ndjson.gz." in page.words
    assert f"{task_id(page)}/files/rejected" not in " ".join(page.offered.values())
    assert reads.get("Patient/cut-0").status_code == 200


def test_folder_is_uploaded_in_pieces_and_keeps_its_names(app, admin, reads):
    upload, name = Upload(admin), "clinic/b.ndjson"
    content = patient("pieces") + patient("pieces-too")
    first = upload.send(0, name, content, until=10)
    assert (first.status_code, first.json) == (200, {"have": 10})
    # What is sent twice is taken once: the answer says how much is here.
    again = upload.send(0, name, content, until=10)
    assert (again.status_code, again.json) == (409, {"have": 10})
    here = fetched(admin, f"/admin/uploads/{upload.id}").json["files"]
    assert here == [{"number": 0, "name": name, "size": len(content), "have": 10}]
    incomplete = upload.begin()
    assert (incomplete.status, len(incomplete.alerts)) == (400, 1)
    assert upload.send(0, name, content, at=10).json == {"have": len(content)}
    upload.send(1, "clinic/sub/a.ndjson", b'{"resourceType":"Patient","id":"_"}')
    page = report_of(upload.begin())
    assert "clinic/sub/a.ndjson:1 " in page.words
    assert reads.get("Patient/pieces-too").status_code == 200
    assert not is_kept(app, page)


def test_one_of_two_concurrent_pieces_is_taken(app, admin, username, reads):
    content = patient("at-once") + patient("at-once-too")
    uploads = [Upload(admin), Upload(Browser(app).resume(username))]
    uploads[1].id = uploads[0].id
    barrier = Barrier(2)

    def send(upload: Upload) -> int:
        barrier.wait()
        return upload.send(0, "a.ndjson", content, until=20).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(send, uploads)) == [200, 409]
    assert uploads[0].send(0, "a.ndjson", content, at=20).json == {"have": len(content)}
    report_of(uploads[0].begin())
    assert reads.get("Patient/at-once-too").status_code == 200


def test_piece_without_those_before_it_is_refused(app, admin):
    told = "This server does not have what was uploaded before. Send it again."
    upload, content = Upload(admin), patient("without")
    for number, at in ((0, 5), (1, 0)):
        answer = upload.send(number, "a.ndjson", content, at=at)
        assert (answer.status_code, told in answer.json["said"]) == (422, True)
    assert fetched(admin, f"/admin/uploads/{upload.id}").json == {"files": []}
    assert not (settings_of(app).instance / "uploads" / upload.id).exists()


def test_import_of_other_files_than_were_sent_is_refused(admin, held_jobs: HeldJobs):
    upload = Upload(admin)
    upload.send(0, "a.ndjson", patient("one-of-two"))
    upload.sent[1] = patient("two-of-two")
    page = upload.begin()
    assert page.status == 400
    assert "sticky sessions" in page.alerts[0]
    assert held_jobs.count == 0


def test_form_that_is_sent_twice_imports_once(app, admin):
    upload = Upload(admin)
    upload.send(0, "twice.ndjson", patient("twice"))
    assert len({upload.begin().path for _ in range(3)}) == 1
    inputs = [names for (names,) in rows(app, select(ImportRun.inputs))]
    assert inputs.count(["twice.ndjson"]) == 1
    assert upload.send(1, "b.ndjson", b"{}").status_code == 410


def test_dry_run_changes_nothing_and_can_be_imported_after(app, admin, reads):
    page = imported(admin, ("a.ndjson", patient("dry")), dry_run="yes")
    assert "Nothing was changed." in page.words
    assert reads.get("Patient/dry").status_code == 404
    assert DONE in report_of(page.send("/again")).words
    assert reads.get("Patient/dry").status_code == 200


def test_hostile_file_names_are_imported_under_others(admin, reads):
    upload = Upload(admin)
    for number, name in enumerate(HOSTILE):
        assert upload.send(number, name, patient(f"hostile-{number}")).status_code == 200
    # The name that the third one gets, and a file where another has a folder.
    upload.send(98, "file-2.ndjson", patient("hostile-98"))
    upload.send(99, "file-2.ndjson/x.ndjson", patient("hostile-99"))
    page = report_of(upload.begin())
    assert "../../escape.ndjson was stored as file-0.ndjson." in page.words
    found = [0, 1, 2, 3, 6, 7, 8, 9, 98, 99]
    assert {reads.get(f"Patient/hostile-{n}").status_code for n in found} == {200}


def test_upload_outlives_the_session(admin, username, reads):
    upload, content = Upload(admin), patient("later")
    upload.send(0, "a.ndjson", content, until=5)
    admin.post_with_token("/sign-out")
    # Neither is anything taken, nor is the browser told that it was.
    assert upload.send(0, "a.ndjson", content, at=5).status_code in (303, 400)
    admin.resume(username)
    assert f'href="{PATH}?upload={upload.id}"' in admin.get(PATH).response.text
    resumed = Upload(admin, upload.id)
    assert resumed.id == upload.id
    assert resumed.send(0, "a.ndjson", content, at=5).json == {"have": len(content)}
    report_of(resumed.begin())
    assert reads.get("Patient/later").status_code == 200


def test_upload_is_kept_where_no_job_can_be_started(app, admin):
    upload = Upload(admin)
    upload.send(0, "a.ndjson", patient("full"))
    folder = process.folder_of("", settings_of(app).instance)
    folder.mkdir(exist_ok=True)
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()
    page = upload.begin()
    assert page.status == 503
    assert "cannot be written (File exists)" in page.words
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    assert DONE in report_of(upload.begin()).words


def test_log_has_no_names_of_files(admin, username, caplog):
    with caplog.at_level(logging.INFO):
        page = imported(admin, ("Ana Example.ndjson", patient("logged")))
        fetched(admin, f"{page.path}/files/report.json")
    said = [record.getMessage() for record in caplog.records]
    assert f"{username} began import {task_id(page)}" in said
    assert f"{username} fetched a file of import {task_id(page)}" in said
    assert "Ana Example" not in caplog.text


def test_no_file_name_leads_elsewhere(tmp_path):
    for name in HOSTILE:
        place = safe_name(name, 7)
        assert not place.is_absolute()
        assert ".." not in place.parts
        assert str(place) != "-"
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
        assert (tmp_path / place).resolve().is_relative_to(tmp_path.resolve())


def test_form_that_cannot_be_imported_says_why_and_keeps_the_files(admin, held_jobs: HeldJobs):
    uploaded = [("a.ndjson", b"{}")]
    for files, options in (
        ([], {}),
        (uploaded, {"delete_missing": "yes"}),
        (uploaded, {"prefix": "a/b"}),
    ):
        page = started(admin, *files, **options)
        assert (page.status, len(page.alerts)) == (400, 1)
        assert ("1 file uploaded" in page.words) == bool(files)
    # More than a form brings without scripts, which send it in pieces.
    kind = "multipart/form-data; boundary=x"
    page = admin.post(PATH, b" " * 1_500_000, content_type=kind)
    assert (page.status, PATH in page.offered.values()) == (413, True)
    # An address that names no upload shows the form.
    for odd in ("%00", "x" * 24, "../tasks"):
        assert admin.get(f"{PATH}?upload={odd}").status == 200
    assert held_jobs.count == 0


def test_piece_that_cannot_be_taken_says_why(admin):
    for changes, words in (
        ({"size": 3}, "changed while it was uploaded"),
        ({"at": -1}, "changed while it was uploaded"),
        ({"name": ""}, "1 to 2000 characters"),
        ({"left": 10**18}, "no room"),
        ({"number": 10_000}, "10,000 files at most"),
    ):
        sent = {"number": 0, "name": "a.ndjson", "content": patient("never")} | changes
        answer = Upload(admin).send(**sent)
        assert (answer.status_code, words in answer.json["said"]) == (422, True), answer.json
    upload = Upload(admin)
    upload.token = "guessed"
    assert upload.send(0, "a.ndjson", b"{}").status_code == 400


def test_nobody_adds_to_the_upload_of_another_user(app, admin):
    upload = Upload(admin)
    upload.send(0, "a.ndjson", patient("mine"), until=5)
    other = Upload(Browser(app).resume(add_person(app, ADMINISTRATOR)))
    other.id = upload.id
    assert other.send(0, "a.ndjson", patient("mine"), at=5).json.keys() == {"said"}
    assert fetched(other.browser, f"/admin/uploads/{upload.id}").json == {"files": []}
    assert len(fetched(admin, f"/admin/uploads/{upload.id}").json["files"]) == 1


def grow_old(app: Flask) -> None:
    """Have all that was uploaded be there for more than a day."""
    for folder in (settings_of(app).instance / "uploads").iterdir():
        os.utime(folder, times=(folder.stat().st_mtime - DAY - 1,) * 2)


def test_upload_is_removed_on_request_and_after_a_day(app, admin):
    first, second = Upload(admin), Upload(admin)
    for upload in (first, second):
        upload.send(0, "a.ndjson", b"{}")
    page = admin.post_with_token(f"/admin/uploads/{first.id}/discard")
    assert page.path == f"{PATH}?done=discarded"
    folder = settings_of(app).instance / "uploads"
    assert [(folder / upload.id).exists() for upload in (first, second)] == [False, True]
    grow_old(app)
    admin.get(PATH)
    assert not [*folder.iterdir()]


def test_only_so_many_imports_are_started_at_once(app, admin, held_jobs: HeldJobs):
    pages = [started(admin, (f"{n}.ndjson", patient(f"many-{n}"))) for n in range(process.MOST)]
    assert started(admin, ("a.ndjson", patient("too-many"))).status == 503
    assert "every 1s" in admin.get(pages[0].path).response.text
    held_jobs.run()
    assert {task(app, task_id(page)).state for page in pages} == {"done"}
    newest = next(line for line in admin.get(PATH).words.split(" (") if ".ndjson" in line)
    assert f"{process.MOST - 1}.ndjson" in newest


def test_polling_page_is_redirected_when_the_session_ends(app, admin, held_jobs: HeldJobs):
    page = started(admin, ("a.ndjson", patient("watched")))
    answer = app.test_client().get(page.path, base_url=BASE_URL, headers={"HX-Request": "true"})
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"].startswith("/sign-in?next=%2Fadmin%2Fimports%2F")
    held_jobs.run()


def test_job_reserves_room_to_say_that_the_disk_is_full(app):
    job_id = queue.new_id()
    room = process.folder_of(job_id, settings_of(app).instance) / "room"
    with app.app_context():
        with writing() as connection:
            queue.add(connection, job_id, IMPORT, "admin", 0, runs=True)
        job = queue.find(job_id, IMPORT)
    assert job is not None
    room.parent.mkdir(parents=True)
    with Tracker(app, job) as tracker:
        tracker.phase("works", 10)
        tracker.add(5)
        assert room.stat().st_size == 256 * 1024
        tracker.end("failed", error="The disk is full.")
    assert not room.exists()
    assert task(app, job_id).error == "The disk is full."


@pytest.mark.process
@pytest.mark.usefixtures("job_processes")
def test_import_that_waits_is_stopped_or_killed_and_imported_again(app, admin, reads):
    for name, told in (("stopped", "Records stored before that stay."), ("killed", "interrupted")):
        with import_lock(app):
            page = started(admin, ("a.ndjson", patient(name)))
            while task(app, task_id(page)).progress.phase != "waits":
                assert task(app, task_id(page)).is_under_way
            if name == "stopped":
                words = admin.get(page.path).words
                assert "waiting for another import" in words
                assert "Waiting: another import is running." in words
                admin.get(page.path).send("/stop")
            else:
                os.kill(task(app, task_id(page)).progress.pid, 9)
            state = wait_for(app, task_id(page)).state
        assert state == ("stopped" if name == "stopped" else "interrupted")
        page = admin.get(page.path)
        assert told in page.words
        assert "every 1s" not in page.response.text
        assert reads.get(f"Patient/{name}").status_code == 404
        # Nothing needs to be uploaded again.
        assert DONE in report_of(page.send("/again")).words
