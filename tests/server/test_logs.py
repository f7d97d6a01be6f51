"""The last warnings and errors: an id that somebody saw leads to its traceback."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.server import logs
from fhirapp.server.logs import LogHandler, RateLimit
from fhirapp.web.pages import for_signed_in
from tests.support.browsing import Browser, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.shell import assert_not_done, run_command

_log = logging.getLogger("fhirapp.tests")


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Iterator[Flask]:
    """An app whose log is kept."""
    app = make_app()
    handler = LogHandler(sys.stderr, settings_of(app).instance)
    handler.addFilter(RateLimit())
    logging.getLogger().addHandler(handler)
    yield app
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def kept(app: Flask) -> list[logs.LogEntry]:
    return [*logs.last_errors(settings_of(app).instance)]


def test_request_id_on_an_error_page_leads_an_administrator_to_the_traceback(app, admin):
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


def test_other_users_see_only_the_request_id(app):
    app.view_functions["account.account"] = for_signed_in(lambda: 1 / 0)
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert "View the log entry" not in clinician.get("/account").offered
    assert clinician.get("/admin/logs").status == 403
    assert "Sign in" in Browser(app).get("/admin/logs").heading


def test_request_id_of_an_operation_outcome_leads_to_the_traceback(app, admin):
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


def test_log_message_that_cannot_be_formatted_fails_no_request(app, capsys):
    (handler,) = (
        candidate for candidate in logging.getLogger().handlers if isinstance(candidate, LogHandler)
    )

    def warn(message: str, value: str) -> None:
        # Not through the logger: the tests' own handlers raise, or cannot send what they caught.
        handler.handle(_log.makeRecord("", logging.WARNING, "", 0, message, (value,), None))

    warn("%d records", "many")
    assert "TypeError" in capsys.readouterr().err
    warn("the file %s", os.fsdecode(b"\xffcut.ndjson"))
    assert [entry.message for entry in kept(app)] == ["the file ?cut.ndjson"]


def test_newest_entries_come_first_and_unreadable_lines_are_skipped(tmp_path):
    fields = {**dict.fromkeys(logs.LogEntry._fields, "x"), "server": "of an earlier release"}
    (tmp_path / logs.FOLDER).mkdir()
    for name, numbers in ((logs.OLDER, range(300)), (logs.NAME, range(300, 600))):
        lines = [json.dumps(fields | {"message": str(number)}) for number in numbers]
        text = "\n".join([*lines, '["x"]', "{}", '{"time": "2026-0'])
        (tmp_path / logs.FOLDER / name).write_text(text)
    messages = [entry.message for entry in logs.last_errors(tmp_path)]
    assert messages == [str(number) for number in range(599, 599 - logs.MOST, -1)]


def test_logs_command_prints_an_entry_by_its_id(app):
    app.view_functions["account.account"] = for_signed_in(lambda: 1 / 0)
    page = Browser(app).resume(add_person(app, CLINICIAN)).get("/account")
    _log.warning("something else")
    settings, request_id = settings_of(app), page.headers["X-Request-Id"]

    def logs(*arguments: str) -> Any:
        return run_command(settings.folder, "logs", *arguments, DATABASE_URL=settings.database_url)

    printed = logs(request_id).stdout
    assert "    ZeroDivisionError: division by zero" in printed
    assert "something else" not in printed
    first, second = (json.loads(line) for line in logs("--json").stdout.splitlines())
    assert (first["message"], second["request"]) == ("something else", request_id)
    assert logs("--since", "2999-01-01").stdout == ""
    assert_not_done(logs("f" * 16), "are kept for the request ID ffffffffffffffff")
    assert_not_done(logs("--since", "yesterday"), "'yesterday' is not a date or time")
