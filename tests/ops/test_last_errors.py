"""The last warnings and errors: an id that somebody saw leads to its traceback, on any server."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.ops import last_errors
from fhirapp.ops.health import Sparing
from fhirapp.ops.last_errors import FOLDER, MOST, NAME, OLDER, Log
from fhirapp.web.pages import for_signed_in
from tests.support.browsing import Browser, add_person
from tests.support.databases import POSTGRESQL
from tests.support.helpers import Fhir, token_for
from tests.support.serving import servers
from tests.support.shell import assert_not_done, run_command

_log = logging.getLogger("fhirapp.tests")


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Iterator[Flask]:
    """An app whose log is kept."""
    app = make_app()
    handler = Log(sys.stderr, settings_of(app).instance)
    handler.addFilter(Sparing())
    logging.getLogger().addHandler(handler)
    last_errors._unshared.clear()
    yield app
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def kept(app: Flask) -> list[last_errors.Entry]:
    with app.app_context():
        return [*last_errors.last_errors(app)]


def test_the_id_of_an_errors_page_leads_an_administrator_to_its_traceback(app, admin):
    app.view_functions["account.account"] = for_signed_in(lambda: 1 / 0)
    page = admin.get("/account")
    assert page.status == 500
    request_id = page.headers["X-Request-Id"]
    assert request_id in page.words
    page = admin.get(page.offered["View the log entry"])
    assert f"request {request_id} failed" in page.words
    assert "ZeroDivisionError: division by zero" in page.words
    assert page.words.count("request 1") == 2
    _log.warning("something else")
    found = admin.get("/admin/logs").submit("Search", id=request_id)
    assert "ZeroDivisionError" in found.words
    assert "something else" not in found.words


def test_others_are_told_the_id_alone(app):
    app.view_functions["account.account"] = for_signed_in(lambda: 1 / 0)
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert "View the log entry" not in clinician.get("/account").offered
    assert clinician.get("/admin/logs").status == 403
    assert "Sign in" in Browser(app).get("/admin/logs").heading


def test_the_id_of_an_operation_outcome_leads_there_too(app, admin):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    with app.app_context(), db.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE allergy_intolerance_token")
    answer = fhir.get("/fhir/AllergyIntolerance?code=7641460075&patient=p1")
    assert answer.status_code == 500
    page = admin.get(f"/admin/logs?id={answer.headers['X-Request-Id']}")
    assert "allergy_intolerance_token" in page.words
    # What was searched for is a patient's, and in no log.
    assert "7641460075" not in page.response.text
    assert "7641460075" not in repr(kept(app))


def test_entries_are_found_by_their_level(app, admin):
    _log.info("nothing")
    _log.warning("a warning")
    _log.error("an error")
    words = admin.get("/admin/logs").words
    assert words.index("ERROR an error") < words.index("WARNING a warning")
    assert "nothing" not in words
    page = admin.get("/admin/logs").submit("Search", level="ERROR")
    assert "an error" in page.words
    assert "a warning" not in page.words
    assert "No entries for a request" in admin.get("/admin/logs?id=abc").words


def test_what_is_kept_is_bounded(app):
    folder = settings_of(app).instance / FOLDER
    for number in range(300):
        # From other places of the code each, so that none is left out.
        record = logging.LogRecord("a", logging.ERROR, "a.py", number, "x" * 5_000, (), None)
        logging.getLogger().handle(record)
    assert len(kept(app)) == 300
    assert {len(entry.message) for entry in kept(app)} == {2_000}
    for number in range(300, 900):
        record = logging.LogRecord("a", logging.ERROR, "a.py", number, "y" * 5_000, (), None)
        logging.getLogger().handle(record)
    assert {path.name for path in folder.iterdir()} == {NAME, OLDER}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_100_000
    entries = kept(app)
    assert MOST // 2 < len(entries) <= MOST
    assert {entry.message[0] for entry in entries} == {"y"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_line_that_was_cut_off_hides_no_other(app):
    _log.error("before")
    path = settings_of(app).instance / FOLDER / NAME
    with path.open("a") as file:
        file.write('{"key": "1", "time\n{"of": "another release"}\n')
    _log.error("after")
    assert [entry.message for entry in kept(app)] == ["after", "before"]


def test_a_log_that_cannot_be_kept_is_written_still(app, capsys):
    folder = settings_of(app).instance / FOLDER
    folder.write_text("no folder")
    _log.error("told")
    assert kept(app) == []
    folder.unlink()


def test_a_message_that_cannot_be_made_fails_no_request(app, capsys):
    (handler,) = (
        candidate for candidate in logging.getLogger().handlers if isinstance(candidate, Log)
    )

    def warn(message: str, value: str) -> None:
        # Not through the logger: the tests' own handlers raise, or cannot send what they caught.
        handler.handle(_log.makeRecord("", logging.WARNING, "", 0, message, (value,), None))

    warn("%d records", "many")
    assert "TypeError" in capsys.readouterr().err
    warn("the file %s", os.fsdecode(b"\xffcut.ndjson"))
    assert [entry.message for entry in kept(app)] == ["the file ?cut.ndjson"]
    with app.app_context():
        last_errors.share_now()
    assert not last_errors._unshared


@pytest.mark.databases(POSTGRESQL)
def test_servers_of_one_database_show_those_of_all(app, make_app):
    _log.error("here")
    with app.app_context():
        last_errors.share_now()
        assert not last_errors._unshared
    _log.error("in the file alone yet")
    # Another server has a folder of its own.
    other = make_app(database_url=settings_of(app).database_url, seed=False)
    assert [entry.message for entry in kept(other)] == ["here"]
    assert [entry.message for entry in kept(app)] == ["in the file alone yet", "here"]
    with app.app_context():
        last_errors.share_now()
    # A process that was forked meanwhile has the same to put there.
    for entry in kept(app):
        last_errors._unshared.append(entry._asdict())
    with app.app_context():
        last_errors.share_now()
    assert len(kept(other)) == 2


@pytest.mark.process
def test_log_of_a_server_survives_it(tmp_path: Path):
    with servers(tmp_path) as run:
        server = run("--demo")
        os.kill(server.children()[0], signal.SIGKILL)
        while "is replaced" not in (tmp_path / "log").read_text():
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(0.05)
        assert server.end() == 0
    (line,) = run_command(tmp_path, "logs", "--demo").stdout.splitlines()
    assert " ERROR fhirapp.ops.serve -: server process " in line
    assert line.endswith("it is replaced")


def test_the_command_prints_an_entry_by_its_id(app):
    app.view_functions["account.account"] = for_signed_in(lambda: 1 / 0)
    page = Browser(app).resume(add_person(app, CLINICIAN)).get("/account")
    _log.warning("something else")
    settings = settings_of(app)
    variables = {"DATABASE_URL": settings.database_url}

    def logs(*arguments: str) -> str:
        done = run_command(settings.folder, "logs", *arguments, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    request_id = page.headers["X-Request-Id"]
    printed = logs(request_id)
    assert f" ERROR fhirapp.web.pages {request_id}: request {request_id} failed\n" in printed
    assert "    ZeroDivisionError: division by zero" in printed
    assert "something else" not in printed
    first, second = (json.loads(line) for line in logs("--json").splitlines())
    assert (first["message"], second["request"]) == ("something else", request_id)
    assert len(logs("--since", first["time"], "--json").splitlines()) == 1
    assert logs("--since", "2999-01-01") == ""
    for arguments, words in (
        (("logs", "f" * 16), "No warnings or errors are kept for the request ID ffffffffffffffff"),
        (("logs", "--since", "yesterday"), "'yesterday' is not a date or time"),
    ):
        assert_not_done(run_command(settings.folder, *arguments, **variables), words)
