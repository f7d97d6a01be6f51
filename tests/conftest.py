"""The app that the tests ask: seed.sql in SQLite and, where FHIRAPP_TEST_POSTGRESQL names a server,
in PostgreSQL too.

Each app has a database of its own: a copy of one that was filled once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copy, copyfile
from typing import Any
from uuid import uuid4
from weakref import WeakSet, finalize

import pyrage  # type: ignore[import-untyped]
import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import create_engine, make_url, text

from fhirapp import create_app
from fhirapp.auth.clients.administration import issue_token
from fhirapp.auth.demo import add_demo
from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.oauth import openid
from fhirapp.config import Settings, load_settings, settings_of
from fhirapp.db import db, writing
from fhirapp.db.generation import NAME as GENERATION
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.exchange.imports.report import Report
from fhirapp.keys import DEMO_KEY, demo_key, write_new
from fhirapp.ops.prepare import prepare
from fhirapp.store.seed import load_seed, seed_path
from fhirapp.store.write import Rendering
from tests import ROOT
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.balancer import SERVERS, balance
from tests.support.helpers import BASE_URL, Fhir, shared_secret
from tests.support.shell import start_job
from tests.support.trails import forget

# Some tests import them before others name them as plugins.
pytest.register_assert_rewrite("tests.support.live", "tests.support.browser")

SERVER = "FHIRAPP_TEST_POSTGRESQL"
SHARED = ROOT.parent / "shared"
# Whether a test passes depends neither on chance nor on what else the machine does.
hypothesis_settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("tests")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run tests that are named without workers, which take longer to start than a few tests do."""
    names_folders = all(Path(name).is_dir() for name in config.args)
    return None if names_folders and not config.option.keyword else 0


def pytest_report_header() -> str:
    """Say at the start where the tests run: a skip for each of them would bury what failed."""
    where = "and PostgreSQL" if os.environ.get(SERVER) else f"only; {SERVER} names no PostgreSQL"
    return f"databases: SQLite {where}"


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    """Keep the settings of whoever runs the tests out of them, and their machine's time zone."""
    for name in [name for name in os.environ if name.startswith("FHIRAPP_") and name != SERVER]:
        del os.environ[name]
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()


@pytest.fixture(autouse=True, scope="session")
def _patience() -> Iterator[None]:
    """Let a writer wait for the others as long as a machine with more to do makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.db.BUSY_SECONDS", 60)
        yield


@pytest.fixture(autouse=True, scope="session")
def _remembered_passphrases() -> Iterator[None]:
    """Open with a passphrase at once what was sealed or opened with it: age takes over a second."""
    encrypt, decrypt = pyrage.passphrase.encrypt, pyrage.passphrase.decrypt
    opened: dict[tuple[bytes, str], bytes] = {}

    def seal(plain: bytes, passphrase: str, *, armored: bool) -> bytes:
        sealed: bytes = encrypt(plain, passphrase, armored=armored)
        opened[sealed, passphrase] = plain
        return sealed

    def open_(sealed: bytes, passphrase: str) -> bytes:
        if (sealed, passphrase) not in opened:
            opened[sealed, passphrase] = decrypt(sealed, passphrase)
        return opened[sealed, passphrase]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyrage.passphrase, "encrypt", seal)
        patch.setattr(pyrage.passphrase, "decrypt", open_)
        yield


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads that write at once wait for each other, however long that takes here."""
    monkeypatch.setattr("fhirapp.db._TURN_SECONDS", 60)


