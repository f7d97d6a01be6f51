"""Settings that are changed while servers run: which one wins, where it is in force, who did it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from sqlalchemy import insert

from fhirapp import create_app
from fhirapp.audit.read import entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import ConfigurationError, load_settings, settings_of
from fhirapp.db import db, writing
from fhirapp.ops import live_settings
from fhirapp.ops.live_settings import LIVE, StoredSetting
from fhirapp.ops.prepare import prepare
from tests.support.browsing import add_person, id_of
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, shared_secret, token_for
from tests.support.serving import WAIT_SECONDS, get, servers
from tests.support.shell import fhirapp

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app without records."""
    return make_app(seed=False)


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


def test_what_is_changed_in_one_process_is_in_force_in_the_others(make_app, started):
    app = make_app()
    other = started(app)
    asked = Fhir(other, token_for(other, "system/*.rs"))
    change(app, "page_size", "2")
    with other.app_context():
        live_settings.refresh(other)
    bundle = asked.get("AllergyIntolerance").json
    assert len(bundle["entry"]) == 2
    change(app, "page_size", None)
    with other.app_context():
        live_settings.refresh(other)
    assert len(asked.get("AllergyIntolerance").json["entry"]) > 2


def test_a_server_that_is_started_later_has_it_too(app, started):
    change(app, "page_size", "50")
    other = started(app)
    assert settings_of(other).page_size == 50
    assert settings_of(other).origins["page_size"] == "admin page"


def test_a_variable_wins_even_with_the_defaults_value(app, started):
    change(app, "page_size", "50")
    other = started(app, page_size="100")
    assert settings_of(other).page_size == 100
    assert settings_of(other).origins["page_size"] == "environment"


def test_who_changed_what_and_when_is_in_the_trail(app):
    admin = id_of(app, add_person(app, ADMINISTRATOR))
    with app.app_context():
        live_settings.change("page_size", "50", admin)
        live_settings.change("page_size", None, admin)
        last, first = entries(event="setting-changed", kind=None)
    assert (first.body, last.body) == (
        "page_size '100' to '50'",
        "page_size '50' to '100' (the default)",
    )


