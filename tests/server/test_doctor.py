"""`fhirapp doctor`: each thing that is not as it should be is reported, with what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from flask import Flask
from sqlalchemy import insert, update

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, ServerSecret, User
from fhirapp.config import load_settings, settings_of
from fhirapp.db import base, writing
from fhirapp.disk import database_path
from fhirapp.features.backups.rotation import Backup
from fhirapp.jobs.table import RUNNING, JobRow, Progress
from fhirapp.server import doctor
from fhirapp.server.doctor import GOOD, NOTE, WRONG, Finding, examine
from tests.support.authorizing import alter
from tests.support.browsing import Browser, add_person
from tests.support.helpers import SECRET, damage_database
from tests.support.shell import run_command
from tests.support.trails import change


class SandboxedReader:
    """Stands for the document reader, which starts a process."""

    lacking = ""

    def __enter__(self) -> SandboxedReader:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def html_of(self, content: bytes, media_type: str) -> None:
        pass


@pytest.fixture(autouse=True)
def _reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("process"):
        monkeypatch.setattr(doctor, "Extractor", SandboxedReader)


@pytest.fixture
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """A server of this machine alone, with an administrator."""
    app = make_app(base_url="")
    add_person(app, ADMINISTRATOR)
    return app


def found(app: Flask, what: str, *, quick: bool = True) -> list[Finding]:
    with app.app_context():
        return [finding for finding in examine(app, quick=quick) if finding.what == what]


def words_of(app: Flask, what: str, state: str, *, quick: bool = True) -> str:
    """Return the words of the one finding of a kind that is as bad."""
    (finding,) = [finding for finding in found(app, what, quick=quick) if finding.state == state]
    assert bool(finding.advice) == (state != GOOD)
    return finding.words


@contextmanager
def http_server(respond: Callable[[BaseHTTPRequestHandler], tuple[int, bytes]]) -> Iterator[str]:
    """Serve answers to GET in a thread; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = respond(self)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_healthy_server_has_no_findings(clinic):
    with clinic.app_context():
        listed = examine(clinic)
    assert [finding for finding in listed if finding.state == WRONG] == []
    kinds = {"Readiness", "Address", "Clock", "Disk", "Database", "Audit trail", "Backups", "Jobs"}
    assert {finding.what for finding in listed} >= {*kinds, "Accounts", "Documents"}


@pytest.mark.parametrize(
    ("is_there", "reason"),
    [
        (False, "Connection refused"),
        # psycopg waits for 2 s at least, and is asked twice.
        pytest.param(True, "connection timeout expired", marks=pytest.mark.postgres),
    ],
)
def test_unreachable_database_is_one_finding(tmp_path, monkeypatch, is_there, reason):
    pytest.importorskip("psycopg")
    monkeypatch.setitem(base._ALIVE, "connect_timeout", "1")
    with ExitStack() as stack:
        # It takes connections, as one that hangs does; or nobody listens there any more.
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"postgresql://ada:hunter2@127.0.0.1:{listener.getsockname()[1]}/clinic"
        if not is_there:
            listener.close()
        settings = load_settings({}, instance_path=str(tmp_path), database_url=url, secret=SECRET)
        app = create_app(settings)
        with app.app_context():
            wrong = {finding.what: finding for finding in examine(app) if finding.state == WRONG}
    assert wrong.keys() == {"Database", "Readiness"}
    words = wrong["Database"].words
    assert (reason in words, "hunter2" in words) == (True, False)
    assert "Audit trail" in wrong["Database"].advice
    assert "database" in wrong["Readiness"].words
    assert "127.0.0.1" not in wrong["Readiness"].words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0"}, "but FHIRAPP_BASE_URL is not set"),
        ({"base_url": "http://clinic.invalid"}, "is not encrypted: passwords can be read"),
    ],
)
def test_unusable_base_url_is_reported(clinic, settings, words):
    changed = replace(settings_of(clinic), **settings)
    assert words in next(
        finding.words for finding in doctor._address(changed) if finding.state == WRONG
    )


