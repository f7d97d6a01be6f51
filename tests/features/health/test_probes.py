"""Probes and `fhirapp doctor`: each problem is reported, with what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from flask import Flask
from sqlalchemy import insert, update

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, ServerSecret, User
from fhirapp.config import settings_of
from fhirapp.db import base, writing
from fhirapp.disk import database_path
from fhirapp.environment import load_settings
from fhirapp.features.backups import probes as backup_probes
from fhirapp.features.backups.rotation import Backup
from fhirapp.features.health import address, probes
from fhirapp.features.health.examine import examine
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.queue import RUNNING, JobRow, Progress
from fhirapp.probe import GOOD, NOTE, WRONG, Bytes, Cost, Finding, Moment
from fhirapp.rest.middleware import UNNAMED_PROXY
from fhirapp.server.proxies import SCHEME
from tests.support.authorizing import alter
from tests.support.browsing import Browser, add_person
from tests.support.helpers import SECRET, damage_database
from tests.support.shell import run_command
from tests.support.trails import sql


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
        monkeypatch.setattr(probes, "Extractor", SandboxedReader)


@pytest.fixture
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """A server of this machine alone, with an administrator."""
    app = make_app(base_url="")
    add_person(app, ADMINISTRATOR)
    return app


def found(app: Flask, title: str, *, quick: bool = True) -> list[Finding]:
    with app.app_context():
        costs = [cost for cost in Cost if cost < Cost.WHOLE or not quick]
        return examine(*costs).findings.get(title, [])


def text_of(app: Flask, title: str, state: str, *, quick: bool = True) -> str:
    """Return the text of the one finding of a probe that has this state."""
    (finding,) = [each for each in found(app, title, quick=quick) if each.state == state]
    text, advice = finding.in_english()
    assert bool(advice) == (state != GOOD)
    return text


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
        result = examine(*Cost)
    assert not result.has(WRONG)
    titles = {"Readiness", "Address", "Clock", "Disk", "Database", "Audit trail", "Backups", "Jobs"}
    assert result.findings.keys() >= {*titles, "Accounts", "Documents", "Settings"}


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
            findings = examine(*Cost).findings
    wrong = {
        title: [each.in_english()[0] for each in listed if each.state == WRONG]
        for title, listed in findings.items()
    }
    (database,), (readiness,) = wrong["Database"], wrong["Readiness"]
    assert {title for title, texts in wrong.items() if texts} == {"Database", "Readiness"}
    assert (reason in database, "hunter2" in database) == (True, False)
    assert ("database" in readiness, "127.0.0.1" in readiness) == (True, False)
    assert "Audit trail" not in findings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": "", "host": "0.0.0.0"}, "but has no base URL"),
        ({"base_url": "http://clinic.invalid"}, "is not encrypted: others on the network can read"),
        ({"base_url": "http://clinic.invalid", "scheme": "https"}, "connected through TLS, but"),
        ({"base_url": "https://clinic.invalid"}, "seems to be a reverse proxy, but"),
    ],
)
def test_unusable_address_is_reported(make_app, settings, words):
    scheme = settings.pop("scheme", "http")
    app = make_app(seed=False, **settings)
    # The proxy is a finding of its own.
    with app.test_request_context(environ_overrides={SCHEME: scheme}):
        wrong = [each.in_english()[0] for each in address._address() if each.state == WRONG]
    assert words in " ".join(wrong)


def test_address_of_an_unnamed_proxy_is_reported(clinic, monkeypatch):
    monkeypatch.setitem(clinic.extensions, UNNAMED_PROXY, "192.0.2.1")
    assert text_of(clinic, "Address", WRONG).startswith("192.0.2.1 sends X-Forwarded-For")


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

        with http_server(respond) as base_url:
            assert address._answer_of(f"{base_url}/records").state == state
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

    with http_server(respond) as base_url:
        finding = address._answer_of(base_url)
    assert finding.state == state
    if state == WRONG:
        assert "with another name in their Host header" in finding.text
        assert "FHIRAPP_TRUSTED_PROXY" in finding.advice


def test_invalid_certificate_is_reported(monkeypatch):
    def refuses(*_given: object, **_named: object) -> None:
        error = ssl.SSLCertVerificationError(1, "no")
        error.verify_message = "certificate has expired"
        raise error

    monkeypatch.setattr(address.HTTPSConnection, "request", refuses)
    asked = address._answer_of("https://clinic.invalid")
    assert (asked.state, "(certificate has expired)" in asked.in_english()[0]) == (WRONG, True)


def test_record_of_the_future_shows_a_wrong_clock(clinic):
    with clinic.app_context(), writing() as connection:
        connection.exec_driver_sql(
            "UPDATE patient SET last_updated = '2199-01-01T00:00:00.000+00:00' WHERE id = 'p1'"
        )
    assert "2199-01-01" in text_of(clinic, "Clock", WRONG)


@pytest.mark.parametrize(
    ("free", "size", "state"),
    [
        (599, 100, WRONG),
        (601, 100, GOOD),
        # There is no room for a copy of the database.
        (5_400, 90_000, WRONG),
        (9_000, 90_000, NOTE),
        (90_600, 90_000, GOOD),
    ],
)
def test_disk_without_room_for_a_copy_of_the_database_is_reported(
    make_app, tmp_path, monkeypatch, free, size, state
):
    database = tmp_path / "large.db"
    app = make_app(seed=False)
    monkeypatch.setattr(probes, "database_path", lambda _settings: database)
    with database.open("wb") as file:
        file.truncate(size * 1_000_000)
    usage = shutil.disk_usage("/")._replace(free=free * 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with app.app_context():
        listed = [each for each in probes._disk() if isinstance(each, Finding)]
    assert {each.state for each in listed} == {state}
    assert all(str(each.values["free"]) in each.in_english()[0] for each in listed)


def test_sizes_and_moments_are_written_with_their_units():
    sizes = {0: "0 bytes", 999: "999 bytes", 1_500: "1.5 kB", 79_163_000_000: "79.2 GB"}
    assert {size: str(Bytes(size)) for size in sizes} == sizes
    assert str(Moment(1_800_000_000)) == "2027-01-15 08:00 UTC"


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_readable_key_file_is_reported(clinic):
    path = settings_of(clinic).instance / "secret.key"
    path.touch()
    path.chmod(0o644)
    assert str(path) in text_of(clinic, "Keys", WRONG)


def test_old_signing_key_is_reported(clinic):
    clinic.test_client().get("/oauth/jwks.json")
    path = settings_of(clinic).instance / "signing-keys.json"
    long_ago = int(time.time()) - 500 * 86_400
    # One of the two is where it is kept.
    os.utime(path, (long_ago, long_ago))
    alter(clinic, update(ServerSecret).values(changed_at=long_ago))
    assert text_of(clinic, "Keys", NOTE) == "The key that signs id tokens is 500 days old."


def test_tampered_audit_trail_is_reported_by_the_full_check(clinic):
    Browser(clinic).sign_in("nobody", "nonsense")
    Browser(clinic).sign_in("nobody", "nonsense")
    sql(clinic, "UPDATE audit_entry SET event = 'sign-in' WHERE event = 'sign-in-failed'")
    assert [finding.state for finding in found(clinic, "Audit trail")] == [GOOD]
    assert "is not intact" in text_of(clinic, "Audit trail", WRONG, quick=False)


def test_damaged_database_is_reported_by_the_full_check(clinic):
    path = database_path(settings_of(clinic))
    damage_database(path)
    # What is read after that may not be readable either.
    wrong = [each.text for each in found(clinic, "Database", quick=False) if each.state == WRONG]
    assert any("is damaged" in text for text in wrong)


def test_missing_and_old_backups_are_reported(clinic, monkeypatch):
    assert text_of(clinic, "Backups", NOTE).startswith("There is no backup in the server's")
    made = Backup("fhirapp-20260101T000000Z.backup", 1_500, time.time(), is_sealed=False)
    monkeypatch.setattr(backup_probes, "backups", lambda _settings: [made])
    text = f"The newest backup is 0 days old: {made.name}, "
    assert text_of(clinic, "Backups", GOOD).startswith(text)
    assert text_of(clinic, "Backups", GOOD).endswith(", 1.5 kB.")
    assert "was verified on the page Backups in the last 35 days" in text_of(
        clinic, "Backups", NOTE
    )
    for days, state in ((7.9, GOOD), (8.1, WRONG)):
        taken_at = time.time() - days * 86_400
        aged = made._replace(taken_at=taken_at)
        monkeypatch.setattr(backup_probes, "backups", lambda _settings, aged=aged: [aged])
        assert f"is {int(days)} days old" in text_of(clinic, "Backups", state)


def run_of_nightly(at: int) -> dict[str, object]:
    """Return the job of a run that succeeded."""
    return {
        "id": "c" * 24,
        "kind": "backup",
        "owner": "schedule:nightly",
        "state": "done",
        "created_at": at,
        "ended_at": at,
        "attempts": 1,
        "free_attempts": 0,
        "stop_requests": 0,
        "request": {},
        "progress": {},
        "schedule": "nightly",
    }


def test_backups_of_a_schedule_in_another_folder_count(clinic):
    with clinic.app_context():
        schedules.add("nightly", "backup", "daily 02:00", {"folder": "/"}, int(time.time()))
    alter(clinic, insert(JobRow).values(run_of_nightly(int(time.time()) - 20 * 86_400)))
    text = "The schedule nightly took its last backup 20 days ago: "
    assert text_of(clinic, "Backups", WRONG).startswith(text)


def test_backup_of_a_schedule_counts_where_it_is_newer(clinic, monkeypatch):
    now = int(time.time())
    old = Backup("manual.backup", 1_500, now - 90 * 86_400, is_sealed=False)
    monkeypatch.setattr(backup_probes, "backups", lambda _settings: [old])
    assert "is 90 days old" in text_of(clinic, "Backups", WRONG)
    with clinic.app_context():
        schedules.add("nightly", "backup", "daily 02:00", {"folder": "/"}, now)
    alter(clinic, insert(JobRow).values(run_of_nightly(now - 86_400)))
    text = "The schedule nightly took its last backup 1 days ago: "
    assert text_of(clinic, "Backups", GOOD).startswith(text)


def test_job_that_waits_for_long_is_reported(clinic):
    with clinic.app_context(), writing() as connection:
        queue.add(connection, "a" * 24, "bulk-export", "Ada", int(time.time()) - 1_800)
    text = "The job bulk-export of Ada has waited for 30 minutes."
    assert text_of(clinic, "Jobs", NOTE) == text


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
        "free_attempts": 0,
        "stop_requests": 0,
        "request": {},
        "progress": {},
        "error": None,
        "ended_at": None,
        "expires_at": None,
    }
    failed = {"id": "b" * 24, "state": "failed", "ended_at": now, "error": "No room."}
    alter(clinic, insert(JobRow).values(row), insert(JobRow).values({**row, **failed}))
    assert text_of(clinic, "Jobs", WRONG) == (
        "The job export of Ada has stopped reporting progress."
    )
    assert text_of(clinic, "Jobs", NOTE) == "The job export of Ada failed: No room."
    # One that began on a page says why in its notes; of one that was killed no end is known.
    noted = {"state": "failed", "error": None, "progress": asdict(Progress(notes=["No key."]))}
    killed = {"state": "interrupted", "lease_until": None, "created_at": now, "ended_at": None}
    alter(
        clinic,
        update(JobRow).where(JobRow.id == "a" * 24).values(killed),
        update(JobRow).where(JobRow.id == "b" * 24).values(noted),
    )
    assert {finding.in_english()[0] for finding in found(clinic, "Jobs")} == {
        "The job export of Ada failed: it was interrupted",
        "The job export of Ada failed: No key.",
    }


def test_files_that_are_still_being_stored_are_reported(clinic):
    job_id = "a" * 24
    with clinic.app_context():
        with writing() as connection:
            queue.add(connection, job_id, "export", "Ada", 0, runs=True)
        job = queue.find(job_id, "export")
        assert job is not None
        queue.finish(job, "done", 0, progress=Progress(storage_error="/mnt: It is away"))
    assert text_of(clinic, "Jobs", NOTE) == (
        "Files of the job export of Ada are still being stored: /mnt: It is away"
    )


def test_missing_administrators_and_second_factors_are_reported(clinic):
    assert "without a second factor" in text_of(clinic, "Accounts", NOTE)
    alter(clinic, update(User).values(disabled=True))
    assert text_of(clinic, "Accounts", WRONG) == "There is no administrator."


@pytest.mark.process
def test_document_reader_is_sandboxed(clinic):
    assert text_of(clinic, "Documents", GOOD) == ("The process that reads documents is sandboxed.")


def test_unconfined_document_reader_is_reported(clinic, monkeypatch):
    monkeypatch.setattr(probes.Extractor, "html_of", lambda self, *_: setattr(self, "lacking", "x"))
    assert "is not fully sandboxed: x" in text_of(clinic, "Documents", NOTE)


def test_failing_probe_hides_no_other(clinic, monkeypatch):
    def fails() -> None:
        raise PermissionError

    monkeypatch.setattr(probes, "types", fails)
    assert text_of(clinic, "Clock", WRONG) == "This cannot be checked (PermissionError)."
    assert found(clinic, "Accounts")


def test_doctor_command_fails_where_something_is_wrong(clinic, tmp_path):
    run_command(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    done = run_command(tmp_path, "doctor")
    assert done.returncode == 1
    assert "WRONG  Accounts: There is no administrator" in done.stdout
    listed = run_command(tmp_path, "doctor", "--json", "--quick")
    findings = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {finding["state"] for finding in findings} <= {GOOD, NOTE, WRONG}


def test_administrators_see_findings_on_a_page(clinic):
    admin = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    page = admin.get(admin.get("/admin").links["Check the server"])
    assert page.heading == "Server check"
    assert "without a second factor" in page.words
    page = admin.get(page.links["Read the database and the audit trail to their ends too"])
    assert "entries, all as they were sealed" in page.words
    assert "entries, all as they were sealed" not in admin.get("/admin").words