def test_what_is_changed_on_the_page_is_not_told_again_at_the_next_start(app, started):
    change(app, "page_size", "50")
    other = started(app)
    assert live_settings.started_with(other).page_size == 100


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("page_size", "0", "FHIRAPP_PAGE_SIZE='0' cannot be used"),
        ("page_size", "2000", "is more than FHIRAPP_PAGE_MAX=1000"),
        ("page_max", "50", "FHIRAPP_PAGE_SIZE=100 is more than FHIRAPP_PAGE_MAX=50"),
        ("timezone", "Berlin", "it is not the IANA name"),
        ("log_level", "loud", "FHIRAPP_LOG_LEVEL='loud'"),
        ("audit_keep", "1", "FHIRAPP_AUDIT_KEEP is set where the server is started"),
        ("nonsense", "1", "FHIRAPP_NONSENSE is no setting of this release"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_and_nothing_is_stored(app, name, value, words):
    with pytest.raises(ConfigurationError, match=words):
        change(app, name, value)
    with app.app_context():
        assert live_settings.chosen().rows == {}
        assert entries(event="setting-changed", kind=None) == []


def test_values_that_fit_only_together_are_taken_in_their_order(app, started):
    change(app, "page_max", "3000")
    change(app, "page_size", "2000")
    assert settings_of(started(app)).page_size == 2000
    with pytest.raises(ConfigurationError, match="PAGE_SIZE=2000 is more than FHIRAPP_PAGE_MAX"):
        change(app, "page_max", None)
    change(app, "page_size", "10")
    change(app, "page_max", "50")
    small = settings_of(started(app))
    assert (small.page_size, small.page_max) == (10, 50)


def test_a_value_that_is_accepted_no_more_does_not_stop_the_start(app, caplog, started):
    change(app, "page_size", "500")
    with app.app_context(), writing() as connection:
        row = {"name": "log_level", "value": "TRACE", "changed_at": 0, "changed_by": "ann"}
        connection.execute(insert(StoredSetting), [row])
    other = started(app, page_max="200")
    assert (settings_of(other).page_size, settings_of(other).log_level) == (100, "INFO")
    logged = [one.getMessage() for one in caplog.records if "has no effect" in one.getMessage()]
    assert [line.split()[2] for line in logged] == ["log_level", "page_size"]
    assert "FHIRAPP_PAGE_SIZE=500 is more than FHIRAPP_PAGE_MAX=200" in logged[1]


def test_the_level_of_the_log_follows(app):
    change(app, "log_level", "ERROR")
    assert logging.getLogger().level == logging.ERROR
    change(app, "log_level", None)
    assert logging.getLogger().level == logging.INFO


def test_the_table_is_read_only_when_something_was_written(app):
    with app.app_context():
        live_settings.refresh(app)
        state = live_settings._state(app)
        live_settings.refresh(app)
        assert live_settings._state(app) is state


def test_settings_stay_where_the_database_cannot_be_asked(app):
    change(app, "page_size", "50")
    with app.app_context(), db.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE setting")
    with app.app_context():
        live_settings.generation().change()
        live_settings.refresh(app)
    assert settings_of(app).page_size == 50


def test_every_live_setting_is_stored_as_its_variable_has_it(app):
    for name, one in LIVE.items():
        # The default itself would change nothing.
        known = {"second_factor": "staff", "self_link": "fhir", "log_level": "ERROR"}
        known |= {"timezone": "UTC", "oidc_name": "Clinic", "log_format": "json"}
        other = not one.default if isinstance(one.default, bool) else one.default
        value = known.get(name) or str(other - 1 if type(other) is int else other)
        change(app, name, value)
        with app.app_context():
            assert live_settings.chosen().rows[name].value == value
            assert live_settings.chosen().ignored == {}


def test_all_processes_of_a_running_server_have_it_soon(tmp_path):
    with servers(tmp_path) as run:
        server = run("--demo")
        twin = create_app(load_settings({}, instance_path=str(tmp_path), demo=True))
        token = token_for(twin, "system/*.rs")
        change(twin, "page_size", "3")
        asked = get("/fhir/AllergyIntolerance", f"Authorization: Bearer {token}")
        deadline, in_a_row = time.monotonic() + WAIT_SECONDS, 0
        while in_a_row < 20 and time.monotonic() < deadline:
            size = len(json.loads(server.ask(asked)[1])["entry"])
            in_a_row = in_a_row + 1 if size == 3 else 0
        assert in_a_row == 20
        with twin.app_context():
            db.engine.dispose()
        assert server.end() == 0


@pytest.mark.databases(POSTGRESQL)
def test_another_server_of_the_database_has_it_soon(app, tmp_path):
    settings = settings_of(app)
    token = token_for(app, "system/*.rs")
    asked = get("/fhir/AllergyIntolerance", f"Authorization: Bearer {token}")
    with servers(tmp_path) as run:
        server = run(DATABASE_URL=settings.database_url, SECRET=settings.secret, PROCESSES="1")
        assert server.ask(asked)[0].status == 200
        change(app, "require_patient_or_id", "true")
        deadline = time.monotonic() + WAIT_SECONDS
        while (status := server.ask(asked)[0].status) != 400 and time.monotonic() < deadline:
            pass
        assert status == 400
        assert server.end() == 0


def test_the_doctor_tells_where_settings_come_from(app):
    change(app, "page_size", "50")
    settings = settings_of(app)
    done = fhirapp(
        settings.folder,
        *("doctor", "--quick", "--json"),
        DATABASE_URL=settings.database_url,
        THREADS="3",
        **{name.upper(): value for name, value in shared_secret(settings.database_url).items()},
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    (words,) = (one["words"] for one in found if one["what"] == "Settings")
    assert words.startswith("environment: database_url, ")
    assert "instance_path, threads" in words
    assert words.endswith("admin page: page_size")
