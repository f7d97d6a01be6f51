"""Downloads of an export's files: fetched again when broken, never accepted when incomplete."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from fhirapp.features.pull.folder import count_resources, is_ended
from fhirapp.features.pull.remote import TransientError
from tests.support.bulk_server import (
    BOUNDS,
    EXPORT,
    IMPATIENT,
    Dripping,
    cut,
    file,
    lines_of,
)  # fmt: skip  # isort: skip
from tests.support.key_server import reply

PATIENTS = lines_of("Patient", 40)
SIZE, HALF = len(PATIENTS), len(PATIENTS) // 2
FIRST_LINE = PATIENTS.splitlines(keepends=True)[0]
PACKED = gzip.compress(PATIENTS, mtime=0)
MEMBERS = gzip.compress(FIRST_LINE), gzip.compress(PATIENTS.removeprefix(FIRST_LINE))
GZIP = "Content-Encoding: gzip"


def chunked(content: bytes) -> bytes:
    """Return an answer in chunks whose last chunk is missing."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n" % (len(content), content)


def unframed(content: bytes, *headers: str) -> bytes:
    """Return an answer that ends with its connection."""
    return "\r\n".join(["HTTP/1.0 200 OK", *headers, "", ""]).encode() + content


def with_length(answer: bytes, length: int) -> bytes:
    """Return an answer without content that announces a length."""
    return answer.replace(b"Content-Length: 0", b"Content-Length: %d" % length)


WHOLE = file(PATIENTS)
CUT = cut(WHOLE, HALF)
# The server's answers, of which the last is the file.
FETCHED = {
    "lost connection": [CUT, WHOLE],
    "missing last chunk": [chunked(PATIENTS), WHOLE],
    "damaged gzip": [file(PACKED[:-20], GZIP), WHOLE],
    "gzip": [file(PACKED, GZIP)],
    "gzip without the header": [file(PACKED)],
    "gzip of several members": [file(b"".join(MEMBERS), GZIP)],
    "end of the connection as the end": [unframed(PATIENTS)],
}
REFUSED = [
    (reply("206 Partial Content", PATIENTS[HALF:]), "answers 206"),
    (file(PACKED[:-20], GZIP), "the file ends too soon, twice"),
    (file(PACKED[:50] + b"xxxx" + PACKED[54:], GZIP), "the file is damaged, twice"),
    (file(PATIENTS, GZIP), "the file is damaged, twice"),
    (file(gzip.compress(bytes(5 << 20)), GZIP), "is larger than 4194304 bytes"),
    (file(PATIENTS, "Content-Encoding: br"), "encoded as br, which was not asked for"),
    (reply("200 OK", b"<html>", "Content-Type: text/html"), "is a web page, not NDJSON"),
    (file(b"<html>Sign in</html>"), "the file is not NDJSON, twice"),
    (with_length(reply("200 OK"), 10**10), "is larger than 4194304 bytes"),
    (unframed(PATIENTS[:-20]), "was lost in the middle of a resource, twice"),
    (reply("302 Found", b"", "Location: /files/Patient"), "redirected again and again"),
    (Dripping(unframed(PATIENTS), PATIENTS * 50), "is larger than 4194304 bytes"),
    (Dripping(unframed(PATIENTS), b"\n"), "it takes too long"),
]


@pytest.fixture
def fetched(server, client):
    """Return what downloads an export of one file into a new folder."""

    def fetch(*answers):
        server.offer(Patient=[*answers])
        (found,) = client.download(server.url + EXPORT).output
        assert list((client.folder / "output").iterdir()) == [found]
        return found.read_bytes()

    return fetch


@pytest.mark.parametrize("case", FETCHED)
def test_broken_file_is_fetched_again_from_its_beginning(server, client, fetched, case):
    assert fetched(*FETCHED[case]) == PATIENTS
    requests = [request for request in server.asked if request.path == "/files/Patient"]
    assert len(requests) == len(FETCHED[case])
    assert {request.headers["accept-encoding"] for request in requests} == {"gzip"}
    assert not any("range" in request.headers for request in requests)
    assert client.waited == [1] * (len(requests) - 1)


def test_empty_file_is_complete(fetched):
    assert fetched(file(b"")) == b""


