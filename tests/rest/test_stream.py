"""Large bodies: read a piece at a time; who takes them slowly holds no thread and no connection."""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from fhirapp.config import settings_of
from fhirapp.db import Reader, db, writing
from fhirapp.db.reader import SPARES
from fhirapp.rest.stream import PIECE, ContentFile, Span
from tests.support.binaries import store
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.effort import sample
from tests.support.helpers import FHIR_JSON, Fhir, token_for
from tests.support.serving import Server, answer, get, listening_port
from tests.support.shell import ROOT, environment

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

# More than the server and the system buffer for a connection.
CONTENT = Random(0).randbytes(24 * 2**20 + 5)
PATH = "Binary/large"
# Above what is measured, 1.1 MB, and far below the content.
FEW_BYTES = 4 * 2**20


@pytest.fixture(scope="module")
def large(make_app: Callable[..., Flask]) -> Flask:
    """An app that holds CONTENT."""
    app = make_app(seed=False)
    store(app, "large", CONTENT)
    return app


@pytest.fixture(scope="module")
def fhir(large: Flask) -> Fhir:
    return Fhir(large, token_for(large, "system/*.rs"))


def connections_taken(app: Flask) -> int:
    with app.app_context():
        return db.engine.pool.checkedout() - len(SPARES.get(db.engine, ()))


def test_large_body_is_sent_as_it_was_stored(fhir):
    response = fhir.get(PATH)
    assert response.content_length == len(CONTENT)
    assert response.data == CONTENT


@pytest.mark.parametrize("accept", ["*/*", FHIR_JSON])
def test_a_large_body_needs_little_memory(fhir, accept):
    tracemalloc.start()
    try:
        response = fhir.get(PATH, headers={"Accept": accept}, buffered=False)
        length, digest = 0, hashlib.sha256()
        for piece in response.iter_encoded():
            length += len(piece)
            digest.update(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert length == response.content_length >= len(CONTENT)
    assert peak < FEW_BYTES
    if accept != FHIR_JSON:
        assert digest.digest() == hashlib.sha256(CONTENT).digest()


def test_more_bodies_can_be_on_their_way_than_there_are_connections(large, fhir):
    count = 40
    responses = [fhir.get(PATH, buffered=False) for _ in range(count)]
    bodies = [response.iter_encoded() for response in responses]
    for start in range(0, 3 * PIECE, PIECE):
        for body in bodies:
            assert next(body) == CONTENT[start : start + PIECE]
            assert connections_taken(large) == 0
    for response in responses:
        response.close()
    assert connections_taken(large) == 0


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("GET", {"Accept": FHIR_JSON}),
        ("GET", {"Range": "bytes=5-"}),
        ("GET", {"Range": "bytes=0-0"}),
        ("GET", {"If-None-Match": 'W/"1"'}),
        ("HEAD", {}),
    ],
)
def test_disconnected_client_releases_its_connection(large, fhir, method, headers):
    response = fhir.request(method, PATH, headers=headers, buffered=False)
    for _ in zip(range(2), response.iter_encoded(), strict=False):
        assert connections_taken(large) == 0
    response.close()
    assert connections_taken(large) == 0


def test_a_version_is_sent_to_its_end_though_another_is_published(large, fhir):
    content = CONTENT[: 3 * PIECE]
    store(large, "revised", content)
    sent = fhir.get("Binary/revised", buffered=False).iter_encoded()
    first = next(sent)
    store(large, "revised", content[::-1], now="2026-02-01T00:00:00.000+00:00")
    assert first + b"".join(sent) == content
    assert fhir.get("Binary/revised").data == content[::-1]


@pytest.mark.parametrize(
    ("row_id", "change"),
    [
        ("restored-1", "version_id = 7"),
        ("restored-2", "last_updated = '2099-02-01T00:00:00.000+00:00'"),
        ("restored-3", "id = 'other'"),
        ("restored-4", "pk = pk + 1000"),
        ("restored-5", "data = NULL"),
    ],
)
def test_body_never_mixes_bytes_of_two_versions(large, fhir, row_id, change):
    store(large, row_id, CONTENT[: 3 * PIECE])
    response = fhir.get(f"Binary/{row_id}", buffered=False)
    sent = response.iter_encoded()
    assert next(sent) == CONTENT[:PIECE]
    # As where a backup is restored meanwhile.
    with large.app_context(), writing() as connection:
        connection.execute(text(f'UPDATE "binary" SET {change} WHERE id = :id'), {"id": row_id})
    with pytest.raises(LookupError, match="was replaced while it was sent"):
        next(sent)
    response.close()
    assert connections_taken(large) == 0


