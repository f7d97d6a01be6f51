"""Which tests run, what each may cost, and the fixtures that most folders use.

README's command runs what needs neither a service nor a second process. Every other test carries
a marker of OPTIONAL, from a decorator or from its folder, and runs with `-m MARKER` or where its
file is named. Databases and apps are in tests/support/databases.py.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyrage  # type: ignore[import-untyped]
import pytest
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from jinja2 import FileSystemBytecodeCache

from fhirapp import db
from fhirapp.auth.models import CLINICIAN
from fhirapp.definition import types
from fhirapp.documents.media import ExtractedText
from fhirapp.features import FEATURES
from tests import ROOT, TESTS
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.effort import LONG
from tests.support.helpers import Fhir, token_for

if TYPE_CHECKING:
    from fhirapp.features.imports.report import Report

pytest_plugins = ["tests.support.databases", "tests.support.instances"]
# Some tests import them before others name them as plugins.
pytest.register_assert_rewrite("tests.support.live", "tests.support.browser")

OPTIONAL = ("process", "browser", "postgres", "campaign", "image")
# The marker that all tests of a folder carry.
_MARKERS_BY_FOLDER = {
    TESTS / "browser": "browser",
    TESTS / "campaigns": "campaign",
    TESTS / "clients": "browser",
    TESTS / "cluster": "campaign",
    TESTS / "deploy": "image",
    TESTS / "process": "process",
}
# The marker of a test that uses a fixture, directly or not.
_MARKERS_BY_FIXTURE = {"chromium": "browser", "node": "browser", "identity_provider": "browser"}
_LEFT_OUT = (
    "Left out: tests that start processes, or need Node, Chromium, PostgreSQL or an image, and "
    "campaigns. Run some with -m, such as `pytest -m process`; .ci/run runs all."
)
# The limit of each test without a marker; none unless the variable sets it.
_MOST_CPU_SECONDS = float(os.environ.get("FHIRAPP_TEST_CPU_SECONDS", "inf"))
SERVER = "FHIRAPP_TEST_POSTGRESQL"
SHARED = ROOT.parent / "shared"
# Whether a test passes depends neither on chance nor on what else the machine does.
hypothesis_settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("tests")


def _names_folders(config: pytest.Config) -> bool:
    """Return whether the command names folders or nothing, rather than files or tests."""
    return all(Path(name).is_dir() for name in config.args)


def _leaves_out_optional(config: pytest.Config) -> bool:
    return _names_folders(config) and not config.option.markexpr


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of optional tests, and collect garbage seldom.

    The modules of all tests make so many objects that each full collection takes long: together,
    a tenth of the suite's time at Python's thresholds.
    """
    gc.set_threshold(50_000, 20, 100)
    for name in OPTIONAL:
        config.addinivalue_line(
            "markers", f"{name}: left out unless -m or a file's name asks for it"
        )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run a few named tests without workers, which take longer to start than such tests do."""
    return None if _names_folders(config) and not config.option.keyword else 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the tests of a folder that is left out."""
    marker = _MARKERS_BY_FOLDER.get(collection_path)
    # Among the tests of processes are smoke tests.
    is_left_out = marker not in (None, "process") and _leaves_out_optional(config)
    return True if is_left_out and collection_path not in map(Path, config.args) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by folder and fixture, and deselect those that the command does not select."""
    for item in items:
        for folder, marker in _MARKERS_BY_FOLDER.items():
            if folder in item.path.parents and not item.get_closest_marker("smoke"):
                item.add_marker(marker)
        for fixture, marker in _MARKERS_BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    selected: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (selected if _is_selected(config, item) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = selected


def _is_selected(config: pytest.Config, item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    if "shared" in names and not SHARED.is_dir():
        return False
    if item.get_closest_marker("postgres") and not (SERVER in os.environ or config.option.markexpr):
        return False
    campaign = item.get_closest_marker("campaign")
    if campaign and campaign.kwargs.get("at_full_size_only") and not LONG:
        return False
    return not (_leaves_out_optional(config) and any(map(item.get_closest_marker, OPTIONAL)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line which tests did not run, and how to run them."""
    if _leaves_out_optional(terminalreporter.config):
        terminalreporter.write_line(_LEFT_OUT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test without a marker that takes too much CPU time in this process and its children.

    The limit is in seconds of a machine that runs the reference loop in 20 ms. The loop runs after
    a test that seems too slow, so a machine that is slow or busy does not fail it.
    """
    began = _cpu_seconds()
    result = yield
    took = _cpu_seconds() - began
    if took > _MOST_CPU_SECONDS and not any(map(item.get_closest_marker, (*OPTIONAL, "smoke"))):
        took /= max(1.0, _reference_seconds() / 0.02)
        assert took < _MOST_CPU_SECONDS, "takes too much CPU time: make it cheaper, or mark it"
    return result


def _cpu_seconds() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _reference_seconds() -> float:
    began, total = time.process_time(), 0
    for number in range(200_000):
        total += number * number % 7
    return time.process_time() - began


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    """Remove FHIRAPP_ settings from the environment, and use UTC as the time zone."""
    for name in [name for name in os.environ if name.startswith("FHIRAPP_") and name != SERVER]:
        del os.environ[name]
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()


@pytest.fixture(autouse=True, scope="session")
def _long_busy_timeout() -> Iterator[None]:
    """Raise the time that a writer waits for a lock, for slow and busy machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.db.BUSY_SECONDS", 60)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_fsync() -> Iterator[None]:
    """Let SQLite wait for no disk: what a test writes need not survive a crash of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.db._PRAGMAS", (*db._PRAGMAS, "PRAGMA synchronous = OFF"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _compiled_templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile each template once, and not for each app."""
    cache = FileSystemBytecodeCache(str(tmp_path_factory.mktemp("templates")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flask, "jinja_options", {**Flask.jinja_options, "bytecode_cache": cache})
        yield


@pytest.fixture(autouse=True, scope="session")
def _remembered_passphrases() -> Iterator[None]:
    """Cache decryption by passphrase, which takes age more than a second."""
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


@pytest.fixture(autouse=True, scope="session")
def _untuned_garbage_collection() -> Iterator[None]:
    """Keep imports in this process from collecting all garbage after each batch from then on."""
    with pytest.MonkeyPatch.context() as patch:
        # tests/test_features.py deletes features.
        if "imports" in FEATURES:
            patch.setattr("fhirapp.features.imports.downloads.tune_gc", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _cheap_password_hashes() -> Iterator[None]:
    """Hash passwords at the least cost; tests/auth/test_sign_in.py tests the real one."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.auth.users.passwords._hasher", lambda: cheap)
        yield


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads that write at once wait for each other, however long that takes here."""
    monkeypatch.setattr("fhirapp.db._TURN_SECONDS", 60)


@pytest.fixture(scope="module")
def _unread_documents() -> Iterator[None]:
    """Index no words of documents: starting the process that reads them takes 0.3 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fhirapp.documents.extractor.Extractor.read", lambda *_document: ExtractedText("")
        )
        yield


@pytest.fixture(autouse=True)
def _wait_for_job_threads() -> Iterator[None]:
    """Wait until the end of each job's process is stored, before its app is closed."""
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
    """The folder of real records beside the project. Without it, tests that use it do not run."""
    return SHARED


@pytest.fixture(scope="session")
def synthea_folder(shared: Path) -> Path:
    """The NDJSON files of ten synthetic patients."""
    return shared / "data" / "synthea-10"


@pytest.fixture(scope="session")
def synthea_loaded(make_app: Callable[..., Flask], synthea_folder: Path) -> tuple[Flask, Report]:
    """Return an app with these records, and the report of their import."""
    from fhirapp.features.imports.importer import import_paths

    app = make_app(seed=False)
    with app.app_context():
        return app, import_paths([synthea_folder], types(), app.config["FHIRAPP"])


@pytest.fixture
def own_app(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of the test's own, with an empty audit trail."""
    return make_app()


@pytest.fixture
def watched(own_app: Flask) -> Fhir:
    """Return a client of `own_app` that may read and search everything."""
    return Fhir(own_app, token_for(own_app, "system/*.rs"))


@pytest.fixture
def empty(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of the test's own, without records."""
    return make_app(seed=False)


@pytest.fixture
def take(empty: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return a function that imports resources into `empty`, as lines of one file."""
    from tests.support.importing import lines, load, write

    return lambda *contents, **options: load(
        empty, write(tmp_path, lines(*contents), "x.ndjson"), **options
    )


@pytest.fixture
def tesseract(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that puts a shell script named tesseract first on the PATH."""
    # Not in pytest's folder, which the unprivileged user of the program cannot enter.
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
