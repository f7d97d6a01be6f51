"""/health/ready: 503 with the reason wherever requests cannot be answered; and damaged files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import create_engine

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.disk import database_path
from fhirapp.ops import readiness
from fhirapp.ops.prepare import prepare
from fhirapp.store.migrate import HEAD
from tests.support.helpers import damage_database
from tests.support.shell import assert_not_done, fhirapp


@pytest.fixture
def clinic(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


def ready(app: Flask) -> tuple[int, str]:
    """Return the status of /health/ready, and the reason that it tells."""
    answer = app.test_client().get("/health/ready")
    return answer.status_code, answer.get_json().get("reason", "")


def path_of(app: Flask) -> Path:
    path = database_path(settings_of(app))
    assert path is not None
    return path


def test_a_server_that_can_work_is_ready(clinic):
    answer = clinic.test_client().get("/health/ready")
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ready"})


def test_a_database_of_another_schema_is_not(clinic):
    with clinic.app_context(), writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    assert ready(clinic) == (503, f"the database has schema 0001, and this release needs {HEAD}")


def test_a_database_that_can_only_be_read_is_told(clinic):
    path = path_of(clinic)
    engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert readiness._unwritable(engine) == "the database is read-only"
    engine.dispose()
    with clinic.app_context():
        assert readiness._unwritable(db.engine) == ""


def test_a_database_that_somebody_writes_is_ready(clinic):
    with clinic.app_context(), writing():
        assert ready(clinic) == (200, "")


def test_a_full_disk_is_told(clinic, monkeypatch):
    monkeypatch.setattr(readiness, "LEAST_FREE", 1 << 60)
    status, reason = ready(clinic)
    assert (status, "is full" in reason) == (503, True)


def test_a_database_that_does_not_answer_keeps_nobody_waiting(clinic, monkeypatch):
    looks = []

    def slow(_app: Flask) -> str:
        looks.append(1)
        time.sleep(0.5)
        return ""

    monkeypatch.setattr(readiness, "_look", slow)
    with clinic.app_context():
        began = time.monotonic()
        for _ in range(3):
            assert "does not answer" in readiness.why_not_ready(0.05)
        assert time.monotonic() - began < 0.4
        assert len(looks) == 1
        # What came late counts for the next who asks.
        assert readiness.why_not_ready(2) == ""


def test_a_database_that_cannot_be_asked_is_told_without_its_words(clinic, monkeypatch):
    def fails(_app: Flask) -> str:
        raise OSError("the password is hunter2")

    monkeypatch.setattr(readiness, "_look", fails)
    assert ready(clinic) == (503, "the database cannot be queried (OSError)")


def test_a_damaged_file_is_not_served(clinic):
    with clinic.app_context():
        db.engine.dispose()
    damage_database(path_of(clinic))
    with pytest.raises(ConfigurationError, match=r"is damaged \(.+\); restore a backup\."):
        prepare(clinic, lambda _words: None, serving=True)


def test_a_large_file_is_checked_while_it_is_served(clinic, monkeypatch):
    monkeypatch.setattr(readiness, "_CHECKED_FIRST", 0)
    path = path_of(clinic)
    with clinic.app_context():
        db.engine.dispose()
    for harm in (lambda: None, lambda: damage_database(path)):
        harm()
        thread = readiness.check_meanwhile(path)
        assert thread is not None
        assert ready(clinic)[0] in (200, 503)
        thread.join()
    status, reason = ready(clinic)
    assert (status, reason.startswith("the database is damaged (")) == (503, True)
    # The next start looks again.
    readiness.check_before(path)
    assert not readiness._noted(path)


def test_the_shell_refuses_to_serve_a_damaged_file_by_a_sentence(tmp_path):
    fhirapp(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    damage_database(tmp_path / "fhirapp.db")
    done = fhirapp(tmp_path, "serve", "--port", "0")
    assert_not_done(done, "is damaged")
