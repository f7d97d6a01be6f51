"""Fetch the files of an export: continued to the byte, never taken for whole when they are not."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fhirapp.exchange.remote.address import Passing, RemoteError
from fhirapp.exchange.remote.files import count_resources, is_ended
from tests.support.bulk_server import (
    BOUNDS,
    EXPORT,
    IMPATIENT,
    Asked,
    BulkServer,
    Client,
    Dripping,
    cut,
    file,
    lines_of,
    ranged,
    running,
)
from tests.support.key_server import reply
from tests.support.shell import ROOT

PATIENTS = lines_of("Patient", 40)
OTHERS = lines_of("Patient", 41)
PACKED = gzip.compress(PATIENTS, mtime=0)
GZIP = "Content-Encoding: gzip"
TAG = '"v1"'
DATE = "Sun, 01 Feb 2026 00:00:00 GMT"
HALF = len(PATIENTS) // 2
FIRST = file(PATIENTS, f"ETag: {TAG}")


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server; its file is told by each test."""
    with running() as other:
        yield other


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Who fetches."""
    return Client(tmp_path / "folder")


def fetched(server: BulkServer, client: Client, *answers: object) -> bytes:
    """Return the one file of an export, whose answers are these."""
    server.offer(Patient=[*answers])  # type: ignore[arg-type]
    (found,) = client.download(server.url + EXPORT).output
    assert not list((client.folder / "parts").iterdir())
    return found.path.read_bytes()


def refused(server: BulkServer, client: Client, *answers: object) -> str:
    """Return the sentence with which the download of a file ends."""
    with pytest.raises(RemoteError) as caught:
        fetched(server, client, *answers)
    assert not list((client.folder / "output").iterdir())
    return str(caught.value)


def ranges(server: BulkServer) -> list[str | None]:
    """Return what part of the file was asked for, each time."""
    return [one.headers.get("range") for one in server.asked if one.path == "/files/Patient"]


def range_of(have: int, last: int | None = None, total: int | str = len(PATIENTS)) -> str:
    """Return a Content-Range."""
    return f"Content-Range: bytes {have}-{total - 1 if last is None else last}/{total}"  # type: ignore[operator]


def chunked(content: bytes, *headers: str, ends: bool = True) -> bytes:
    """Return an answer in chunks."""
    lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers, "", ""]
    end = b"0\r\n\r\n" if ends else b""
    return "\r\n".join(lines).encode() + b"%x\r\n%s\r\n" % (len(content), content) + end


def unframed(content: bytes, *headers: str) -> bytes:
    """Return an answer that ends with its connection."""
    return "\r\n".join(["HTTP/1.0 200 OK", *headers, "", ""]).encode() + content


@pytest.mark.parametrize(
    "first",
    [
        cut(FIRST, HALF),
        chunked(PATIENTS[:HALF], f"ETag: {TAG}", ends=False),
    ],
)
def test_a_file_whose_connection_was_lost_is_continued(server, client, first):
    assert fetched(server, client, first, ranged(PATIENTS, TAG)) == PATIENTS
    assert ranges(server) == [None, f"bytes={HALF}-"]
    assert server.asked[-2].headers["if-range"] == TAG
    assert client.waited == [1]


def test_a_file_whose_end_nothing_tells_is_fetched_from_its_beginning(server, client):
    first = unframed(PATIENTS[: HALF + 3], f"ETag: {TAG}")
    assert fetched(server, client, first, ranged(PATIENTS, TAG)) == PATIENTS
    assert ranges(server) == [None, None]


def test_a_time_of_change_serves_as_well_as_a_tag(server, client):
    first = cut(file(PATIENTS, 'ETag: W/"weak"', f"Last-Modified: {DATE}"), HALF)
    assert fetched(server, client, first, ranged(PATIENTS, DATE)) == PATIENTS
    assert ranges(server) == [None, f"bytes={HALF}-"]


def test_a_file_that_nothing_identifies_is_fetched_from_its_beginning(server, client):
    first = cut(file(PATIENTS, 'ETag: W/"weak"'), HALF)
    assert fetched(server, client, first, file(PATIENTS)) == PATIENTS
    assert ranges(server) == [None, None]


def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(server, client):
    assert fetched(server, client, cut(FIRST, HALF), ranged(OTHERS, '"v2"')) == OTHERS
    assert ranges(server) == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [range_of(HALF - 1)],
        [range_of(HALF, total=len(PATIENTS) + 1)],
        [range_of(HALF, last=len(PATIENTS) - 2)],
        [f"Content-Range: bytes {HALF}-{len(PATIENTS) - 1}/*"],
        [f"Content-Range: bytes {'9' * 9000}-1/1"],
        ["Content-Range: lines 1-2/3"],
        [range_of(HALF), GZIP],
    ],
)
def test_a_part_that_does_not_fit_is_not_taken(server, client, headers):
    part = reply("206 Partial Content", PATIENTS[HALF:], f"ETag: {TAG}", *headers)
    found = fetched(server, client, cut(FIRST, HALF), part, ranged(PATIENTS, TAG))
    assert found == PATIENTS
    assert ranges(server) == [None, f"bytes={HALF}-", None]


def test_a_part_of_another_length_than_its_range_is_not_taken(server, client):
    part = reply("206 Partial Content", b"x" * 9, f"ETag: {TAG}", range_of(HALF))
    assert fetched(server, client, cut(FIRST, HALF), part, FIRST) == PATIENTS


def test_a_part_that_nobody_asked_for_is_refused(server, client):
    part = reply("206 Partial Content", PATIENTS[HALF:], range_of(HALF))
    assert "answers 206" in refused(server, client, part)


def test_a_file_of_which_all_is_here_is_finished(server, client):
    # Chunks tell no length: that nothing is left is told by 416.
    first = chunked(PATIENTS, f"ETag: {TAG}", ends=False)
    assert fetched(server, client, first, ranged(PATIENTS, TAG)) == PATIENTS
    assert ranges(server) == [None, f"bytes={len(PATIENTS)}-"]


def test_a_file_that_became_shorter_is_fetched_from_its_beginning(server, client):
    shorter = reply("416 Range Not Satisfiable", b"", "Content-Range: bytes */7")
    assert fetched(server, client, cut(FIRST, HALF), shorter, FIRST) == PATIENTS
    assert ranges(server) == [None, f"bytes={HALF}-", None]


def test_a_download_that_was_stopped_goes_on_where_it_was(server, client):
    lost = cut(FIRST, HALF)
    closed = reply("206 Partial Content", b"", f"ETag: {TAG}", range_of(HALF)).replace(
        b"Content-Length: 0", b"Content-Length: %d" % (len(PATIENTS) - HALF)
    )
    said = refused(server, client, lost, closed)
    assert f"the connection was lost after {HALF} of {len(PATIENTS)} bytes" in said
    assert "it goes on where it stopped" in said
    # Ten times, and longer each time.
    assert client.waited == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    server.asked.clear()
    assert fetched(server, client, ranged(PATIENTS, TAG)) == PATIENTS
    assert server.lines == ["GET /job", "GET /files/Patient", "DELETE /job"]
    assert ranges(server) == [f"bytes={HALF}-"]


def test_attempts_that_bring_a_file_forward_are_not_counted(server, client):
    content = b'{"x":"%s"}\n' % (b"y" * (20 << 20))
    client.bounds = replace(BOUNDS, file_bytes=30 << 20)
    step = 3 << 19

    def part(asked: Asked) -> bytes:
        whole = ranged(content, TAG)(asked)
        return cut(whole, step)

    assert fetched(server, client, part) == content
    assert len(ranges(server)) == 14
    assert set(client.waited) == {1}


DOWNLOAD = """
import sys
from pathlib import Path
from fhirapp.exchange.remote.download import download
download(sys.argv[1], Path(sys.argv[2]), None, print)
"""


def test_a_download_that_was_killed_goes_on_where_it_was(server, client):
    content = lines_of("Patient", 20_000)
    lost = cut(file(content, f"ETag: {TAG}"), 500_000)
    server.offer(Patient=Dripping(lost, None))
    command = [sys.executable, "-c", DOWNLOAD, server.url + EXPORT, str(client.folder)]
    part = client.folder / "parts" / "00001.Patient.ndjson"
    with subprocess.Popen(command, cwd=ROOT) as process:
        while not part.exists() or part.stat().st_size < 400_000:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        process.kill()
    have = part.stat().st_size
    server.asked.clear()
    server.answers["/files/Patient"] = [ranged(content, TAG)]
    (found,) = client.download(server.url + EXPORT).output
    assert found.path.read_bytes() == content
    assert ranges(server) == [f"bytes={have}-"]
    assert server.lines == ["GET /job", "GET /files/Patient", "DELETE /job"]


def test_gzip_is_asked_for_and_opened(server, client):
    assert fetched(server, client, file(PACKED, GZIP)) == PATIENTS
    assert server.asked[-2].headers["accept-encoding"] == "gzip"


def test_gzip_is_opened_though_nobody_said_so(server, client):
    assert fetched(server, client, file(PACKED)) == PATIENTS


def test_gzip_of_several_members_is_opened_whole(server, client):
    first = PATIENTS.splitlines(keepends=True)[0]
    packed = gzip.compress(first) + gzip.compress(PATIENTS.removeprefix(first))
    assert fetched(server, client, file(packed, GZIP)) == PATIENTS


@pytest.mark.parametrize("zeros", [1, 512, 3 << 20])
def test_zeros_after_gzip_are_the_padding_of_a_tape(server, client, zeros):
    first = PATIENTS.splitlines(keepends=True)[0]
    padding = bytes(zeros)
    packed = gzip.compress(first) + padding + gzip.compress(PATIENTS.removeprefix(first)) + padding
    assert fetched(server, client, file(packed[: 4 << 20], GZIP)) == PATIENTS


def test_gzip_is_continued_as_it_came(server, client):
    first = cut(file(PACKED, GZIP, f"ETag: {TAG}"), 100)
    assert fetched(server, client, first, ranged(PACKED, TAG, GZIP)) == PATIENTS
    assert ranges(server) == [None, "bytes=100-"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (PACKED[:-20], "the file ends too soon, twice"),
        (PACKED[:50] + b"xxxx" + PACKED[54:], "the file is damaged, twice"),
        (PATIENTS, "the file is damaged, twice"),
        (gzip.compress(bytes(5 << 20)), "holds more than 4194304 bytes"),
    ],
)
def test_gzip_that_is_not_what_it_should_be_is_refused(server, client, content, why):
    assert why in refused(server, client, file(content, GZIP))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (file(PATIENTS, "Content-Encoding: br"), "encoded as br, which was not asked for"),
        (reply("200 OK", b"<html>", "Content-Type: text/html"), "is a web page, not NDJSON"),
        (file(b"<html>Sign in</html>"), "the file is not NDJSON, twice"),
        (
            reply("200 OK").replace(b"Content-Length: 0", b"Content-Length: 10000000000"),
            "is 10000000000 bytes; more than 4194304 are refused",
        ),
        (unframed(PATIENTS[:-20]), "was lost in the middle of a resource, twice"),
        (reply("302 Found", b"", "Location: /files/Patient"), "redirected again and again"),
    ],
)
def test_a_file_that_is_none_is_refused(server, client, answer, why):
    assert why in refused(server, client, answer)


@pytest.mark.parametrize(
    ("drip", "why"),
    [(PATIENTS * 50, "is larger than 4194304 bytes"), (b"\n", "it takes too long")],
)
def test_a_file_that_never_ends_is_given_up(server, client, drip, why):
    client.bounds = IMPATIENT
    assert why in refused(server, client, Dripping(unframed(PATIENTS), drip))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"count": 41}, "40 resources came where 41 were announced, twice"),
        ({"fileSize": 9}, f"{len(PATIENTS)} bytes came where 9 were announced, twice"),
    ],
)
def test_a_file_that_is_not_as_announced_is_refused(server, client, told, why):
    server.offer(Patient=file(PATIENTS))
    entry = {"type": "Patient", "url": "/files/Patient", **told}
    server.answers["/job"] = [server.manifest(output=[entry])]
    with pytest.raises(RemoteError, match=why):
        client.download(server.url + EXPORT)
    assert server.lines.count("GET /files/Patient") == 2


@pytest.mark.parametrize(
    "told", [{"count": 40}, {"fileSize": len(PACKED)}, {"fileSize": len(PATIENTS)}, {"count": "x"}]
)
def test_a_file_that_is_as_announced_is_taken(server, client, told):
    server.offer(Patient=file(PACKED, GZIP))
    entry = {"type": "Patient", "url": "/files/Patient", **told}
    server.answers["/job"] = [server.manifest(output=[entry])]
    assert client.download(server.url + EXPORT).output[0].path.read_bytes() == PATIENTS


def test_an_empty_file_is_one(server, client):
    assert fetched(server, client, file(b"")) == b""


def test_the_names_of_files_are_our_own(server, client):
    server.offer()
    entries = [
        {"type": "../../../../tmp/x", "url": "/files/..%2F..%2Fx"},
        {"type": "Patient\0", "url": "/files/a/../../x.ndjson?name=../y"},
        {"url": "/files/%00"},
    ]
    for path in ("/files/..%2F..%2Fx", "/x.ndjson?name=../y", "/files/%00"):
        server.answers[path] = [file(PATIENTS)]
    server.answers["/job"] = [server.manifest(output=entries)]
    found = client.download(server.url + EXPORT).output
    assert [str(one.path.relative_to(client.folder)) for one in found] == [
        "output/00001.Resource.ndjson",
        "output/00002.Patient.ndjson",
        "output/00003.Resource.ndjson",
    ]


def test_a_disk_that_is_too_small_is_told_before_it_is_full(server, client):
    client.bounds = replace(BOUNDS, free_bytes=1 << 60)
    said = refused(server, client, FIRST)
    assert f"needs {len(PATIENTS)} bytes more, and the disk of " in said
    client.bounds = BOUNDS
    assert fetched(server, client, FIRST) == PATIENTS


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"\n \r\n", 0),
        (b"{}", 1),
        (b"\xef\xbb\xbf{}\n\n{}\r\n  \n{}", 3),
        (b'{"a":"' + b"x" * (3 << 20) + b'"}\n{}\n', 2),
        (b" " * (2 << 20) + b"{}", 1),
    ],
)
def test_resources_are_the_lines_that_are_not_blank(tmp_path, content, count):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert count_resources(path) == count


def test_what_does_not_begin_as_ndjson_is_none(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\n\n <!doctype html>")
    with pytest.raises(Passing, match="not NDJSON"):
        count_resources(path)


@pytest.mark.parametrize(
    ("content", "ended"),
    [
        (b"", True),
        (b"{}", True),
        (b"{}\n", True),
        (b"{}\n{}", True),
        (b'{}\n{"a":', False),
        (b'{"a":"' + b"x" * (17 << 20), False),
        (b'{"a":"' + b"x" * (17 << 20) + b'"}', True),
    ],
)
def test_a_file_ends_with_a_whole_line(tmp_path, content, ended):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert is_ended(path) is ended
