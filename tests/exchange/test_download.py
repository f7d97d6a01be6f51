"""Fetch another server's export: begun, waited for, fetched, deleted; and gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from fhirapp.exchange.remote.address import RemoteError
from tests.support.bulk_server import (
    EXPORT,
    IMPATIENT,
    TIME,
    BulkServer,
    Client,
    Dripping,
    accepted,
    cut,
    exporting,
    file,
    lines_of,
    outcome,
    running,
)
from tests.support.key_server import ok, reply

PATIENTS = lines_of("Patient", 3)
ALLERGIES = lines_of("AllergyIntolerance", 5)
BROKEN = outcome("500 Internal Server Error", "The disk is on fire.")
GONE = outcome("404 Not Found", "There is no such job.")


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server, with two files to export."""
    with running() as other:
        other.offer(Patient=file(PATIENTS), AllergyIntolerance=file(ALLERGIES))
        yield other


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Who fetches."""
    return Client(tmp_path / "folder")


def refused(client: Client, address: str) -> str:
    """Return the one sentence with which a download ends."""
    with pytest.raises(RemoteError) as caught:
        client.download(address)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_an_export_is_begun_waited_for_fetched_and_deleted(server, client):
    later = formatdate(client.now + 12, usegmt=True)
    server.answers["/job"] = [
        exporting("Retry-After: 7", "X-Progress: 10%"),
        exporting(f"Retry-After: {later}", "X-Progress: 10%"),
        exporting("X-Progress: 90%"),
        exporting("Retry-After: soon"),
        server.manifest("Patient", "AllergyIntolerance"),
    ]
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]
    assert [one.type for one in found.output] == ["Patient", "AllergyIntolerance"]
    assert [one.address for one in found.output] == [
        f"{server.url}/files/Patient",
        f"{server.url}/files/AllergyIntolerance",
    ]
    assert (found.base, found.transaction_time) == (f"{server.url}/fhir", TIME)
    assert (found.deleted, found.error) == ((), ())
    begun, polled = server.asked[0], server.asked[1]
    assert (begun.line, begun.headers["prefer"]) == (f"GET {EXPORT}", "respond-async")
    assert begun.headers["accept"] == "application/fhir+json"
    assert polled.headers["accept"] == "application/json"
    assert server.lines[1:] == [
        *["GET /job"] * 5,
        "GET /files/Patient",
        "GET /files/AllergyIntolerance",
        "DELETE /job",
    ]
    assert client.waited[0] == 7
    # HTTP dates have whole seconds, and seven of the twelve are over.
    assert 4 <= client.waited[1] <= 5
    assert client.waited[2:] == [4, 8]
    assert client.said == [
        f"The export has started: {server.url}/job",
        "The server is exporting: 10%",
        "The server is exporting: 90%",
        "The server is exporting",
        f"File 1 of 2: {len(PATIENTS)} bytes of Patient",
        f"File 2 of 2: {len(ALLERGIES)} bytes of AllergyIntolerance",
    ]


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("/fhir/Patient/$export?_type=Patient&_since=2024-01-01T00:00:00Z", "/fhir"),
        ("/fhir/Group/g1/$export", "/fhir"),
        ("/$export", ""),
        ("/a/b/%24export", "/a/b"),
    ],
)
def test_an_export_of_any_level_is_asked_for_as_it_is_named(server, client, address, base):
    server.answers[address] = [accepted(f"{server.url}/job")]
    found = client.download(server.url + address)
    assert server.lines[0] == f"GET {address}"
    assert found.base == server.url + base
    assert len(found.output) == 2


def test_what_was_deleted_and_what_went_wrong_is_fetched_too(server, client):
    bundle, fault = b'{"resourceType":"Bundle"}\n', b'{"resourceType":"OperationOutcome"}\n'
    server.answers["/d"], server.answers["/e"] = [file(bundle)], [file(fault)]
    server.answers["/job"] = [
        server.manifest(
            "Patient",
            deleted=[{"type": "Bundle", "url": "d"}],
            error=[{"type": "OperationOutcome", "url": f"{server.url}/e"}],
        )
    ]
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.deleted] == [bundle]
    assert [one.path.read_bytes() for one in found.error] == [fault]
    folders = [one.path.parent.name for one in (*found.output, *found.deleted, *found.error)]
    assert folders == ["output", "deleted", "error"]


def test_a_manifest_is_fetched_from_its_address_and_left_there(server, client):
    found = client.download(f"{server.url}/job")
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]
    assert found.base == f"{server.url}/fhir"
    assert server.lines == ["GET /job", "GET /files/Patient", "GET /files/AllergyIntolerance"]


def test_an_export_that_another_began_is_waited_for_and_left_there(server, client):
    server.answers["/job"].insert(0, exporting("Retry-After: 3"))
    assert len(client.download(f"{server.url}/job").output) == 2
    assert client.waited == [3]
    assert "DELETE /job" not in server.lines


def test_a_manifest_in_pages_is_read_to_its_end(server, client):
    following = [{"relation": "next", "url": "/page2"}]
    server.answers["/job"] = [server.manifest("Patient", link=following)]
    server.answers["/page2"] = [server.manifest("AllergyIntolerance")]
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]


def test_a_manifest_whose_pages_never_end_is_refused(server, client):
    following = [{"relation": "next", "url": "/job"}]
    server.answers["/job"] = [server.manifest(link=following)]
    assert "more than 1000 pages" in refused(client, server.url + EXPORT)


def test_a_second_run_goes_on_and_begins_no_second_export(server, client):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    said = refused(client, server.url + EXPORT)
    assert said.endswith("/files/AllergyIntolerance answers 500: The disk is on fire.")
    server.asked.clear()
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]
    assert server.lines == ["GET /job", "GET /files/AllergyIntolerance", "DELETE /job"]


def test_what_is_finished_is_not_asked_for_again(server, client):
    found = client.download(server.url + EXPORT)
    server.asked.clear()
    assert client.download(server.url + EXPORT) == found
    assert server.asked == []


def test_a_finished_file_that_was_lost_is_fetched_with_a_new_export(server, client):
    found = client.download(server.url + EXPORT)
    found.output[0].path.unlink()
    server.answers["/job"] = [GONE, *server.answers["/job"]]
    again = client.download(server.url + EXPORT)
    assert again == found
    assert again.output[0].path.read_bytes() == PATIENTS
    assert server.lines.count(f"GET {EXPORT}") == 2


def test_an_export_that_expired_between_two_runs_is_begun_anew(server, client):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    refused(client, server.url + EXPORT)
    server.asked.clear()
    server.answers["/job"].insert(0, GONE)
    client.said.clear()
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]
    assert client.said[0] == "The export is no longer on the server; it is started again."
    # All of it, so that all is of one time.
    assert server.lines == [
        "GET /job",
        f"GET {EXPORT}",
        "GET /job",
        "GET /files/Patient",
        "GET /files/AllergyIntolerance",
        "DELETE /job",
    ]


def test_an_export_that_expires_meanwhile_is_begun_anew_once(server, client):
    server.answers["/files/AllergyIntolerance"].insert(0, reply("410 Gone"))
    server.answers["/job"][1:] = [GONE, server.answers["/job"][0]]
    assert len(client.download(server.url + EXPORT).output) == 2
    assert server.lines.count(f"GET {EXPORT}") == 2
    client.folder = client.folder / "another"
    server.answers["/job"] = [GONE]
    assert "answers 404: There is no such job." in refused(client, server.url + EXPORT)
    assert server.lines.count(f"GET {EXPORT}") == 4


def test_a_manifest_that_is_gone_is_told(server, client):
    server.answers["/job"] = [GONE]
    assert "There is no such job." in refused(client, f"{server.url}/job")


def test_addresses_that_were_signed_anew_are_taken_up(server, client):
    server.answers["/files/AllergyIntolerance"] = [outcome("403 Forbidden", "Expired signature")]
    entries = [
        {"type": "Patient", "url": "/files/Patient"},
        {"type": "AllergyIntolerance", "url": "/files/signed?key=2"},
    ]
    server.answers["/job"].append(server.manifest(output=entries))
    server.answers["/files/signed?key=2"] = [file(ALLERGIES)]
    found = client.download(server.url + EXPORT)
    assert [one.path.read_bytes() for one in found.output] == [PATIENTS, ALLERGIES]
    # The query may be a secret.
    assert found.output[1].address == f"{server.url}/files/signed"


def test_a_file_that_stays_forbidden_is_told(server, client):
    server.answers["/files/Patient"] = [outcome("403 Forbidden", "Not for you.")]
    assert refused(client, server.url + EXPORT).endswith("answers 403: Not for you.")


def test_other_files_at_the_same_address_are_fetched_anew(server, client):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    refused(client, f"{server.url}/job")
    server.answers["/job"] = [server.manifest("Patient", transactionTime="2026-03-01T00:00:00Z")]
    server.answers["/files/Patient"] = [file(lines_of("Patient", 9))]
    found = client.download(f"{server.url}/job")
    assert [one.path.read_bytes() for one in found.output] == [lines_of("Patient", 9)]
    assert sorted(one.name for one in client.folder.rglob("*.ndjson")) == ["00001.Patient.ndjson"]
    server.asked.clear()
    assert client.download(f"{server.url}/job") == found
    assert server.asked == []


def test_a_server_that_is_busy_is_asked_again_when_it_says(server, client):
    busy = outcome("429 Too Many Requests", "Slow down.", "Retry-After: 30")
    server.answers[EXPORT].insert(0, busy)
    server.answers["/job"].insert(0, reply("503 Service Unavailable"))
    server.answers["/files/Patient"][:0] = [reply("503 Service Unavailable", b"", "Retry-After: 9")]
    transient = outcome("500 Internal Server Error", "Wait.", code="transient")
    server.answers["/files/AllergyIntolerance"].insert(0, transient)
    assert len(client.download(server.url + EXPORT).output) == 2
    assert client.waited == [30, 1, 9, 1]


def test_a_server_that_stays_busy_is_given_up(server, client):
    server.answers[EXPORT] = [outcome("503 Service Unavailable", "Come back later.")]
    said = refused(client, server.url + EXPORT)
    assert said == (
        f"No export was started ({server.url}{EXPORT} answers 503: Come back later), after 4 "
        "attempts; run this again later, and it goes on where it stopped."
    )
    assert client.waited == [1, 2, 4]


def test_a_server_that_wants_to_be_left_alone_for_days_is(server, client):
    server.answers["/job"] = [exporting("Retry-After: 259200")]
    assert "asks to come back in 72 hours" in refused(client, server.url + EXPORT)
    assert client.waited == []


def test_a_server_that_is_not_there_is_told(tmp_path, client):
    with running() as other:
        address = other.url + EXPORT
    assert "Connection refused" in refused(client, address)


def test_what_a_server_says_is_cut_and_made_harmless(server, client):
    server.answers[EXPORT] = [outcome("400 Bad Request", "\x1b[31mred\nline\u202e " + "x" * 3000)]
    said = refused(client, server.url + EXPORT)
    assert " answers 400: [31mred line xxx" in said
    assert len(said) < 500
    assert said.isprintable()


def test_an_export_that_cannot_be_deleted_is_told_and_fetched_all_the_same(server, client):
    server.answers["DELETE /job"] = [reply("405 Method Not Allowed")]
    assert len(client.download(server.url + EXPORT).output) == 2
    assert "could not be told to delete the export (it answers 405)" in client.said[-1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>Sign in</html>", "it is not JSON"),
        (b"[" * 100_000, "more than 65536 bytes"),
        (b"[" * 50_000, "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        ([], "it has no list of output"),
        ({"resourceType": "CapabilityStatement"}, "it has no list of output"),
        ({"output": {}}, "it has no list of output"),
        ({"output": [], "deleted": "none"}, "its deleted is no list"),
        ({"output": ["x"]}, "a file of its output has no url"),
        ({"output": [{"type": "Patient"}]}, "a file of its output has no url"),
        ({"output": [{"url": ["x"]}]}, "a file of its output has no url"),
        ({"output": [{"url": "ftp://h/x"}]}, "ftp://h/x is not an http:// or https:// address"),
        ({"output": [{"url": "file:///etc/passwd"}]}, "is not an http:// or https:// address"),
        ({"output": [{"url": "http://u:p@h/x"}]}, "must not hold a user name"),
        ({"output": [{"url": "http://h\r\nX: y/"}]}, "is not an http:// or https:// address"),
        ({"output": [{"url": "http://[/x"}]}, "is not an http:// or https:// address"),
        ({"output": [{"url": "http://h:99999/x"}]}, "is not an http:// or https:// address"),
        ({"output": [], "link": [{"relation": "next"}]}, "its next page has no url"),
    ],
)
def test_what_is_no_manifest_is_one_sentence(server, client, content, why):
    server.answers["/job"] = [ok(content)]
    assert why in refused(client, server.url + EXPORT)


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (EXPORT, ok({}), "answers 200, and not 202"),
        (EXPORT, reply("202 Accepted"), "does not say where its progress can be read"),
        (EXPORT, accepted("ftp://h/"), "is not an http:// or https:// address"),
        (EXPORT, reply("302 Found", b"", f"Location: {EXPORT}"), "redirected again and again"),
        (EXPORT, reply("302 Found", b"", "Location: gopher://h/"), "is not an http://"),
        (EXPORT, reply("401 Unauthorized"), "a client that it knows (--client-id and --key)"),
        (EXPORT, b"HTTP/1.1 what\r\n\r\n", "the connection was lost"),
        (EXPORT, b"", "the connection was lost"),
        ("/job", reply("302 Found", b"", "Location: /job"), "redirected again and again"),
        ("/job", cut(ok({"output": []}), 5), "the connection was lost"),
        ("/job", ok({"output": []}, "Content-Encoding: gzip"), "the answer is damaged"),
        (
            "/job",
            reply("200 OK").replace(b"Content-Length: 0", b"Content-Length: 10000000000"),
            "answers with more than 65536 bytes",
        ),
    ],
)
def test_an_answer_that_nobody_can_use_is_one_sentence(server, client, path, answer, why):
    server.answers[path] = [answer]
    assert why in refused(client, server.url + EXPORT)


@pytest.mark.parametrize(
    ("drip", "why"),
    [(b"x" * 4096, "more than 65536 bytes"), (b" ", "it takes too long")],
)
def test_an_answer_that_never_ends_is_given_up(server, client, drip, why):
    server.answers["/job"] = [Dripping(b"HTTP/1.1 200 OK\r\n\r\n{", drip)]
    client.bounds = IMPATIENT
    assert why in refused(client, server.url + EXPORT)


def test_headers_that_never_end_are_given_up(server, client):
    server.answers[EXPORT] = [Dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x")]
    client.bounds = IMPATIENT
    assert "it takes too long" in refused(client, server.url + EXPORT)


@pytest.mark.parametrize(
    "address", ["ftp://h/$export", "h/fhir/$export", "http:///$export", "http://h/ü/$export", ""]
)
def test_an_address_that_cannot_be_asked_is_refused_before_anything_is_made(client, address):
    assert "is not an http:// or https:// address" in refused(client, address)
    assert not client.folder.exists()


def test_a_folder_holds_one_download(server, client):
    client.download(server.url + EXPORT)
    said = refused(client, f"{server.url}/job")
    assert f"holds a download of {server.url}{EXPORT}" in said


def test_a_folder_that_another_run_fetches_into_is_left_alone(server, client):
    other = Client(client.folder)

    def meanwhile(_asked):
        assert "Another run downloads into" in refused(other, server.url + EXPORT)
        return file(PATIENTS)

    server.answers["/files/Patient"] = [meanwhile]
    assert len(client.download(server.url + EXPORT).output) == 2
    assert other.said == []


@pytest.mark.parametrize(
    "change",
    [
        lambda _state: b"{",
        lambda _state: b"[]",
        lambda state: json.dumps({**state, "version": 2}).encode(),
        lambda state: json.dumps({**state, "files": [{}]}).encode(),
        lambda state: json.dumps(
            {**state, "files": [{**state["files"][0], "name": "../../x"}]}
        ).encode(),
    ],
)
def test_a_state_that_cannot_be_read_is_told(server, client, change):
    client.download(server.url + EXPORT)
    path = client.folder / "state.json"
    path.write_bytes(change(json.loads(path.read_bytes())))
    assert "delete the folder, and the download starts again" in refused(
        client, server.url + EXPORT
    )


def test_a_folder_that_cannot_be_made_is_told(server, client):
    client.folder.write_text("a file")
    assert "cannot be made" in refused(client, server.url + EXPORT)


def test_what_is_fetched_is_for_this_user_alone(server, client):
    client.download(server.url + EXPORT)
    modes = {one.name: oct(one.stat().st_mode & 0o777) for one in client.folder.rglob("*.*")}
    assert modes == {
        "state.json": "0o600",
        "00001.Patient.ndjson": "0o600",
        "00002.AllergyIntolerance.ndjson": "0o600",
    }
