"""A restore from the page of backups: real servers that restart on the prepared database."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.backups.file_swap import journal_of
from fhirapp.features.backups.prepared import CONFIRMED, DONE, FAILED, prepared
from fhirapp.features.backups.rotation import keep_backup
from fhirapp.server.lock import in_use
from tests.support.backups import app_in, make_clinic, settings_in, taken
from tests.support.browsing import Browser, Page, add_person
from tests.support.importing import PATIENT, load_lines
from tests.support.serving import WAIT_SECONDS, Server, answer, get, servers

pytestmark = pytest.mark.process
PASSPHRASE = "correct horse battery"


REASON = "Imported into the wrong clinic"


class Clinic:
    """An instance with a backup of before its last patient came, and a server on it."""

    def __init__(self, folder: Path, run: Callable[..., Server], passphrase: str = "") -> None:
        self.folder = make_clinic(folder)
        self.settings = settings_in(folder)
        with app_in(folder) as app:
            self.admin = add_person(app, ADMINISTRATOR)
        keep_backup(self.settings, taken(folder, folder / "x.backup", passphrase or None))
        with app_in(folder) as app:
            load_lines(app, folder, PATIENT)
        self._run = run

    def start(self, processes: str = "1") -> None:
        self.server = self._run(PROCESSES=processes)
        app = create_app(self.settings)
        self.browser = Browser(app).resume(self.admin)
        with app.app_context():
            db.engine.dispose()
        # From here on the browser asks the server.
        app.wsgi_app = self._ask  # type: ignore[method-assign]

    def _ask(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT_SECONDS)
        query = environ["QUERY_STRING"]
        path = environ["PATH_INFO"] + (f"?{query}" if query else "")
        headers = {"Cookie": environ.get("HTTP_COOKIE", ""), "Host": "localhost"}
        if content_type := environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = content_type
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        connection.request(environ["REQUEST_METHOD"], path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        start_response(f"{response.status} {response.reason}", response.getheaders())
        return [content]

    def prepare(self, **fields: str) -> Page:
        """Prepare the restore, to its end; return its page."""
        page = self.browser.get("/admin/backups/x.backup/restore")
        page = page.submit("Prepare the restore", **fields)
        # Where the machine is slow, it is taken for dead until it goes on.
        busy = ("Running for", "interrupted")
        return self._once(
            page, page.path, lambda page: not any(words in page.words for words in busy)
        )

    def restored(self) -> Page:
        """Wait until the server has started anew; return the page that was waited for."""
        path = "/admin/restoring"
        return self._once(self.browser.get(path), path, lambda page: page.heading != "Restoring")

    def _once(self, page: Page, path: str, is_so: Callable[[Page], bool]) -> Page:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so(page):
            assert time.monotonic() < deadline, page.words
            time.sleep(0.1)
            page = self.browser.get(path)
        return page

    def confirm(self, page: Page, typed: str = "restore", reason: str = REASON) -> Page:
        return page.submit("Restore it and restart", typed=typed, reason=reason)

    def patients(self) -> int:
        """Return how many patients the server's database has, which nobody writes to now."""
        with app_in(self.folder) as app, app.app_context(), db.engine.connect() as connection:
            query = db.select(db.func.count()).where(types()["Patient"].table.c.is_current)
            return int(connection.execute(query).scalar() or 0)

    def events(self) -> list[dict[str, Any]]:
        """Return the trail's lines about restores."""
        with closing(sqlite3.connect(self.folder / "audit.db")) as store:
            rows = store.execute("SELECT line FROM audit_entry WHERE event <> '' ORDER BY n")
            lines = [json.loads(line) for (line,) in rows]
        return [line for line in lines if "restore" in line["event"]]


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Callable[..., Clinic]]:
    with servers(tmp_path / "instance") as run:
        yield lambda passphrase="": Clinic(tmp_path / "instance", run, passphrase)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_restored_database_is_served_by_the_same_process(clinic, processes):
    it = clinic()
    it.start(processes)
    page = it.prepare()
    assert "The backup is verified" in page.words
    assert "Patients 14 15 1" in page.words, page.words
    assert f"Your account {it.admin} is an administrator's in it too" in page.words
    form = b"grant_type=client_credentials"
    head = b"POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
    head += b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    with it.server.connect() as midst:
        midst.sendall(head % len(form) + form[:10])
        assert it.server.ask(get("/health/live"))[0].status == 200
        page = it.confirm(page)
        assert page.heading == "Restoring"
        assert '<meta http-equiv="refresh" content="3; url=../../../restoring">' in (
            page.response.text
        )
        midst.sendall(form[10:])
        # Whoever was in the midst of a request has its answer.
        assert answer(midst)[0].status in (400, 401)
    page = it.restored()
    # No session is left, and the server is the same process on the same port.
    assert page.heading == "Sign in"
    assert it.server.process.poll() is None
    page.submit("Sign in", username=it.admin, password="demo")
    page = it.browser.get("/admin/backups")
    assert "x.backup was restored on" in page.words
    assert "fhirapp.db.before-" in page.words
    assert it.server.end() == 0
    assert it.patients() == 14
    confirmed, restored = it.events()
    assert (confirmed["event"], restored["event"]) == ("restore-confirmed", "restored")
    assert REASON in confirmed["what"]
    assert REASON in restored["what"]
    assert it.admin in restored["what"]
    assert confirmed["user"] == restored["user"] is not None
    assert not (it.folder / "fhirapp.db.prepared" / "database.sqlite").exists()