@pytest.fixture(
    scope="session",
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
def new_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., str]]:
    """Return a maker of addresses of new databases of one kind: empty, or copies of another.

    Nobody may have that other one open.
    """
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("databases")

        def make_file(original: str | None = None) -> str:
            path = folder / f"{uuid4().hex}.db"
            if original is not None:
                copyfile(str(make_url(original).database), path)
            return f"sqlite:///{path}"

        yield make_file
        return
    address = os.environ.get(SERVER)
    if not address:
        pytest.skip(f"{SERVER} names no PostgreSQL server")
    server = make_url(address)
    engine = create_engine(
        server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    made: list[str] = []

    def make(original: str | None = None) -> str:
        name = f"fhirapp_{uuid4().hex[:12]}"
        template = "template0" if original is None else make_url(original).database
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'"))
        made.append(name)
        return server.set(database=name).render_as_string(hide_password=False)

    yield make
    with engine.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def remove_database(url: str) -> None:
    """Remove the file of an app that nobody has any more; PostgreSQL's go at the end."""
    if not url.startswith("postgresql"):
        for end in ("", "-wal", "-shm"):
            Path(f"{make_url(url).database}{end}").unlink(missing_ok=True)


def _start(app: Flask, *, seed: bool) -> None:
    """Make an app's database ready, with the demo's people; its connections are closed."""
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
    """Return the file of the one key that the demo's backend has in all apps."""
    folder = tmp_path_factory.mktemp("demo")
    demo_key(folder)
    return folder / DEMO_KEY


@pytest.fixture(scope="session")
def signing_keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the key that signs id tokens in all apps: to make one takes a while."""
    folder = tmp_path_factory.mktemp("signing")
    write_new(folder / openid.NAME, openid.make_first())
    return folder / openid.NAME


@pytest.fixture(scope="session")
def original(
    new_database: Callable[..., str],
    demo_key_file: Path,
    signing_keys_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[bool, Rendering], str]:
    """Return a maker of databases to copy, with the demo's people and seeded or not; made once.

    The key of the demo's backend, which they hold, is in each instance folder (`demo_key`).
    """

    @cache
    def make(seed: bool, rendering: Rendering) -> str:
        url = new_database()
        folder = tmp_path_factory.mktemp("instance")
        copyfile(demo_key_file, folder / DEMO_KEY)
        copy(signing_keys_file, folder / openid.NAME)
        values = {
            "database_url": url,
            "instance_path": str(folder),
            **shared_secret(url),
            **rendering._asdict(),
        }
        app = create_app(load_settings({}, **values))
        _start(app, seed=seed)
        # Each app has a trail of its own.
        forget(app)
        with app.app_context():
            db.engine.dispose()
        return url

    return make


def _twins(settings: Settings) -> Iterator[Flask]:
    """Make the other servers on an app's database, each with an instance folder of its own."""
    for number in range(2, SERVERS + 1):
        folder = settings.folder.with_name(f"{settings.folder.name}-{number}")
        folder.mkdir()
        # As if each were told at once what another writes: of NOTIFY, tests/cluster.
        (folder / GENERATION).hardlink_to(settings.folder / GENERATION)
        app = create_app(replace(settings, instance_path=str(folder)))
        with app.app_context():
            finalize(app, db.engine.dispose).atexit = False
        prepare(app, lambda _message: None, serving=True)
        yield app


@pytest.fixture(scope="session")
def make_app(
    new_database: Callable[..., str],
    original: Callable[[bool, Rendering], str],
    demo_key_file: Path,
    signing_keys_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Flask]]:
    """Return a maker of apps, each with a database of its own; seeded unless seed=False."""
    # An app that no test has any more is let go, with the files that it holds open.
    apps: WeakSet[Flask] = WeakSet()

    def close() -> None:
        for app in list(apps):
            with app.app_context():
                db.engine.dispose()

    def make(*, seed: bool = True, **overrides: Any) -> Flask:
        # PostgreSQL has a hundred connections for all: an app opens those that it needs anew.
        close()
        folder = tmp_path_factory.mktemp("instance")
        values = {"instance_path": str(folder), "base_url": BASE_URL, **overrides}
        values = {**shared_secret(values.get("database_url", "")), **values}
        settings = load_settings({}, **values)
        # Of an app in demo mode it is empty: that has a file of its own.
        is_copy = "database_url" not in overrides
        if is_copy:
            url = new_database(original(seed, Rendering.of(settings)))
            settings = replace(settings, database_url=url, **shared_secret(url))
            if not (settings.instance / DEMO_KEY).exists():
                settings.instance.mkdir(parents=True, exist_ok=True)
                copyfile(demo_key_file, settings.instance / DEMO_KEY)
            if not (settings.instance / openid.NAME).exists():
                copy(signing_keys_file, settings.instance / openid.NAME)
        is_shared = settings.database_url.startswith("postgresql") and not settings.demo
        several = SERVERS > 1 and is_shared
        if several and not settings.files:
            settings = replace(settings, files=str(tmp_path_factory.mktemp("files")))
        app = create_app(settings)
        apps.add(app)
        with app.app_context():
            finalize(app, db.engine.dispose).atexit = False
        if is_copy:
            # Thousands of copies fill the memory that they lie in.
            finalize(app, remove_database, settings.database_url).atexit = False
            prepare(app, lambda _message: None, serving=True)
        else:
            _start(app, seed=seed)
        if several:
            twins = [*_twins(settings)]
            apps.update(twins)
            balance(app, [app, *twins])
        return app

    yield make
    close()