class InMemory(NamedTuple):
    """A content that tells what was read of it."""

    content: bytes
    read: list[Span]

    @property
    def length(self) -> int:
        return len(self.content)

    def piece(self, snapshot: Reader, span: Span) -> bytes:
        self.read.append(span)
        return self.content[span.start : span.stop]


@pytest.fixture(scope="module")
def opened(large: Flask) -> Callable[[int, int], tuple[ContentFile, InMemory]]:
    """Return what opens a span of CONTENT as a file."""
    with large.app_context():
        engine = db.engine

    def open_span(start: int, stop: int) -> tuple[ContentFile, InMemory]:
        content = InMemory(CONTENT, [])
        return ContentFile(engine, content, Span(start, stop)), content

    return open_span


@settings(max_examples=sample(15, 50))
@given(
    start=st.integers(0, 3 * PIECE),
    length=st.integers(0, 3 * PIECE),
    asked=st.integers(1, 3 * PIECE),
    taken=st.lists(st.integers(1, PIECE), min_size=1, max_size=5),
)
def test_a_connection_that_takes_part_of_what_it_could_has_it_read_once(
    opened, start, length, asked, taken
):
    file, content = opened(start, start + length)
    assert (file.seek(0, 2), file.seek(0)) == (length, 0)
    sent = b""
    for turn in range(8 * PIECE):
        # As waitress reads: it looks at what there is, and goes on by what was taken.
        place = file.tell()
        seen = file.read(asked)
        file.seek(place)
        if not seen:
            break
        part = seen[: taken[turn % len(taken)] + PIECE // 8]
        sent += part
        assert file.seek(len(part), 1) == len(sent)
    assert sent == CONTENT[start : start + length]
    read = [span.start for span in content.read]
    assert read == list(range(start, start + length, PIECE))


def test_a_file_can_be_read_from_anywhere(opened):
    file, content = opened(10, 10 + 2 * PIECE)
    assert file.seekable()
    assert file.seek(-5, 2) == 2 * PIECE - 5
    assert file.read() == CONTENT[2 * PIECE + 5 : 2 * PIECE + 10]
    assert (file.read(), file.read(1)) == (b"", b"")
    file.seek(3)
    assert file.read(4) == CONTENT[13:17]
    assert file.read() == CONTENT[17 : 13 + PIECE]
    assert len(content.read) == 2
    file.close()


@pytest.fixture
def serving(large: Flask, tmp_path: Path) -> Iterator[Server]:
    """A server over the database of the large app, with one process of one thread."""
    own = settings_of(large)
    options = {"DATABASE_URL": own.database_url, "PROCESSES": "1", "THREADS": "1"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", str(ROOT / "app.py"), "--port", "0"],
            env=environment(tmp_path, **options),
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
    try:
        yield Server(process, listening_port(process, tmp_path / "log"))
    finally:
        process.kill()
        process.wait()


def memory(server: Server) -> int:
    """Return the bytes that the server's process has for itself."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.process
def test_clients_that_do_not_read_hold_neither_the_thread_nor_memory(serving, fhir):
    bearer = f"Authorization: Bearer {fhir.token}"
    whole, part = (get(f"/fhir/{PATH}", bearer, *more) for more in ([], ["Range: bytes=0-9"]))
    assert serving.ask(part)[1] == CONTENT[:10]
    before = memory(serving)
    with ExitStack() as stack:
        slow = [stack.enter_context(serving.connect()) for _ in range(4)]
        for connection in slow:
            connection.sendall(whole)
            assert connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        # There is one thread, and it is free.
        assert serving.ask(part)[1] == CONTENT[:10]
        assert memory(serving) - before < len(CONTENT)
        slow[0].close()
        assert answer(slow[1])[1] == CONTENT
    assert serving.ask(whole)[1] == CONTENT
    assert memory(serving) - before < len(CONTENT)
