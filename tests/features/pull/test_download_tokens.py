"""SMART backend services as a client: assertions, and the servers that get a token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from fhirapp.features.pull.authorization import AuthorizedServer, Credentials, read_key
from fhirapp.features.pull.download import DownloadManifest
from fhirapp.features.pull.remote import Clock, RemoteError
from tests.support.bulk_server import (
    BOUNDS,
    EXPORT,
    BulkServer,
    Client,
    accepted,
    exporting,
    file,
    lines_of,
    running,
)
from tests.support.key_server import Authority, ok, reply

PATIENTS = lines_of("Patient", 3)
KEYS: dict[str, RSAKey | ECKey] = {
    "RS384": RSAKey.generate_key(2048, {"kid": "rsa"}),
    "ES384": ECKey.generate_key("P-384", {"kid": "ec"}),
}
DISCOVERY = "/fhir/.well-known/smart-configuration"
SECOND = {"token_endpoint": "/token", "capabilities": ["permission-v2"]}
INVALID = {"error": "invalid_client", "error_description": "No key fits."}


@pytest.fixture
def server(server: BulkServer) -> BulkServer:
    """Another server, which issues tokens t1, t2, … that live 300 seconds."""
    server.offer(Patient=file(PATIENTS))
    server.answers[DISCOVERY] = [ok(SECOND)]
    tokens = [ok({"access_token": f"t{number}", "expires_in": 300}) for number in range(1, 9)]
    server.answers["/token"] = [*tokens]
    return server


@pytest.fixture
def credentials(tmp_path: Path) -> Callable[..., Credentials]:
    """Return what creates the credentials of the client `clinic`."""

    def create(algorithm: str = "ES384") -> Credentials:
        path = tmp_path / f"{algorithm}.json"
        path.write_text(json.dumps(KEYS[algorithm].as_dict(private=True)))
        return Credentials("clinic", path)

    return create


@pytest.fixture
def fetch(
    server: BulkServer, client: Client, credentials: Callable[..., Credentials]
) -> Callable[..., DownloadManifest]:
    """Return what downloads with these credentials."""

    def run(address: str = EXPORT, algorithm: str = "ES384") -> DownloadManifest:
        return client.download(server.url + address, credentials(algorithm))

    return run


def tokens(server: BulkServer) -> dict[str, str | None]:
    """Return the last Authorization of each request."""
    return {asked.line: asked.headers.get("authorization") for asked in server.asked}


def token_requests(server: BulkServer) -> list[dict[str, str]]:
    """Return the forms that requested tokens."""
    forms = [parse_qs(asked.body.decode()) for asked in server.asked if asked.path == "/token"]
    return [{name: value for name, (value,) in form.items()} for form in forms]


@pytest.mark.parametrize("algorithm", KEYS)
def test_token_is_requested_with_a_signed_assertion(server, client, fetch, algorithm):
    fetch(algorithm=algorithm)
    (asked,) = token_requests(server)
    assertion = asked.pop("client_assertion")
    assert asked == {
        "grant_type": "client_credentials",
        "scope": "system/*.rs",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    token = jwt.decode(assertion, KEYS[algorithm], algorithms=[algorithm])
    assert token.header == {"alg": algorithm, "typ": "JWT", "kid": KEYS[algorithm].kid}
    told = token.claims
    assert (told["iss"], told["sub"]) == ("clinic", "clinic")
    assert told["aud"] == f"{server.url}/token"
    assert 0 < told["exp"] - client.now <= 300
    assert len(told["jti"]) > 20


def test_token_is_sent_with_every_request_to_the_server(server, fetch):
    fetch()
    assert tokens(server) == {
        f"GET {DISCOVERY}": None,
        "POST /token": None,
        f"GET {EXPORT}": "Bearer t1",
        "GET /job": "Bearer t1",
        "GET /files/Patient": "Bearer t1",
        "DELETE /job": "Bearer t1",
    }


def test_token_is_not_sent_for_files_that_need_none(server, fetch):
    server.answers["/job"] = [server.manifest("Patient", requiresAccessToken=False)]
    fetch()
    assert tokens(server)["GET /files/Patient"] is None
    assert tokens(server)["DELETE /job"] == "Bearer t1"


def test_scope_depends_on_the_capabilities_of_the_server(server, client, fetch):
    for configuration, scope in (
        (SECOND, "system/*.rs"),
        ({"token_endpoint": "/token"}, "system/*.read"),
    ):
        server.answers[DISCOVERY] = [ok(configuration)]
        client.folder = client.folder.with_name(f"{client.folder.name}-")
        fetch()
        assert token_requests(server)[-1]["scope"] == scope


def test_token_endpoint_is_found_from_a_status_address(server, fetch):
    server.answers["/fhir/jobs/7/status?x=1"] = server.answers["/job"]
    fetch("/fhir/jobs/7/status?x=1")
    assert server.lines[:4] == [
        "GET /fhir/jobs/7/.well-known/smart-configuration",
        "GET /fhir/jobs/.well-known/smart-configuration",
        f"GET {DISCOVERY}",
        "POST /token",
    ]


def test_token_is_renewed_before_it_expires(server, fetch):
    server.answers["/job"][:0] = [exporting("Retry-After: 200"), exporting("Retry-After: 100")]
    fetch()
    polls = [asked.headers["authorization"] for asked in server.asked if asked.line == "GET /job"]
    assert polls == ["Bearer t1", "Bearer t1", "Bearer t2"]
    first, second = (form["client_assertion"] for form in token_requests(server))
    assert first != second


def test_refused_token_is_renewed_once(server, fetch):
    server.answers["/files/Patient"].insert(0, reply("401 Unauthorized"))
    assert fetch().output[0].read_bytes() == PATIENTS
    assert tokens(server)["GET /files/Patient"] == "Bearer t2"


def test_server_that_refuses_every_token_is_reported(server, fetch):
    server.answers[EXPORT] = [reply("401 Unauthorized")]
    with pytest.raises(RemoteError, match="answers 401"):
        fetch()
    assert server.lines.count(f"GET {EXPORT}") == 2


def test_token_is_never_sent_to_another_server(server, fetch):
    with running() as elsewhere:
        elsewhere.answers["/files/Patient"] = [file(PATIENTS)]
        elsewhere.answers["/job"] = [server.manifest(output=[_entry(elsewhere)])]
        server.answers[EXPORT] = [accepted(f"{elsewhere.url}/job")]
        with pytest.raises(RemoteError, match="which only goes to the server of the export"):
            fetch()
        assert set(tokens(elsewhere).values()) == {None}
        assert "GET /files/Patient" not in elsewhere.lines


@pytest.mark.parametrize("needs", [False, None])
def test_files_of_another_server_are_fetched_without_a_token(server, needs, fetch):
    with running() as elsewhere:
        elsewhere.answers["/files/Patient"] = [file(PATIENTS)]
        offer = server.manifest(output=[_entry(elsewhere)], requiresAccessToken=needs)
        server.answers["/job"] = [offer]
        found = fetch()
        assert found.output[0].read_bytes() == PATIENTS
        assert tokens(elsewhere) == {"GET /files/Patient": None}


def test_redirect_to_another_server_drops_the_token(server, fetch):
    with running() as elsewhere:
        elsewhere.answers["/bucket"] = [file(PATIENTS)]
        moved = reply("307 Temporary Redirect", b"", f"Location: {elsewhere.url}/bucket")
        server.answers["/files/Patient"] = [moved]
        found = fetch()
        assert found.output[0].read_bytes() == PATIENTS
        assert tokens(server)["GET /files/Patient"] == "Bearer t1"
        assert tokens(elsewhere) == {"GET /bucket": None}


def _entry(elsewhere: BulkServer) -> dict[str, str]:
    return {"type": "Patient", "url": f"{elsewhere.url}/files/Patient"}


NO_KEY = "must hold one private key"
TOKEN_REFUSALS = [
    (DISCOVERY, reply("404 Not Found"), "there is no token_endpoint at"),
    (DISCOVERY, ok({}), "there is no token_endpoint at"),
    (DISCOVERY, ok(b"<html>"), "answers with something other than a JSON object"),
    (DISCOVERY, ok({"token_endpoint": "javascript:1"}), "is not an http://"),
    ("/token", ok({}), "answers without one"),
    ("/token", ok({"access_token": "a\r\nX: y"}), "answers without one"),
    ("/token", ok([]), "answers with something other than a JSON object"),
    ("/token", reply("302 Found", b"", "Location: /elsewhere"), "answers 302"),
    ("/token", reply("400 Bad Request", json.dumps(INVALID).encode()), ": invalid_client No key"),
    ("/token", reply("503 Service Unavailable"), "after 4 attempts"),
]


def test_refused_token_ends_the_download_in_one_sentence(server, credentials, refusal):
    for path, answer, reason in TOKEN_REFUSALS:
        server.answers |= {DISCOVERY: [ok(SECOND)], path: [answer]}
        assert reason in refusal(server.url + EXPORT, credentials())
    assert f"GET {EXPORT}" not in server.lines


def test_unusable_key_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "key"
    with pytest.raises(RemoteError, match="cannot be read: No such file or directory"):
        read_key(path)
    for content, reason in (
        (b"-----BEGIN PRIVATE KEY-----", "is not JSON"),
        (b"[]", NO_KEY),
        (b"{}", NO_KEY),
        (b'{"keys": 5}', NO_KEY),
        (KEYS["ES384"].as_dict(private=False), NO_KEY),
        (OctKey.generate_key(256).as_dict(private=True), NO_KEY),
        ({"keys": [key.as_dict(private=True) for key in KEYS.values()]}, "one private key"),
        (ECKey.generate_key("P-256").as_dict(private=True), "is on P-256"),
    ):
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(RemoteError, match=reason):
            read_key(path)


def test_key_without_kid_is_identified_by_its_thumbprint(tmp_path):
    key = ECKey.generate_key("P-384")
    path = tmp_path / "key"
    path.write_text(json.dumps({"keys": [key.as_dict(private=True)]}))
    assert read_key(path).kid == key.thumbprint()


def test_token_without_encryption_is_reported(credentials):
    said: list[str] = []
    clock = Clock()
    for address in ("http://10.1.2.3/$export", "http://localhost/$export", "https://h/$export"):
        AuthorizedServer(BOUNDS, clock, credentials(), address, said.append)
    assert said == [
        "The token for http://10.1.2.3/$export goes over the network without encryption."
    ]


def test_server_with_an_untrusted_certificate_is_refused(client, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    with running(authority.context("localhost")) as secure:
        secure.offer(Patient=file(PATIENTS))
        with pytest.raises(RemoteError, match="SSL_CERT_FILE names a file of authorities"):
            client.download(secure.url + EXPORT)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert client.download(secure.url + EXPORT).output[0].read_bytes() == PATIENTS


@pytest.mark.parametrize("place", ["job", "file", "redirect", "token"])
def test_https_server_cannot_lead_to_http(client, credentials, tmp_path, monkeypatch, place):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with running(authority.context("localhost")) as secure, running() as plain:
        secure.offer(Patient=file(PATIENTS))
        secure.answers[DISCOVERY] = [ok(SECOND)]
        secure.answers["/token"] = [ok({"access_token": "t"})]
        leading = {
            "job": (EXPORT, accepted(f"{plain.url}/job")),
            "file": ("/job", secure.manifest(output=[_entry(plain)])),
            "redirect": (EXPORT, reply("302 Found", b"", f"Location: {plain.url}/")),
            "token": (DISCOVERY, ok({"token_endpoint": f"{plain.url}/token"})),
        }
        path, answer = leading[place]
        secure.answers[path] = [answer]
        with pytest.raises(RemoteError, match="without the encryption that it has itself"):
            client.download(secure.url + EXPORT, credentials())
        assert plain.asked == []