@pytest.mark.parametrize("cases", [REFUSED[:6], REFUSED[6:]], ids=["first", "second"])
def test_unusable_file_is_refused(server, client, refusal, cases):
    messages = []
    for answer, _ in cases:
        client.bounds = IMPATIENT if isinstance(answer, Dripping) else BOUNDS
        server.offer(Patient=answer)
        messages.append(refusal(server.url + EXPORT))
        assert not list((client.folder / "output").iterdir())
    reasons = [reason for _, reason in cases]
    assert [pair for pair in zip(reasons, messages, strict=True) if pair[0] not in pair[1]] == []


def test_connection_that_is_lost_each_time_stops_the_download(server, client, fetched, refusal):
    server.offer(Patient=CUT)
    message = refusal(server.url + EXPORT)
    assert f"the connection was lost after {HALF} of {SIZE} bytes), after 10 attempts" in message
    assert "run this again later, and it continues" in message
    assert client.waited == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    server.asked.clear()
    assert fetched(WHOLE) == PATIENTS
    assert server.lines == ["GET /job", "GET /files/Patient", "DELETE /job"]


def test_part_of_a_killed_download_is_fetched_again_from_its_beginning(client, fetched):
    output = client.folder / "output"
    output.mkdir(parents=True)
    (output / ".fhirapp-killed.part").write_bytes(PATIENTS * 2)
    assert fetched(WHOLE) == PATIENTS


def test_file_is_compared_with_its_announcement(server, client, refusal):
    cases = [
        (file(PATIENTS), {"count": 41}, "40 resources came where 41 were announced, twice"),
        (file(PATIENTS), {"fileSize": 9}, f"{SIZE} bytes came where 9 were announced, twice"),
        *((file(PACKED, GZIP), {"count": count}, None) for count in (40, "x")),
        *((file(PACKED, GZIP), {"fileSize": size}, None) for size in (len(PACKED), SIZE)),
    ]
    for answer, announced, reason in cases:
        server.offer(Patient=answer)
        entry = {"type": "Patient", "url": "/files/Patient", **announced}
        server.answers["/job"] = [server.manifest(output=[entry])]
        server.asked.clear()
        if reason:
            assert reason in refusal(server.url + EXPORT)
            assert server.lines.count("GET /files/Patient") == 2
        else:
            client.folder = client.folder.with_name(f"{client.folder.name}-")
            (found,) = client.download(server.url + EXPORT).output
            assert found.read_bytes() == PATIENTS, announced


def test_file_names_do_not_come_from_the_server(server, client):
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
    assert [str(path.relative_to(client.folder)) for path in found] == [
        "output/00001.Resource.ndjson",
        "output/00002.Patient.ndjson",
        "output/00003.Resource.ndjson",
    ]


def test_disk_that_is_too_small_is_reported_before_it_is_full(server, client, fetched, refusal):
    client.bounds = replace(BOUNDS, free_bytes=1 << 60)
    server.offer(Patient=WHOLE)
    assert f"needs {SIZE} bytes more, and the disk of " in refusal(server.url + EXPORT)
    client.bounds = BOUNDS
    assert fetched(WHOLE) == PATIENTS


LONG = b'{"a":"' + b"x" * (17 << 20)


def test_lines_of_a_file_are_counted_and_its_end_is_checked(tmp_path):
    path = tmp_path / "file"
    counts = {
        b"": 0,
        b"\n \r\n": 0,
        b"{}": 1,
        b"\xef\xbb\xbf{}\n\n{}\r\n  \n{}": 3,
        b'{"a":"' + b"x" * (3 << 20) + b'"}\n{}\n': 2,
        b" " * (2 << 20) + b"{}": 1,
    }
    whole = [b"", b"{}", b"{}\n", b"{}\n{}", LONG + b'"}']
    with path.open("w+b") as opened:

        def write(content: bytes) -> None:
            opened.seek(0)
            opened.truncate()
            opened.write(content)

        for content, count in counts.items():
            write(content)
            assert count_resources(opened) == count, content[:20]
        for content in (*whole, b'{}\n{"a":', LONG):
            write(content)
            assert is_ended(opened) is (content in whole), content[:20]
        write(b"\n\n <!doctype html>")
        with pytest.raises(TransientError, match="not NDJSON"):
            count_resources(opened)
