"""Files of an export job: requests, access and expiry."""

from __future__ import annotations

import os
import stat

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.http import http_date

from fhirapp.db import reader
from fhirapp.features.exports.jobs import BULK_EXPORT, GRACE_SECONDS, sweep
from fhirapp.jobs import queue
from tests.support.authorizing import alter
from tests.support.bulk import NDJSON, Exports, folder_of
from tests.support.helpers import assert_outcome, lasting

UNKNOWN = "There is no such export here."
HOUR = 3_600


@pytest.fixture
def exports(app: Flask) -> Exports:
    return Exports(app)


@pytest.fixture
def status(exports: Exports) -> str:
    """The status of an export that is done."""
    found = exports.started("$export?_type=AllergyIntolerance,Patient")
    assert exports.work()
    return found


def test_file_is_ndjson_and_its_address_has_no_other(exports, status):
    response = exports.get(f"{status}/Patient.1.ndjson", headers={"Accept": NDJSON})
    assert (response.status_code, response.content_type) == (200, NDJSON)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-cache, private"
    head = exports.request("HEAD", f"{status}/Patient.1.ndjson")
    assert (head.status_code, head.data) == (200, b"")
    assert lasting(head) == lasting(response)


def test_file_outside_of_the_manifest_is_unknown(exports, status, subtests):
    for name in [
        *("Patient.2.ndjson", "request.json", "manifest.json", "1", "..", "%2e%2e", "x"),
        *(
            "..%2frequest.json",
            "..%2f..%2f..%2fsecret.key",
            "%2fetc%2fpasswd",
            "Patient.1.ndjson%00",
        ),
        "Patient.1.ndjson.",
    ]:
        with subtests.test(name=name):
            response = exports.get(f"{status}/{name}")
            assert response.status_code == 404
            assert response.get_json(force=True)["resourceType"] == "OperationOutcome"


def test_part_of_a_file_can_be_fetched_and_only_of_the_same_file(exports, status):
    path = f"{status}/AllergyIntolerance.1.ndjson"
    whole = exports.get(path)
    length = len(whole.data)
    middle = length // 2
    parts = b""
    for wanted in (f"bytes=0-{middle - 1}", f"bytes={middle}-"):
        part = exports.get(path, headers={"Range": wanted})
        assert part.status_code == 206
        assert part.content_type == NDJSON
        assert part.headers["Content-Range"].endswith(f"/{length}")
        parts += part.data
    assert parts == whole.data
    last = exports.get(path, headers={"Range": "bytes=-10"})
    assert last.data == whole.data[-10:]
    same = {"Range": "bytes=0-9", "If-Range": whole.headers["Last-Modified"]}
    assert exports.get(path, headers=same).status_code == 206
    other = {"Range": "bytes=0-9", "If-Range": "Mon, 01 Jan 2001 00:00:00 GMT"}
    assert exports.get(path, headers=other).status_code == 200
    beyond = exports.get(path, headers={"Range": f"bytes={length}-"})
    assert beyond.status_code == 416
    assert beyond.headers["Content-Range"] == f"bytes */{length}"


def test_files_of_an_export_are_readable_by_their_owner_only(app, exports, status):
    folder = folder_of(app, status)
    paths = [folder.parent, folder, *folder.rglob("*")]
    assert len(paths) > 4
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_job_table_has_nothing_about_patients(app, exports):
    body = {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "patient", "valueReference": {"reference": "Patient/p2"}},
            {"name": "_typeFilter", "valueString": "Patient?name=Ortega"},
        ],
    }
    status = exports.started("Patient/$export", body)
    exports.work()
    with app.app_context():
        row = reader().all("SELECT * FROM job WHERE id = ?", (status.rpartition("/")[2],))
    assert len(row) == 1
    assert "p2" not in map(str, row[0])
    assert "Ortega" not in str(row)
    assert b"Ortega" in (folder_of(app, status) / "request.json").read_bytes()


def test_deleted_export_is_unknown(app, exports, status):
    assert folder_of(app, status).is_dir()
    response = exports.request("DELETE", status)
    assert response.status_code == 202
    assert response.get_json(force=True)["resourceType"] == "OperationOutcome"
    assert not folder_of(app, status).exists()
    for path in (status, f"{status}/Patient.1.ndjson"):
        assert_outcome(exports.get(path), 404, "not-found", UNKNOWN)
    assert_outcome(exports.request("DELETE", status), 404, "not-found", UNKNOWN)


def test_queued_export_can_be_cancelled(app, exports):
    status = exports.started()
    assert exports.request("DELETE", status).status_code == 202
    assert not exports.work()
    assert not folder_of(app, status).exists()


def test_export_expires_after_the_hours_that_are_set(make_app):
    app = make_app(export_hours=2)
    exports = Exports(app)
    status = exports.started("$export?_type=Patient")
    assert exports.work()
    with app.app_context():
        (job,) = queue.jobs(BULK_EXPORT)
        assert 0 <= (job.ended_at or 0) + 2 * HOUR - (job.expires_at or 0) <= 2
        assert exports.get(status).headers["Expires"] == http_date(job.expires_at)
        sweep((job.expires_at or 0) + GRACE_SECONDS)
        assert folder_of(app, status).is_dir()
        sweep((job.expires_at or 0) + GRACE_SECONDS + 1)
    assert not folder_of(app, status).exists()
    assert exports.kept() == 0
    assert_outcome(exports.get(status), 404, "not-found", UNKNOWN)


def test_expired_export_is_unknown_before_it_is_swept(app, exports):
    status = exports.started("$export?_type=Patient")
    assert exports.work()
    # As if it had been done in 2020.
    alter(app, update(queue.JobRow).values(expires_at=1_580_000_000))
    assert_outcome(exports.get(status), 404, "not-found", UNKNOWN)
    assert_outcome(exports.get(f"{status}/Patient.1.ndjson"), 404, "not-found", UNKNOWN)
    assert exports.kept() == 1


def test_export_whose_files_are_gone_is_unknown(app, exports, status):
    for path in folder_of(app, status).glob("1/Patient*"):
        path.unlink()
    assert_outcome(exports.get(f"{status}/Patient.1.ndjson"), 404, "not-found", UNKNOWN)
    (folder_of(app, status) / "1" / "manifest.json").unlink()
    assert_outcome(exports.get(status), 404, "not-found", UNKNOWN)
    (folder_of(app, status) / "request.json").unlink()
    assert_outcome(exports.get(status), 404, "not-found", UNKNOWN)


def test_unreachable_files_are_a_transient_error(app, exports, status):
    for name in ("manifest.json", "Patient.1.ndjson"):
        path = folder_of(app, status) / "1" / name
        path.rename(path.with_name("kept"))
        # As a network folder fails that cannot be reached.
        path.symlink_to(name)
        answer = exports.get(f"{status}/Patient.1.ndjson")
        assert_outcome(answer, 503, "transient", "Files cannot be reached now; try again later.")
        path.unlink()
        path.with_name("kept").rename(path)
    assert exports.get(f"{status}/Patient.1.ndjson").status_code == 200


def test_old_orphaned_folders_are_removed(app, exports, status):
    whole = folder_of(app, status).parent
    old, new = whole / "nobodys-old", whole / "nobodys-new"
    for path in (old, new):
        path.mkdir()
        (path / "Patient.1.ndjson").write_bytes(b"{}\n")
    for path in (old / "Patient.1.ndjson", *folder_of(app, status).glob("*/*")):
        os.utime(path, (0, 0))
    with app.app_context():
        sweep(0)
    assert [path.exists() for path in (old, new, folder_of(app, status))] == [False, True, True]