@pytest.fixture(scope="module")
def _forked_jobs() -> Iterator[None]:
    """Have jobs forked from a process that has read the code: to read it takes each a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.jobs.process._spawn", start_job)
        yield


@pytest.fixture(autouse=True)
def _no_job_is_awaited() -> Iterator[None]:
    """Have the end of each job's process noted before the app is closed that began it."""
    yield
    for thread in threading.enumerate():
        if "await_end" in thread.name:
            thread.join(60)


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


@pytest.fixture(scope="module")
def oauth(make_app: Callable[..., Flask]) -> Flask:
    """An app without records, for the tests of one module."""
    return make_app(seed=False)


@pytest.fixture
def flow(oauth: Flask) -> Flow:
    """A clinician with a public app, in an app without records."""
    return Flow(oauth, add_program(oauth), add_person(oauth, CLINICIAN))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real records and packages beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"the folder {SHARED.name}/ with real records is not beside the project")
    return SHARED


@pytest.fixture(scope="session")
def synthea_folder(shared: Path) -> Path:
    """The NDJSON files of ten synthetic patients."""
    return shared / "data" / "synthea-10"


@pytest.fixture(scope="session")
def synthea_loaded(make_app: Callable[..., Flask], synthea_folder: Path) -> tuple[Flask, Report]:
    """Return an app that holds these records, and what the import said."""
    app = make_app(seed=False)
    with app.app_context():
        return app, import_paths([synthea_folder], types(), app.config["FHIRAPP"])


@pytest.fixture
def own_app(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of its own, whose trail is empty."""
    return make_app()


@pytest.fixture
def watched(own_app: Flask) -> Fhir:
    """Return who asks it, and may see everything."""
    return Fhir(own_app, token_for(own_app, "system/*.rs"))


@pytest.fixture
def empty(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of its own without records."""
    return make_app(seed=False)


@pytest.fixture
def take(empty: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return what imports resources into it, each on a line of one file."""
    from tests.exchange.test_import import lines
    from tests.support.importing import load, write

    return lambda *contents, **options: load(
        empty, write(tmp_path, lines(*contents), "x.ndjson"), **options
    )


@pytest.fixture
def tesseract(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return what puts a program of that name, in sh, before all others."""
    # Not pytest's folder: the program runs as nobody, who may not enter that.
    folder = Path(tempfile.mkdtemp(prefix="fhirapp-"))
    folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    listed = "echo 'List of available languages (2):'; echo eng; echo osd"

    def put(script: str) -> None:
        (folder / "tesseract").write_text(
            f'#!/bin/sh\n[ "$1" = --list-langs ] && {{ {listed}; exit; }}\n{script}\n'
        )
        (folder / "tesseract").chmod(0o755)

    yield put
    shutil.rmtree(folder)
