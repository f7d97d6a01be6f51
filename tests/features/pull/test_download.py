"""Downloads of another server's export: kick-off, polling, manifest, second runs, refusals."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest

from tests.support.bulk_server import (
    EXPORT,
    IMPATIENT,
    TIME,
    Client,
    Dripping,
    accepted,
    cut,
    exporting,
    file,
    lines_of,
    outcome,
    running,
)  # fmt: skip  # isort: skip
from tests.support.key_server import ok, reply

PATIENTS = lines_of("Patient", 3)
ALLERGIES = lines_of("AllergyIntolerance", 5)
FILES = ["GET /files/Patient", "GET /files/AllergyIntolerance"]
BROKEN = outcome("500 Internal Server Error", "The disk is on fire.")
GONE = outcome("404 Not Found", "There is no such job.")


@pytest.fixture
def server(server):
    """Another server, with two files to export."""
    server.offer(Patient=file(PATIENTS), AllergyIntolerance=file(ALLERGIES))
    return server


def contents(files):
    return [path.read_bytes() for path in files]


def test_export_is_kicked_off_polled_fetched_and_deleted(server, client):
    later = formatdate(client.now + 12, usegmt=True)
    server.answers["/job"] = [
        exporting("Retry-After: 7", "X-Progress: 10%"),
        exporting(f"Retry-After: {later}", "X-Progress: 10%"),
        exporting("X-Progress: 90%"),
        exporting("Retry-After: soon"),
        server.manifest("Patient", "AllergyIntolerance"),
    ]
    found = client.download(server.url + EXPORT)
    assert contents(found.output) == [PATIENTS, ALLERGIES]
    assert (found.base, found.transaction_time) == (f"{server.url}/fhir", TIME)
    assert (found.deleted, found.error) == ([], [])
    kick_off, poll = server.asked[:2]
    assert kick_off.headers["prefer"] == "respond-async"
    assert kick_off.headers["accept"] == "application/fhir+json"
    assert poll.headers["accept"] == "application/json"
    assert server.lines == [f"GET {EXPORT}", *["GET /job"] * 5, *FILES, "DELETE /job"]
    # HTTP dates have whole seconds, and seven of the twelve are over.
    assert client.waited == [7, pytest.approx(4.5, abs=0.5), 4, 8]
    progress = [message for message in client.said if message.startswith("The server")]
    assert [message.partition(": ")[2] for message in progress] == ["10%", "90%", ""]
    assert f"{server.url}/job" in client.said[0]
    assert f"1 of 2: {len(PATIENTS)} bytes of Patient" in client.said[-2]
    mode = {path.name: path.stat().st_mode & 0o777 for path in client.folder.rglob("*.*")}
    names = ["state.json", "00001.Patient.ndjson", "00002.AllergyIntolerance.ndjson"]
    assert mode == dict.fromkeys(names, 0o600)


def test_deleted_and_error_files_are_fetched(server, client):
    bundle, fault = b'{"resourceType":"Bundle"}\n', b'{"resourceType":"OperationOutcome"}\n'
    server.answers["/d"], server.answers["/e"] = [file(bundle)], [file(fault)]
    deleted = [{"type": "Bundle", "url": "d"}]
    error = [{"type": "OperationOutcome", "url": f"{server.url}/e"}]
    server.answers["/job"] = [server.manifest("Patient", deleted=deleted, error=error)]
    found = client.download(server.url + EXPORT)
    assert contents([*found.deleted, *found.error]) == [bundle, fault]
    folders = [path.parent.name for path in (*found.output, *found.deleted, *found.error)]
    assert folders == ["output", "deleted", "error"]


def test_status_address_is_polled_and_its_export_not_deleted(server, client):
    server.answers["/job"].insert(0, exporting("Retry-After: 3"))
    found = client.download(f"{server.url}/job")
    assert contents(found.output) == [PATIENTS, ALLERGIES]
    assert (found.base, client.waited) == (f"{server.url}/fhir", [3])
    assert server.lines == ["GET /job", "GET /job", *FILES]


def test_manifest_in_pages_is_read_to_its_end(server, client):
    following = [{"relation": "next", "url": "/page2"}]
    server.answers["/job"] = [server.manifest("Patient", link=following)]
    server.answers["/page2"] = [server.manifest("AllergyIntolerance")]
    assert contents(client.download(server.url + EXPORT).output) == [PATIENTS, ALLERGIES]


# Second runs.


def test_second_run_fetches_missing_files_and_a_third_requests_nothing(server, client, refusal):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    message = refusal(server.url + EXPORT)
    assert message.endswith("/files/AllergyIntolerance answers 500: The disk is on fire.")
    server.asked.clear()
    found = client.download(server.url + EXPORT)
    assert contents(found.output) == [PATIENTS, ALLERGIES]
    assert server.lines == ["GET /job", FILES[1], "DELETE /job"]
    server.asked.clear()
    assert client.download(server.url + EXPORT) == found
    assert server.asked == []


def test_export_that_expired_between_two_runs_is_started_again(server, client, refusal):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    refusal(server.url + EXPORT)
    server.asked.clear()
    server.answers["/job"].insert(0, GONE)
    client.said.clear()
    assert contents(client.download(server.url + EXPORT).output) == [PATIENTS, ALLERGIES]
    assert "started again" in client.said[0]
    # All of it, so that all is of one time.
    assert server.lines == ["GET /job", f"GET {EXPORT}", "GET /job", *FILES, "DELETE /job"]


def test_export_that_expires_during_a_run_is_started_again_once(server, client, refusal):
    server.answers["/files/AllergyIntolerance"].insert(0, reply("410 Gone"))
    server.answers["/job"][1:] = [GONE, server.answers["/job"][0]]
    assert len(client.download(server.url + EXPORT).output) == 2
    assert server.lines.count(f"GET {EXPORT}") == 2
    server.answers["/job"] = [GONE]
    assert "answers 404: There is no such job." in refusal(server.url + EXPORT)
    assert server.lines.count(f"GET {EXPORT}") == 4
    # The export of another client is not started again.
    assert "There is no such job." in refusal(f"{server.url}/job")
    assert server.lines.count(f"GET {EXPORT}") == 4


def test_newly_signed_addresses_of_files_are_used(server, client):
    server.answers["/files/AllergyIntolerance"] = [outcome("403 Forbidden", "Expired signature")]
    entries = [
        {"type": "Patient", "url": "/files/Patient"},
        {"type": "AllergyIntolerance", "url": "/files/signed?key=2"},
    ]
    server.answers["/job"].append(server.manifest(output=entries))
    server.answers["/files/signed?key=2"] = [file(ALLERGIES)]
    found = client.download(server.url + EXPORT)
    assert contents(found.output) == [PATIENTS, ALLERGIES]


def test_files_of_another_export_at_the_same_address_are_fetched(server, client, refusal):
    server.answers["/files/AllergyIntolerance"].insert(0, BROKEN)
    refusal(f"{server.url}/job")
    server.answers["/job"] = [server.manifest("Patient", transactionTime="2026-03-01T00:00:00Z")]
    server.answers["/files/Patient"] = [file(lines_of("Patient", 9))]
    found = client.download(f"{server.url}/job")
    assert contents(found.output) == [lines_of("Patient", 9)]
    assert [path.name for path in client.folder.rglob("*.ndjson")] == ["00001.Patient.ndjson"]


# Servers that are busy, absent or talk too much.


def test_busy_server_is_retried_after_the_time_that_it_requests(server, client):
    busy = outcome("429 Too Many Requests", "Slow down.", "Retry-After: 30")
    server.answers[EXPORT].insert(0, busy)
    server.answers["/job"].insert(0, reply("503 Service Unavailable"))
    server.answers["/files/Patient"][:0] = [reply("503 Service Unavailable", b"", "Retry-After: 9")]
    transient = outcome("500 Internal Server Error", "Wait.", code="transient")
    server.answers["/files/AllergyIntolerance"].insert(0, transient)
    assert len(client.download(server.url + EXPORT).output) == 2
    assert client.waited == [30, 1, 9, 1]


def test_server_that_stays_busy_is_given_up(server, client, refusal):
    server.answers[EXPORT] = [outcome("503 Service Unavailable", "Come back later.")]
    message = refusal(server.url + EXPORT)
    assert f"({server.url}{EXPORT} answers 503: Come back later), after 4 attempts" in message
    assert client.waited == [1, 2, 4]


def test_absent_server_is_reported(refusal):
    with running() as other:
        address = other.url + EXPORT
    assert "Connection refused" in refusal(address)


NO_ADDRESS = "is not an http:// or https:// address"
ENDLESS_LENGTH = reply("200 OK").replace(b"Content-Length: 0", b"Content-Length: 10000000000")
MANIFESTS = [
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
    ({"output": [{"url": "ftp://h/x"}]}, f"ftp://h/x {NO_ADDRESS}"),
    ({"output": [{"url": "file:///etc/passwd"}]}, NO_ADDRESS),
    ({"output": [{"url": "http://u:p@h/x"}]}, "must not hold a user name"),
    ({"output": [{"url": "http://h\r\nX: y/"}]}, NO_ADDRESS),
    ({"output": [{"url": "http://[/x"}]}, NO_ADDRESS),
    ({"output": [{"url": "http://h:99999/x"}]}, NO_ADDRESS),
    ({"output": [], "link": [{"relation": "next"}]}, "its next page has no url"),
    ({"output": [], "link": [{"relation": "next", "url": "/job"}]}, "more than 20 pages"),
]
ANSWERS = [
    *(("/job", ok(content), reason) for content, reason in MANIFESTS),
    ("/job", exporting("Retry-After: 259200"), "asks to come back in 72 hours"),
    ("/job", reply("302 Found", b"", "Location: /job"), "redirected again and again"),
    ("/job", cut(ok({"output": []}), 5), "the connection was lost"),
    ("/job", ok({"output": []}, "Content-Encoding: gzip"), "the answer is damaged"),
    ("/job", ENDLESS_LENGTH, "answers with more than 65536 bytes"),
    ("/job", Dripping(b"HTTP/1.1 200 OK\r\n\r\n{", b"x" * 4096), "more than 65536 bytes"),
    ("/job", Dripping(b"HTTP/1.1 200 OK\r\n\r\n{", b" "), "it takes too long"),
    (EXPORT, ok({}), "answers 200, and not 202"),
    (EXPORT, reply("202 Accepted"), "does not say where its progress can be read"),
    (EXPORT, accepted("ftp://h/"), NO_ADDRESS),
    (EXPORT, reply("302 Found", b"", f"Location: {EXPORT}"), "redirected again and again"),
    (EXPORT, reply("302 Found", b"", "Location: gopher://h/"), "is not an http://"),
    (EXPORT, reply("401 Unauthorized"), "a client that it knows (--client-id and --key)"),
    (EXPORT, b"HTTP/1.1 what\r\n\r\n", "the connection was lost"),
    (EXPORT, b"", "the connection was lost"),
    (EXPORT, Dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x"), "it takes too long"),
    ("/files/Patient", outcome("403 Forbidden", "Not for you."), "answers 403: Not for you."),
]


# Some of the answers each, so that no test takes long.
@pytest.mark.parametrize("answers", [ANSWERS[part::5] for part in range(5)], ids=range(5))
def test_unusable_answer_is_refused_in_one_sentence(server, client, refusal, monkeypatch, answers):
    monkeypatch.setattr("fhirapp.features.pull.download._MOST_PAGES", 20)
    messages = []
    for path, answer, _ in answers:
        client.bounds = IMPATIENT if isinstance(answer, Dripping) else Client.bounds
        server.offer(Patient=file(PATIENTS))
        server.answers[path] = [answer]
        messages.append(refusal(server.url + EXPORT))
    wrong = [
        (answer, message)
        for answer, message in zip(answers, messages, strict=True)
        if answer[2] not in message
    ]
    assert wrong == []


def test_invalid_address_is_refused_before_a_folder_is_created(client, refusal):
    for address in (
        "ftp://h/$export",
        "h/fhir/$export",
        "http:///$export",
        "http://h/ü/$export",
        "",
    ):
        assert NO_ADDRESS in refusal(address), address
    assert not client.folder.exists()


# What requests would do by itself.


def test_proxy_of_the_environment_is_used(server, client, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    # The files are there.
    monkeypatch.setenv("no_proxy", "localhost")
    base = "http://ehr.example"
    server.answers |= {f"{base}{path}": told for path, told in server.answers.items()}
    assert contents(client.download(base + EXPORT).output) == [PATIENTS, ALLERGIES]
    assert server.lines == [
        *(f"GET {base}{path}" for path in (EXPORT, "/job")),
        *FILES,
        f"DELETE {base}/job",
    ]


def test_neither_passwords_of_netrc_nor_cookies_are_sent(server, client, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine localhost login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.answers[EXPORT] = [accepted("/job", "Set-Cookie: session=1")]
    client.download(server.url + EXPORT)
    sent = {name for asked in server.asked for name in asked.headers}
    assert sent.isdisjoint({"authorization", "cookie"})


# The folder of a download.


def test_folder_holds_one_download(server, client, refusal):
    client.download(server.url + EXPORT)
    message = refusal(f"{server.url}/job", again=True)
    assert f"holds a download of {server.url}{EXPORT}" in message


def test_folder_of_another_running_download_is_left_alone(server, client, refusal):
    def meanwhile(_asked):
        assert "Another run downloads into" in refusal(server.url + EXPORT, again=True)
        return file(PATIENTS)

    server.answers["/files/Patient"] = [meanwhile]
    assert len(client.download(server.url + EXPORT).output) == 2
    assert server.lines.count(f"GET {EXPORT}") == 1


def test_fields_of_another_version_in_the_state_are_ignored(server, client):
    found = client.download(server.url + EXPORT)
    path = client.folder / "state.json"
    state = json.loads(path.read_bytes())
    for stored in state["files"]:
        stored |= {"name": "../../x", "length": 7, "validator": '"v1"', "is_framed": False}
    state |= {"base": "https://h/fhir"}
    path.write_text(json.dumps(state))
    server.asked.clear()
    assert client.download(server.url + EXPORT) == found
    assert server.asked == []


def test_damaged_state_is_reported(server, client, refusal):
    client.download(server.url + EXPORT)
    path = client.folder / "state.json"
    state = json.loads(path.read_bytes())
    for damaged in (
        b"{",
        b"[]",
        json.dumps({**state, "version": 2}).encode(),
        json.dumps({**state, "files": [{}]}).encode(),
    ):
        path.write_bytes(damaged)
        message = refusal(server.url + EXPORT, again=True)
        assert "delete the folder, and the download starts again" in message, damaged
