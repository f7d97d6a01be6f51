"""Fixtures of downloads: another server, and the client that fetches its export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from fhirapp.features.pull.remote import RemoteError
from tests.support.bulk_server import BulkServer, Client, running


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
