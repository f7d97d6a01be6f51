"""service.md 7 and decisions §4: what is too much, a bug, and a database that does not answer."""

from __future__ import annotations

import re
import sqlite3

import pytest
from sqlalchemy import create_engine, text

from fhirapp.audit import store
from fhirapp.auth.throttle import PER_MINUTE
from fhirapp.db import db
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, assert_outcome, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY = "AllergyIntolerance"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"


def test_request_that_is_too_long_is_refused(fhir):
    refusals = [
        (fhir.post(ALLERGY, {"code": "x" * 1024 * 1024}), 413,
         "The body is longer than 1048576 bytes."),
        (fhir.get(f"{ALLERGY}?code={'x' * 8192}"), 414,
         "The address is longer than 8192 bytes; send a POST to _search."),
        (fhir.get(ALLERGY, headers={"X-Long": "x" * 33_000}), 431,
         "The headers are longer than 32768 bytes."),
    ]  # fmt: skip
    for response, status, message in refusals:
        assert_outcome(response, status, "too-long", message)
    assert fhir.post(f"{ALLERGY}/_search", {"code": "x" * 8192}).status_code == 200


def test_a_body_that_is_no_form_is_a_415(fhir):
    message = "A search by POST takes a body of type application/x-www-form-urlencoded."
    for path in (ALLERGY, f"{ALLERGY}/_search"):
        for media in ("application/fhir+json", "multipart/form-data; boundary=b"):
            response = fhir.request("POST", path, data=b"{}", content_type=media)
            assert_outcome(response, 415, "not-supported", message)


def test_too_many_requests_without_a_valid_token_are_a_429(http, fhir):
    attacker = {"REMOTE_ADDR": "192.0.2.99"}
    for _ in range(PER_MINUTE):
        assert http.get(f"/fhir/{ALLERGY}", environ_overrides=attacker).status_code == 401
    response = http.get(f"/fhir/{ALLERGY}", environ_overrides=attacker)
    assert_outcome(
        response,
        429,
        "throttled",
        "Too many requests without a valid access token; wait before the next one.",
    )
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    # A valid token is not held up by others behind the same address.
    assert fhir.get(ALLERGY, environ_overrides=attacker).status_code == 200


def test_a_bug_is_a_500_with_a_request_id_and_nothing_else(make_app, caplog):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    with app.app_context(), db.engine.begin() as connection:
        connection.execute(text("DROP TABLE allergy_intolerance_token"))
    response = fhir.get(f"{ALLERGY}?code=764146007")
    (issue,) = response.get_json(force=True)["issue"]
    told = re.fullmatch(
        r"Something went wrong here; request id ([0-9a-f]{16})\.", issue["diagnostics"]
    )
    assert told
    assert_outcome(response, 500, "exception", issue["diagnostics"])
    # Whoever keeps the server finds the cause by that id.
    assert f"request {told[1]} failed" in caplog.text


@pytest.mark.databases(SQLITE)
def test_a_busy_database_is_a_503(make_app, monkeypatch):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    # How long is waited, five seconds, is a setting of each connection.
    monkeypatch.setattr("fhirapp.db.BUSY_SECONDS", 0)
    with app.app_context():
        db.engine.dispose()
        path = db.engine.url.database
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        response = fhir.get(f"{ALLERGY}/al-p1-latex")
    finally:
        holder.close()
    assert_outcome(response, 503, "transient", "The database is busy; try again shortly.")
    assert response.headers["Retry-After"] == "2"
    assert fhir.get(f"{ALLERGY}/al-p1-latex").status_code == 200


@pytest.mark.databases(POSTGRESQL)
def test_a_database_that_is_away_is_a_503(make_app, monkeypatch):
    # As a client that comes again when it was told to.
    monkeypatch.setattr(store, "_PAUSE_SECONDS", 0.0)
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    with app.app_context():
        url = db.engine.url
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    allow = f"ALTER DATABASE {url.database} ALLOW_CONNECTIONS "
    with engine.connect() as connection:
        connection.execute(text(allow + "FALSE"))
        connection.execute(
            text(END),
            {"name": url.database},
        )
        response = fhir.get(f"{ALLERGY}/al-p1-latex")
        connection.execute(text(allow + "TRUE"))
    engine.dispose()
    assert_outcome(response, 503, "transient", "The database is busy; try again shortly.")
    assert response.headers["Retry-After"] == "2"
    assert fhir.get(f"{ALLERGY}/al-p1-latex").status_code == 200


@pytest.mark.databases(POSTGRESQL)
def test_connections_that_were_lost_are_replaced_unnoticed(make_app):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    with app.app_context():
        url = db.engine.url
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    for _ in range(2):
        assert fhir.get(f"{ALLERGY}/al-p1-latex").status_code == 200
        with engine.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                ),
                {"name": url.database},
            )
    assert fhir.get(f"{ALLERGY}/al-p1-latex").status_code == 200
    engine.dispose()


def test_connection_of_a_session_returns_to_the_pool_with_its_context(app):
    with app.app_context():
        db.session.connection()
        pool = db.engine.pool
        held = pool.checkedout()
    assert pool.checkedout() == held - 1
