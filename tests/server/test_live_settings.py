"""Settings that are changed while servers run: which one wins, where it is in force, who did it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from sqlalchemy import insert

from fhirapp import create_app
from fhirapp.audit.entries import entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.environment import load_settings
from fhirapp.server import live_settings
from fhirapp.server.live_settings import LIVE, StoredSetting
from fhirapp.server.prepare import prepare
from tests.support.browsing import add_person, id_of
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, shared_secret, token_for
from tests.support.shell import run_command


def change(app: Flask, name: str, value: str | None) -> None:
    with app.app_context():
        live_settings.change(name, value, "ann")


@pytest.fixture
def started() -> Iterator[Callable[..., Flask]]:
    """Return what makes another server of a database and folder, started with these variables."""
    made: list[Flask] = []

    def start(app: Flask, **variables: str) -> Flask:
        settings = settings_of(app)
        environ = {f"FHIRAPP_{name.upper()}": value for name, value in variables.items()}
        other = create_app(
            load_settings(
                environ,
                database_url=settings.database_url,
                instance_path=str(settings.folder),
                base_url=settings.base_url,
                **shared_secret(settings.database_url),
            )
        )
        made.append(other)
        prepare(other, lambda _message: None, serving=True)
        return other

    yield start
    for other in made:
        with other.app_context():
            db.engine.dispose()


@pytest.fixture(autouse=True)
def _same_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture
def app(empty: Flask) -> Flask:
    """An app without records."""
    return empty


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_changed_setting_is_in_force_in_other_processes(own_app, started):
    app = own_app
    other = started(app)
    fhir = Fhir(other, token_for(other, "system/*.rs"))
    change(app, "page_size", "2")
    with other.app_context():
        live_settings.refresh(other)
    assert len(fhir.get("AllergyIntolerance").json["entry"]) == 2
    change(app, "page_size", None)
    with other.app_context():
        live_settings.refresh(other)
    assert len(fhir.get("AllergyIntolerance").json["entry"]) > 2


def test_server_started_later_has_the_setting_but_a_variable_wins(app, started):
    change(app, "page_size", "50")
    found = settings_of(started(app))
    assert (found.page_size, found.origins["page_size"]) == (50, "admin page")
    # A variable wins, even with the default's value.
    found = settings_of(started(app, page_size="100"))
    assert (found.page_size, found.origins["page_size"]) == (100, "environment")


def test_audit_trail_records_who_changed_a_setting(app):
    admin = id_of(app, add_person(app, ADMINISTRATOR))
    with app.app_context():
        live_settings.change("page_size", "50", admin)
        live_settings.change("page_size", None, admin)
        last, first = entries(event="setting-changed", kind=None)
    assert (first.body, last.body) == (
        "page_size '100' to '50'",
        "page_size '50' to '100' (the default)",
    )


def test_invalid_setting_is_refused_and_not_stored(app):
    for name, value, words in (
        ("page_size", "0", "FHIRAPP_PAGE_SIZE='0' cannot be used"),
        ("page_size", "2000", "is more than FHIRAPP_PAGE_MAX=1000"),
        ("page_max", "50", "FHIRAPP_PAGE_SIZE=100 is more than FHIRAPP_PAGE_MAX=50"),
        ("timezone", "Berlin", "it is not the IANA name"),
        ("log_level", "loud", "FHIRAPP_LOG_LEVEL='loud'"),
        ("audit_keep", "1", "FHIRAPP_AUDIT_KEEP is set where the server is started"),
        ("nonsense", "1", "FHIRAPP_NONSENSE is no setting of this release"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            change(app, name, value)
    with app.app_context():
        assert live_settings.chosen().rows == {}
        assert entries(event="setting-changed", kind=None) == []


def test_dependent_settings_are_validated_together(app, started):
    change(app, "page_max", "3000")
    change(app, "page_size", "2000")
    assert settings_of(started(app)).page_size == 2000
    with pytest.raises(ConfigurationError, match="PAGE_SIZE=2000 is more than FHIRAPP_PAGE_MAX"):
        change(app, "page_max", None)
    change(app, "page_size", "10")
    change(app, "page_max", "50")
    small = settings_of(started(app))
    assert (small.page_size, small.page_max) == (10, 50)


def test_stored_setting_that_is_no_longer_valid_does_not_stop_the_start(app, caplog, started):
    change(app, "page_size", "500")
    with app.app_context(), writing() as connection:
        row = {"name": "log_level", "value": "TRACE", "changed_at": 0, "changed_by": "ann"}
        connection.execute(insert(StoredSetting), [row])
    other = started(app, page_max="200")
    assert (settings_of(other).page_size, settings_of(other).log_level) == (100, "INFO")
    logged = [
        record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()
    ]
    assert [line.split()[2] for line in logged] == ["log_level", "page_size"]
    assert "FHIRAPP_PAGE_SIZE=500 is more than FHIRAPP_PAGE_MAX=200" in logged[1]


def test_stored_settings_that_do_not_fit_together_are_left_out_in_order(app, started):
    values = {"page_max": "50", "page_size": "60", "self_link": "fhir"}
    with app.app_context(), writing() as connection:
        rows = [
            {"name": name, "value": value, "changed_at": 0, "changed_by": "ann"}
            for name, value in values.items()
        ]
        connection.execute(insert(StoredSetting), rows)
    other = started(app)
    found = settings_of(other)
    assert (found.page_max, found.page_size, found.self_link) == (1000, 60, "fhir")
    assert found.origins.keys() >= {"page_size", "self_link"}
    assert "page_max" not in found.origins
    with other.app_context():
        assert live_settings.chosen().ignored == {
            "page_max": "FHIRAPP_PAGE_SIZE=100 is more than FHIRAPP_PAGE_MAX=50; lower the one or "
            "raise the other."
        }


def test_log_level_follows_the_setting(app):
    change(app, "log_level", "ERROR")
    assert logging.getLogger().level == logging.ERROR
    change(app, "log_level", None)
    assert logging.getLogger().level == logging.INFO


def test_settings_stay_where_the_database_fails(app):
    change(app, "page_size", "50")
    with app.app_context(), db.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE setting")
    with app.app_context():
        live_settings.generation().change()
        live_settings.refresh(app)
    assert settings_of(app).page_size == 50


def test_every_live_setting_is_stored_as_its_variable_has_it(app):
    for name, setting in LIVE.items():
        # The default itself would change nothing.
        known = {"second_factor": "staff", "self_link": "fhir", "log_level": "ERROR"}
        known |= {
            "timezone": "UTC",
            "oidc_name": "Clinic",
            "clinic_name": "Clinic",
            "log_format": "json",
        }
        other = not setting.default if isinstance(setting.default, bool) else setting.default
        value = known.get(name) or str(other - 1 if type(other) is int else other)
        change(app, name, value)
        with app.app_context():
            assert live_settings.chosen().rows[name].value == value
            assert live_settings.chosen().ignored == {}


def test_doctor_reports_where_settings_come_from(app):
    change(app, "page_size", "50")
    settings = settings_of(app)
    done = run_command(
        settings.folder,
        *("doctor", "--quick", "--json"),
        DATABASE_URL=settings.database_url,
        THREADS="3",
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    environment, page = (finding["words"] for finding in found if finding["what"] == "Settings")
    assert environment.startswith("Set in the environment: database_url, ")
    assert environment.endswith("instance_path, threads.")
    assert page == "Set on the Settings page: page_size."