def test_unnamed_proxy_is_reported(clinic):
    changed = replace(settings_of(clinic), base_url="https://clinic.invalid")
    listed = list(doctor._address(changed))
    assert [finding.state for finding in listed if finding.what == "Proxy"] == [WRONG]
    # Nor does that address lead anywhere.
    assert [finding.state for finding in listed if finding.what == "Address"] == [NOTE]


def test_answers_at_the_base_url_are_judged():
    for status, body, state in (
        (200, b'{"status":"alive"}', GOOD),
        (200, b"<html>", WRONG),
        (502, b"alive", WRONG),
    ):
        paths = []

        def respond(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
            paths.append(request.path)  # noqa: B023
            return status, body  # noqa: B023

        with http_server(respond) as address:
            assert doctor._asked(f"{address}/records").state == state
        assert paths[0] == "/records/health/live"


@pytest.mark.parametrize(
    ("passed_on", "state"),
    [("{}", GOOD), ("LOCALHOST:99", GOOD), ("app.internal:8000", WRONG), ("{}.evil", WRONG)],
)
def test_proxy_that_changes_the_host_header_is_reported(clinic, passed_on, state):
    client = clinic.test_client()

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        host = passed_on.format(request.headers["Host"])
        answer = client.get(request.path, headers={"Host": host})
        return answer.status_code, answer.data

    with http_server(respond) as address:
        finding = doctor._asked(address)
    assert finding.state == state
    if state == WRONG:
        assert "with another name in their Host header" in finding.words
        assert "FHIRAPP_TRUSTED_PROXY" in finding.advice


def test_invalid_certificate_is_reported(monkeypatch):
    def refuses(*_given: object, **_named: object) -> None:
        error = ssl.SSLCertVerificationError(1, "no")
        error.verify_message = "certificate has expired"
        raise error

    monkeypatch.setattr(doctor.HTTPSConnection, "request", refuses)
    asked = doctor._asked("https://clinic.invalid")
    assert (asked.state, "(certificate has expired)" in asked.words) == (WRONG, True)


def test_record_of_the_future_shows_a_wrong_clock(clinic):
    with clinic.app_context(), writing() as connection:
        connection.exec_driver_sql(
            "UPDATE patient SET last_updated = '2199-01-01T00:00:00.000+00:00' WHERE id = 'p1'"
        )
    assert "2199-01-01" in words_of(clinic, "Clock", WRONG)


def test_nearly_full_disk_is_reported(clinic, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=20_000_000))
    told = found(clinic, "Disk")
    assert {finding.state for finding in told} == {WRONG}
    assert all("20.0 MB left" in finding.words for finding in told)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_readable_key_file_is_reported(clinic):
    path = settings_of(clinic).instance / "secret.key"
    path.touch()
    path.chmod(0o644)
    assert str(path) in words_of(clinic, "Keys", WRONG)


def test_old_signing_key_is_reported(clinic):
    clinic.test_client().get("/oauth/jwks.json")
    path = settings_of(clinic).instance / "signing-keys.json"
    long_ago = int(time.time()) - 500 * 86_400
    # One of the two is where it is kept.
    os.utime(path, (long_ago, long_ago))
    alter(clinic, update(ServerSecret).values(changed_at=long_ago))
    assert words_of(clinic, "Keys", NOTE) == "the key that signs id tokens is 500 days old"


def test_tampered_audit_trail_is_reported_by_the_full_check(clinic):
    Browser(clinic).sign_in("nobody", "nonsense")
    Browser(clinic).sign_in("nobody", "nonsense")
    change(clinic, b"sign-in-failed", b"sign-in")
    assert [finding.state for finding in found(clinic, "Audit trail")] == []
    assert "it is not intact" in words_of(clinic, "Audit trail", WRONG, quick=False)


def test_damaged_database_is_reported_by_the_full_check(clinic):
    path = database_path(settings_of(clinic))
    damage_database(path)
    # What is read after that may not be readable either.
    wrong = [
        finding.words
        for finding in found(clinic, "Database", quick=False)
        if finding.state == WRONG
    ]
    assert "is damaged" in wrong[0]


