"""Two servers on one database, each with its own instance folder, and shared file storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from shutil import copytree
from typing import NamedTuple

import pytest
from flask import Flask

from fhirapp import create_app
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.files import shared_files
from tests.support.jobs import do_job
from tests.support.object_store import BUCKET, ObjectStore
from tests.support.shell import start_job


@pytest.fixture(autouse=True)
def _jobs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do jobs in this process, but fork them in tests of processes."""
    is_process = request.node.get_closest_marker("process")
    monkeypatch.setattr("fhirapp.jobs.process._spawn", start_job if is_process else do_job)


class Place(NamedTuple):
    """Where files are shared: as FHIRAPP_FILES names it, and what is there."""

    files: str
    names: Callable[[], list[str]]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 store, which servers of these tests reach."""
    store = ObjectStore(tmp_path_factory.mktemp("store"))
    store.start()
    with pytest.MonkeyPatch.context() as patch:
        set_environment(patch, store.environment)
        yield store
    store.stop()


def set_environment(patch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)


@pytest.fixture(scope="module", params=["folder", "s3"])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Callable[..., str],
) -> Place:
    """A place for the files of one database."""
    if request.param == "folder":
        folder = tmp_path_factory.mktemp("shared")
        return Place(str(folder), lambda: names_in(folder))
    store: ObjectStore = request.getfixturevalue("store")
    prefix = f"servers/{token_hex(4)}/"

    def names() -> list[str]:
        return [name.removeprefix(prefix) for name in store.names() if name.startswith(prefix)]

    return Place(f"s3://{BUCKET}/{prefix.rstrip('/')}", names)


def names_in(folder: Path) -> list[str]:
    """Return the names of the files below a folder."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name[0] != ".")


def another(app: Flask) -> Flask:
    """Return another server on an app's database, with an instance folder of its own."""
    settings = settings_of(app)
    folder = settings.folder.with_name(f"{settings.folder.name}-other")
    copytree(settings.folder, folder)
    return create_app(replace(settings, instance_path=str(folder)))


@pytest.fixture(scope="module")
def servers(make_app: Callable[..., Flask], place: Place) -> Iterator[tuple[Flask, Flask]]:
    """Two servers that share a place for files."""
    first = make_app(files=place.files)
    second = another(first)
    yield first, second
    with second.app_context():
        db.engine.dispose()
    for app in (first, second):
        with app.app_context():
            shared_files(settings_of(app)).delete_folder("exports")
