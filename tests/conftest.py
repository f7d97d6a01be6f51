"""The app that the tests ask: seed.sql in SQLite and, where FHIRAPP_TEST_POSTGRESQL names a server,
in PostgreSQL too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import create_engine, text

from fhirapp import create_app
from fhirapp.auth.clients import add_demo_clients, issue_token
from fhirapp.auth.keys import demo_key
from fhirapp.config import Settings, load_settings
from fhirapp.db import db, writing
from fhirapp.ops.prepare import prepare
from fhirapp.store.definition import types
from fhirapp.store.render import Rendering
from fhirapp.store.seed import load_seed, seed_path
from tests.helpers import BASE_URL, Fhir

SERVER = "FHIRAPP_TEST_POSTGRESQL"
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_report_header() -> str:
    """Say at the start where the tests run: a skip for each of them would bury what failed."""
    where = "and PostgreSQL" if os.environ.get(SERVER) else f"only; {SERVER} names no PostgreSQL"
    return f"databases: SQLite {where}"


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in [name for name in os.environ if name.startswith("FHIRAPP_") and name != SERVER]:
        del os.environ[name]


@pytest.fixture(
    scope="session",
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
def new_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], str]]:
    """Return a maker of addresses of new, empty databases of one kind."""
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("databases")
        yield lambda: f"sqlite:///{folder / uuid4().hex}.db"
        return
    server = os.environ.get(SERVER)
    if not server:
        pytest.skip(f"{SERVER} names no PostgreSQL server")
    engine = create_engine(
        server.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    made: list[str] = []

    def make() -> str:
        name = f"fhirapp_{uuid4().hex[:12]}"
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"))
        made.append(name)
        return f"{server.rpartition('/')[0]}/{name}"

    yield make
    with engine.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(scope="session")
def make_app(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Flask]]:
    """Return a maker of apps, each with a database of its own; seeded unless seed=False."""
    apps: list[Flask] = []

    def make(*, seed: bool = True, **overrides: Any) -> Flask:
        values = {
            "database_url": new_database(),
            "instance_path": str(tmp_path_factory.mktemp("instance")),
            "base_url": BASE_URL,
            **overrides,
        }
        app = create_app(load_settings({}, **values))
        apps.append(app)
        prepare(app, lambda _message: None, serving=True)
        settings: Settings = app.config["FHIRAPP"]
        with app.app_context():
            if seed:
                now = "2026-01-01T00:00:00.000+00:00"
                load_seed(seed_path(), types(), Rendering.of(settings), now)
            key = demo_key(settings.instance)
            with writing() as connection:
                add_demo_clients(connection, key)
        return app

    yield make
    for app in apps:
        with app.app_context():
            db.engine.dispose()


@pytest.fixture(scope="session")
def app(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app; tests that write make their own."""
    return make_app()


@pytest.fixture
def http(app: Flask) -> FlaskClient:
    """A client without a token."""
    return app.test_client()


@pytest.fixture
def fhir(app: Flask) -> Fhir:
    """A client whose token may read and search everything."""
    return Fhir(app, token_for(app, "system/*.rs"))


@pytest.fixture
def as_patient(app: Flask) -> Callable[..., Fhir]:
    """Return a maker of clients whose token is for one patient."""

    def make(patient: str, scope: str = "patient/*.rs") -> Fhir:
        return Fhir(app, token_for(app, scope, patient=patient))

    return make


def token_for(app: Flask, scope: str, *, patient: str | None = None, lifetime: int = 3600) -> str:
    """Issue a token of the operator's."""
    with app.app_context(), writing() as connection:
        return issue_token(connection, scope=scope, patient_id=patient, lifetime=lifetime)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real records and packages beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"the folder {SHARED.name}/ with real records is not beside the project")
    return SHARED