def children(server: Server) -> set[int]:
    """Return the ids of the children of all threads of a server's process."""
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    return {int(pid) for path in tasks for pid in path.read_text().split()}


def test_process_of_a_job_is_waited_for_after_a_restart(clinic):
    it = clinic()
    it.start()
    it.browser.get("/admin/backups").submit("Take a backup")
    (job,) = children(it.server)
    os.kill(job, signal.SIGSTOP)
    it.server.process.send_signal(signal.SIGUSR1)
    log = it.folder / "log"
    deadline = time.monotonic() + WAIT_SECONDS
    while log.read_text().count("serves FHIR R4 at") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert job in children(it.server)
    os.kill(job, signal.SIGCONT)
    while job in children(it.server):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert it.server.ask(get("/health/ready"))[0].status == 200
    assert it.server.end() == 0


def test_failed_restore_leaves_the_old_database_and_sessions(clinic):
    it = clinic()
    it.start("2")
    page = it.prepare()
    # Another program works on the database.
    with in_use(it.settings):
        it.confirm(page)
        page = it.restored()
    # Nobody is signed out.
    assert "x.backup was not restored on" in page.words
    assert "or a command uses it" in page.words
    assert it.server.end() == 0
    assert it.patients() == 15
    assert [line["event"] for line in it.events()] == ["restore-confirmed", "restore-failed"]
    assert "was not restored, and the old database is served" in (it.folder / "log").read_text()


def test_passphrase_of_an_encrypted_backup_is_stored_nowhere(clinic):
    it = clinic(PASSPHRASE)
    it.start()
    page = it.prepare(passphrase="another")
    assert "The passphrase does not open" in page.words
    assert prepared(it.settings) is None
    page = it.prepare(passphrase=PASSPHRASE)
    assert "The backup is verified" in page.words, page.words
    kept = [path for path in it.folder.rglob("*") if path.is_file()]
    assert not any(PASSPHRASE.encode() in path.read_bytes() for path in kept)
    assert (it.folder / "fhirapp.db.prepared").stat().st_mode & 0o077 == 0
    # A reason, the word and a form's token are needed.
    assert it.confirm(page, reason="").heading != "Restoring"
    assert it.confirm(page, typed="yes").heading != "Restoring"
    path = "/admin/backups/x.backup/restore/confirm"
    fields = {**page.form("Restore it and restart").fields, "typed": "restore", "reason": REASON}
    assert it.browser.post(path, {**fields, "form_token": "x"}).status == 400
    assert it.browser.post(path, {**fields, "prepared": "../../x"}).status == 400
    found = prepared(it.settings)
    assert found is not None
    assert found.state == "prepared"
    assert it.events() == []
    assert it.server.end() == 0
    # Nobody confirmed it.
    assert it.patients() == 15


def test_server_killed_during_a_restore_starts_with_the_old_or_the_new_database(clinic):
    it = clinic()
    outcomes = set()
    for pause in (0.0, 0.6, 1.5):
        it.start("2")
        it.confirm(it.prepare())
        time.sleep(pause)
        it.server.end(signal.SIGKILL)
        it.start("2")
        assert it.server.ask(get("/health/ready"))[0].status == 200
        found = prepared(it.settings)
        assert found is not None
        assert found.state in (DONE, FAILED)
        assert not journal_of(it.folder / "fhirapp.db").exists()
        assert it.server.end() == 0
        assert it.patients() == (14 if found.state == DONE else 15)
        outcomes.add(found.state)
        if found.state == DONE:
            break
    assert FAILED in outcomes


def test_confirmed_restore_is_not_done_by_a_later_start(clinic):
    it = clinic()
    it.start()
    it.prepare()
    assert it.server.end() == 0
    place = it.folder / "fhirapp.db.prepared" / "restore.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "state": CONFIRMED}))
    it.start()
    assert "x.backup was not restored on" in it.browser.get("/admin/backups").words
    assert it.server.end() == 0
    assert it.patients() == 15