def test_missing_and_old_backups_are_reported(clinic, monkeypatch):
    assert words_of(clinic, "Backups", NOTE) == "there is none in the server's folder"
    made = Backup("fhirapp-20260101T000000Z.backup", 1, time.time(), is_sealed=False)
    monkeypatch.setattr(doctor, "backups", lambda _settings: [made])
    first, tried = found(clinic, "Backups")
    assert (first.state, first.words) == (GOOD, f"the newest is 0 days old ({made.name})")
    assert (tried.state, "in 35 days" in tried.words) == (NOTE, True)
    monkeypatch.setattr(doctor, "backups", lambda _settings: [made._replace(taken_at=0)])
    assert "days old" in words_of(clinic, "Backups", WRONG)


def test_hanging_and_failed_jobs_are_reported(clinic):
    now = int(time.time())
    row = {
        "id": "a" * 24,
        "kind": "export",
        "owner": "Ada",
        "state": RUNNING,
        "created_at": 0,
        "attempts": 1,
        "lease_until": now - 3600,
        "stop_requests": 0,
        "request": {},
        "progress": {},
        "error": None,
        "ended_at": None,
        "expires_at": None,
    }
    failed = {"id": "b" * 24, "state": "failed", "ended_at": now, "error": "No room."}
    alter(clinic, insert(JobRow).values(row), insert(JobRow).values({**row, **failed}))
    assert words_of(clinic, "Jobs", WRONG) == "the export of Ada has stopped reporting progress"
    assert words_of(clinic, "Jobs", NOTE) == "the export of Ada failed: No room."
    # One that began on a page says why in its notes; of one that was killed no end is known.
    noted = {"state": "failed", "error": None, "progress": asdict(Progress(notes=["No key."]))}
    killed = {"state": "interrupted", "lease_until": None, "created_at": now, "ended_at": None}
    alter(
        clinic,
        update(JobRow).where(JobRow.id == "a" * 24).values(killed),
        update(JobRow).where(JobRow.id == "b" * 24).values(noted),
    )
    assert {finding.words for finding in found(clinic, "Jobs")} == {
        *("the export of Ada failed: it was interrupted", "the export of Ada failed: No key.")
    }


def test_missing_administrators_and_second_factors_are_reported(clinic):
    assert "have no second factor" in words_of(clinic, "Accounts", NOTE)
    alter(clinic, update(User).values(disabled=True))
    assert words_of(clinic, "Accounts", WRONG) == "there is no administrator"


@pytest.mark.process
def test_document_reader_is_sandboxed(clinic):
    assert words_of(clinic, "Documents", GOOD) == "the document reader is sandboxed"


def test_unconfined_document_reader_is_reported(clinic, monkeypatch):
    monkeypatch.setattr(doctor.Extractor, "html_of", lambda self, *_: setattr(self, "lacking", "x"))
    assert "is not fully sandboxed: x" in words_of(clinic, "Documents", NOTE)


def test_failing_check_hides_no_other(clinic, monkeypatch):
    def fails() -> None:
        raise PermissionError

    monkeypatch.setattr(doctor, "_clock", fails)
    assert words_of(clinic, "Clock", WRONG) == "cannot be checked (PermissionError)"
    assert found(clinic, "Accounts")


def test_doctor_command_fails_where_something_is_wrong(clinic, tmp_path):
    run_command(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    done = run_command(tmp_path, "doctor")
    assert done.returncode == 1
    assert "WRONG  Accounts: there is no administrator" in done.stdout
    listed = run_command(tmp_path, "doctor", "--json", "--quick")
    findings = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {finding["state"] for finding in findings} <= {GOOD, NOTE, WRONG}


def test_administrators_see_findings_on_a_page(clinic):
    admin = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    page = admin.get(admin.get("/admin").links["Check the server"])
    assert page.heading == "Server check"
    assert "have no second factor" in page.words
    page = admin.get(page.links["Read the database and the audit trail to their ends too"])
    assert "lines in an unbroken chain" in page.words
