"""/health/ready: 503 with the reason wherever requests cannot be answered; and damaged files."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Event

import pytest
from flask import Flask
from sqlalchemy import create_engine

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.disk import database_path
from fhirapp.features.health import readiness
from fhirapp.probe import WRONG, Finding
from fhirapp.server import integrity
from fhirapp.server.prepare import prepare
from fhirapp.store.migrate import HEAD
from tests.support.helpers import damage_database


def ready(app: Flask) -> tuple[int, str]:
    """Return the status of /health/ready, and the reason that it tells."""
    answer = app.test_client().get("/health/ready")
    return answer.status_code, answer.get_json().get("reason", "")


def path_of(app: Flask) -> Path:
    path = database_path(settings_of(app))
    assert path is not None
    return path


def test_server_that_can_work_is_ready(own_app):
    answer = own_app.test_client().get("/health/ready")
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ready"})
    # Also while something is written.
    with own_app.app_context(), writing():
        assert ready(own_app) == (200, "")


def test_database_of_another_schema_is_not_ready(own_app):
    with own_app.app_context(), writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    assert ready(own_app) == (
        503,
        f"The database has schema version 0001, but this server needs {HEAD}. Restart the server.",
    )


def test_read_only_database_is_reported(own_app):
    path = path_of(own_app)
    engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert readiness._is_read_only(engine)
    engine.dispose()
    with own_app.app_context():
        assert not readiness._is_read_only(db.engine)


def test_full_disk_is_reported(own_app, monkeypatch):
    monkeypatch.setattr(readiness, "LEAST_FREE", 1 << 60)
    status, reason = ready(own_app)
    # No path is named: anybody may ask.
    assert (status, reason) == (503, "The disk is full.")


def test_unresponsive_database_is_reported_without_waiting_for_it(own_app, monkeypatch):
    looks, answers = [], Event()

    def slow(_app: Flask) -> None:
        looks.append(1)
        answers.wait(60)

    monkeypatch.setattr(readiness, "_examine", slow)
    with own_app.app_context():
        for _ in range(3):
            fault = readiness.fault(0.01)
            assert fault is not None
            assert fault.in_english()[0] == "The database does not answer within 0.01 seconds."
        assert len(looks) == 1
        answers.set()
        # What came late counts for the next request.
        assert readiness.fault(60) is None


def test_result_that_came_late_is_not_reported_later(own_app, monkeypatch):
    answers, results = Event(), [Finding(WRONG, "It hung."), None]

    def slow(_app: Flask) -> Finding | None:
        answers.wait(60)
        return results.pop(0)

    monkeypatch.setattr(readiness, "_examine", slow)
    with own_app.app_context():
        assert readiness.fault(0.01) is not None
        answers.set()
        state: readiness.Readiness = own_app.extensions[readiness._EXTENSION]
        assert state._result is not None
        assert state._result.result(60) is not None
        assert readiness.fault(60) is None


def test_database_error_is_reported_without_its_words(own_app, monkeypatch):
    def fails(_app: Flask) -> None:
        raise OSError("the password is hunter2")

    monkeypatch.setattr(readiness, "_examine", fails)
    assert ready(own_app) == (503, "The database cannot be queried (OSError).")


def test_damaged_database_is_not_served(own_app):
    with own_app.app_context():
        db.engine.dispose()
    damage_database(path_of(own_app))
    with pytest.raises(ConfigurationError, match=r"is damaged \(.+\); restore a backup\."):
        prepare(own_app, lambda _words: None, serving=True)


@pytest.mark.parametrize(
    ("code", "is_damage"),
    [
        (sqlite3.SQLITE_BUSY, False),
        # SQLITE_BUSY_RECOVERY: the log of a server that was killed.
        (sqlite3.SQLITE_BUSY | 1 << 8, False),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_CORRUPT, True),
    ],
)
def test_file_that_cannot_be_read_now_is_not_damaged(own_app, monkeypatch, code, is_damage):
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code

    def refuse(*_arguments: object, **_named: object) -> list[str]:
        raise error

    monkeypatch.setattr(integrity, "integrity_faults", refuse)
    assert bool(integrity.fault_of(path_of(own_app))) == is_damage


def test_large_database_is_checked_while_it_is_served(own_app, monkeypatch):
    monkeypatch.setattr(integrity, "_CHECKED_FIRST", 0)
    path = path_of(own_app)
    with own_app.app_context():
        db.engine.dispose()
    for harm in (lambda: None, lambda: damage_database(path)):
        harm()
        thread = integrity.check_meanwhile(path)
        assert thread is not None
        assert ready(own_app)[0] in (200, 503)
        thread.join()
    status, reason = ready(own_app)
    assert (status, reason.startswith("The database is damaged.")) == (503, True)
    # The next start looks again.
    integrity.check_before(path)
    assert not integrity.known_damage(path)
