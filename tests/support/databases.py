"""Fixtures for databases and apps: each app has a database of its own, a copy of one filled once.

A test runs on SQLite. `@pytest.mark.databases(SQLITE, POSTGRESQL)` names the databases of a test
or module that depends on what the database does; THREE_SERVERS is PostgreSQL with three servers on
it, which `app.test_client()` asks in turn. Only PostgreSQL's items carry the marker `postgres`.
They exist only where FHIRAPP_TEST_POSTGRESQL names a server whose user may create databases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copy, copyfile
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet, finalize

import pytest
from flask import Flask
from sqlalchemy import create_engine, make_url, text

from fhirapp import create_app
from fhirapp.auth.oauth import signing_keys
from fhirapp.config import Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.db.generation import NAME as GENERATION
from fhirapp.definition import types
from fhirapp.environment import load_settings
from fhirapp.features.demo.accounts import DEMO_KEY, add_demo, demo_key
from fhirapp.features.demo.seed import load_seed, seed_path
from fhirapp.keys import write_new
from fhirapp.server.prepare import prepare
from fhirapp.store.write import Rendering
from tests.support.balancer import balance
from tests.support.helpers import BASE_URL, shared_secret
from tests.support.trails import forget

SERVER = "FHIRAPP_TEST_POSTGRESQL"
SQLITE, POSTGRESQL, THREE_SERVERS = "sqlite", "postgresql", "three-servers"
_SERVERS = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that needs a database one item for each database that it is about."""
    if "new_database" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("databases")
    names = marker.args if marker else (SQLITE,)
    there = [name for name in names if name == SQLITE or SERVER in os.environ]
    metafunc.parametrize(
        "new_database",
        [
            pytest.param(name, marks=() if name == SQLITE else pytest.mark.postgres)
            # A test of PostgreSQL alone is left out by its marker where there is no server.
            for name in there or names[:1]
        ],
        indirect=True,
        scope="session",
    )


class DatabaseFactory(NamedTuple):
    """Creates databases of one kind and returns their URLs: empty ones, or copies of another.

    The database to copy must have no open connections.
    """

    kind: str
    create: Callable[[str | None], str]

    def __call__(self, original: str | None = None) -> str:
        return self.create(original)


