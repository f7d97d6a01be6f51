"""Fixtures of tests that export, and of those that fetch the export of another server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from flask import Flask

from fhirapp.features.pull.address import RemoteError
from tests.support.bulk_server import BulkServer, Client, running
from tests.support.contract import fill
from tests.support.exporting import export


@pytest.fixture(scope="session")
def filled(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, with resources that use all elements; nothing is written to it."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(scope="session")
def exported(filled: Flask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that this app holds."""
    folder = tmp_path_factory.mktemp("export") / "new"
    export(filled, folder)
    return folder


@pytest.fixture(scope="module")
def _bulk_server() -> Iterator[BulkServer]:
    with running() as server:
        yield server


@pytest.fixture
def server(_bulk_server: BulkServer) -> Iterator[BulkServer]:
    """Another server, which answers each path as the test says."""
    _bulk_server.answers.clear()
    _bulk_server.asked.clear()
    yield _bulk_server
    # Ends the answers that never end.
    _bulk_server.over.set()
    _bulk_server.over = Event()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """The client that downloads into a folder of its own."""
    return Client(tmp_path / "folder")


@pytest.fixture
def refusal(client: Client) -> Callable[..., str]:
    """Return what downloads into a new folder, and returns the message of the error."""
    folder = client.folder

    def refuse(address: str, credentials: object = None, *, again: bool = False) -> str:
        if not again and client.folder.exists():
            client.folder = folder.with_name(f"{client.folder.name}-")
        with pytest.raises(RemoteError) as caught:
            client.download(address, credentials)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return refuse