@pytest.fixture(scope="session")
def new_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DatabaseFactory]:
    """Return the factory for the kind of database that the test's item is about."""
    if request.param == SQLITE:
        folder = tmp_path_factory.mktemp("databases")

        def create_file(original: str | None) -> str:
            path = folder / f"{uuid4().hex}.db"
            if original is not None:
                copyfile(str(make_url(original).database), path)
            return f"sqlite:///{path}"

        yield DatabaseFactory(SQLITE, create_file)
        return
    if SERVER not in os.environ:
        pytest.fail(f"{SERVER} names no PostgreSQL server")
    server = make_url(os.environ[SERVER])
    engine = create_engine(
        server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    created: list[str] = []

    def create(original: str | None) -> str:
        name = f"fhirapp_{uuid4().hex[:12]}"
        template = "template0" if original is None else make_url(original).database
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'"))
        created.append(name)
        return server.set(database=name).render_as_string(hide_password=False)

    yield DatabaseFactory(request.param, create)
    with engine.connect() as connection:
        for name in created:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def remove_database(url: str) -> None:
    """Delete the SQLite files of an app that is no longer used; PostgreSQL's are dropped later."""
    if not url.startswith("postgresql"):
        for end in ("", "-wal", "-shm"):
            Path(f"{make_url(url).database}{end}").unlink(missing_ok=True)


def _start(app: Flask, *, seed: bool) -> None:
    """Prepare an app's database with the demo's users, and close its connections."""
    prepare(app, lambda _message: None, serving=True)
    with app.app_context():
        if seed:
            now = "2026-01-01T00:00:00.000+00:00"
            load_seed(seed_path(), types(), Rendering.of(settings_of(app)), now)
        key = demo_key(settings_of(app).instance)
        with writing() as connection:
            add_demo(connection, key)
        db.engine.dispose()


@pytest.fixture(scope="session")
def demo_key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the private key of the demo's backend system, the same in all apps."""
    folder = tmp_path_factory.mktemp("demo")
    demo_key(folder)
    return folder / DEMO_KEY


@pytest.fixture(scope="session")
def signing_keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the key that signs ID tokens, the same in all apps: creating one is slow."""
    folder = tmp_path_factory.mktemp("signing")
    write_new(folder / signing_keys.NAME, signing_keys.make_first())
    return folder / signing_keys.NAME


@pytest.fixture(scope="session")
def original(
    new_database: DatabaseFactory,
    demo_key_file: Path,
    signing_keys_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[bool, Rendering], str]:
    """Return a factory of databases to copy, with the demo's users, with or without seed.sql.

    They hold the public part of the key in `demo_key_file`.
    """

    @cache
    def make(seed: bool, rendering: Rendering) -> str:
        url = new_database()
        folder = tmp_path_factory.mktemp("instance")
        copyfile(demo_key_file, folder / DEMO_KEY)
        copy(signing_keys_file, folder / signing_keys.NAME)
        values = {
            "database_url": url,
            "instance_path": str(folder),
            **shared_secret(url),
            **rendering._asdict(),
        }
        app = create_app(load_settings({}, **values))
        _start(app, seed=seed)
        # Each app begins with an empty audit trail.
        forget(app)
        with app.app_context():
            db.engine.dispose()
        return url

    return make


def _other_servers(settings: Settings) -> Iterator[Flask]:
    """Create the other servers on an app's database, each with its own instance folder."""
    for number in range(2, _SERVERS + 1):
        folder = settings.folder.with_name(f"{settings.folder.name}-{number}")
        folder.mkdir()
        # A shared generation file stands for NOTIFY, which tests/cluster tests.
        (folder / GENERATION).hardlink_to(settings.folder / GENERATION)
        app = create_app(replace(settings, instance_path=str(folder)))
        with app.app_context():
            finalize(app, db.engine.dispose).atexit = False
        prepare(app, lambda _message: None, serving=True)
        yield app


@pytest.fixture(scope="session")
def make_app(
    new_database: DatabaseFactory,
    original: Callable[[bool, Rendering], str],
    demo_key_file: Path,
    signing_keys_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Flask]]:
    """Return a factory of apps, each with its own database; seeded unless seed=False."""
    # Weak references: an app that no test uses is collected, with the files that it holds open.
    apps: WeakSet[Flask] = WeakSet()

    def close() -> None:
        for app in list(apps):
            with app.app_context():
                db.engine.dispose()

    def make(*, seed: bool = True, **overrides: Any) -> Flask:
        # PostgreSQL has a hundred connections for all tests; an app opens new ones when needed.
        close()
        folder = tmp_path_factory.mktemp("instance")
        values = {"instance_path": str(folder), "base_url": BASE_URL, **overrides}
        values = {**shared_secret(values.get("database_url", "")), **values}
        settings = load_settings({}, **values)
        # An app in demo mode names its own, empty, database file.
        is_copy = "database_url" not in overrides
        if is_copy:
            url = new_database(original(seed, Rendering.of(settings)))
            settings = replace(settings, database_url=url, **shared_secret(url))
            if not (settings.instance / DEMO_KEY).exists():
                settings.instance.mkdir(parents=True, exist_ok=True)
                copyfile(demo_key_file, settings.instance / DEMO_KEY)
            if not (settings.instance / signing_keys.NAME).exists():
                copy(signing_keys_file, settings.instance / signing_keys.NAME)
        is_shared = settings.database_url.startswith("postgresql") and not settings.demo
        has_three_servers = is_shared and new_database.kind == THREE_SERVERS
        if has_three_servers and not settings.files:
            settings = replace(settings, files=str(tmp_path_factory.mktemp("files")))
        app = create_app(settings)
        apps.add(app)
        with app.app_context():
            finalize(app, db.engine.dispose).atexit = False
        if is_copy:
            # Thousands of copies would fill the disk or the memory that holds them.
            finalize(app, remove_database, settings.database_url).atexit = False
            prepare(app, lambda _message: None, serving=True)
        else:
            _start(app, seed=seed)
        if has_three_servers:
            others = [*_other_servers(settings)]
            apps.update(others)
            balance(app, [app, *others])
        return app

    yield make
    close()
