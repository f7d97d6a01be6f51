"""Backend services, the client's side: what proves who asks, and where the token goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from fhirapp.exchange.remote.address import RemoteError
from fhirapp.exchange.remote.authorization import Authorization, Credentials, read_key
from fhirapp.exchange.remote.connection import Clock, Wire
from fhirapp.exchange.remote.download import Manifest
from tests.support.bulk_server import (
    BOUNDS,
    EXPORT,
    Asked,
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
def server() -> Iterator[BulkServer]:
    """Another server, which gives tokens t1, t2, … that live 300 seconds."""
    with running() as other:
        other.offer(Patient=file(PATIENTS))
        other.answers[DISCOVERY] = [ok(SECOND)]
        tokens = [ok({"access_token": f"t{number}", "expires_in": 300}) for number in range(1, 9)]
        other.answers["/token"] = [*tokens]
        yield other


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Who fetches."""
    return Client(tmp_path / "folder")


@pytest.fixture
def key(tmp_path: Path) -> Callable[..., Path]:
    """Return a maker of files with a key."""

    def make(algorithm: str = "ES384") -> Path:
        path = tmp_path / f"{algorithm}.json"
        path.write_text(json.dumps(KEYS[algorithm].as_dict(private=True)))
        return path

    return make


@pytest.fixture
def fetch(server: BulkServer, client: Client, key: Callable[..., Path]) -> Callable[..., Manifest]:
    """Return what downloads as the client `clinic`."""

    def run(address: str = EXPORT, **more: Any) -> Manifest:
        return client.download(server.url + address, Credentials("clinic", key(), **more))

    return run


def tokens(server: BulkServer) -> dict[str, str | None]:
    """Return the last Authorization that came with each request."""
    return {one.line: one.headers.get("authorization") for one in server.asked}


def form(asked: Asked) -> dict[str, str]:
    """Return a form that was sent."""
    return {name: value for name, (value,) in parse_qs(asked.body.decode()).items()}


def token_requests(server: BulkServer) -> list[dict[str, str]]:
    """Return the forms with which tokens were asked for."""
    return [form(one) for one in server.asked if one.line == "POST /token"]


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_token_is_asked_for_with_an_assertion_as_smart_has_it(server, client, key, algorithm):
    client.download(server.url + EXPORT, Credentials("clinic", key(algorithm)))
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


def test_the_token_goes_with_every_request_to_the_server(server, fetch):
    fetch()
    assert tokens(server) == {
        f"GET {DISCOVERY}": None,
        "POST /token": None,
        f"GET {EXPORT}": "Bearer t1",
        "GET /job": "Bearer t1",
        "GET /files/Patient": "Bearer t1",
        "DELETE /job": "Bearer t1",
    }


def test_no_token_goes_to_files_that_need_none(server, fetch):
    server.answers["/job"] = [server.manifest("Patient", requiresAccessToken=False)]
    fetch()
    assert tokens(server)["GET /files/Patient"] is None
    assert tokens(server)["DELETE /job"] == "Bearer t1"


@pytest.mark.parametrize(
    ("told", "more", "scope"),
    [
        (SECOND, {}, "system/*.rs"),
        ({"token_endpoint": "/token"}, {}, "system/*.read"),
        (SECOND, {"scope": "system/Patient.rs"}, "system/Patient.rs"),
    ],
)
def test_the_scope_is_what_the_server_knows_or_what_is_given(server, fetch, told, more, scope):
    server.answers[DISCOVERY] = [ok(told)]
    fetch(**more)
    assert token_requests(server)[0]["scope"] == scope


def test_where_tokens_are_got_is_found_from_a_status_address_too(server, fetch):
    server.answers["/fhir/jobs/7/status?x=1"] = server.answers["/job"]
    fetch("/fhir/jobs/7/status?x=1")
    assert server.lines[:4] == [
        "GET /fhir/jobs/7/.well-known/smart-configuration",
        "GET /fhir/jobs/.well-known/smart-configuration",
        f"GET {DISCOVERY}",
        "POST /token",
    ]


def test_a_token_is_renewed_before_it_ends(server, client, fetch):
    server.answers["/job"][:0] = [exporting("Retry-After: 200"), exporting("Retry-After: 100")]
    fetch()
    polls = [one.headers["authorization"] for one in server.asked if one.line == "GET /job"]
    assert polls == ["Bearer t1", "Bearer t1", "Bearer t2"]
    first, second = (one["client_assertion"] for one in token_requests(server))
    assert first != second


def test_a_token_that_is_not_taken_any_more_is_renewed_once(server, fetch):
    server.answers["/files/Patient"].insert(0, reply("401 Unauthorized"))
    assert fetch().output[0].path.read_bytes() == PATIENTS
    assert tokens(server)["GET /files/Patient"] == "Bearer t2"


def test_a_server_that_takes_no_token_is_told(server, fetch):
    server.answers[EXPORT] = [reply("401 Unauthorized")]
    with pytest.raises(RemoteError, match="answers 401"):
        fetch()
    assert server.lines.count(f"GET {EXPORT}") == 2


def test_a_token_never_goes_to_another_server(server, client, key):
    with running() as elsewhere:
        elsewhere.answers["/files/Patient"] = [file(PATIENTS)]
        elsewhere.answers["/job"] = [server.manifest(output=[_entry(elsewhere)])]
        server.answers[EXPORT] = [accepted(f"{elsewhere.url}/job")]
        with pytest.raises(RemoteError, match="which only goes to the server of the export"):
            client.download(server.url + EXPORT, Credentials("clinic", key()))
        assert set(tokens(elsewhere).values()) == {None}
        named = Credentials("clinic", key(), origins=(elsewhere.url,))
        assert len(client.download(server.url + EXPORT, named).output) == 1
        assert tokens(elsewhere)["GET /files/Patient"] == "Bearer t2"


@pytest.mark.parametrize("needs", [False, None])
def test_files_elsewhere_are_fetched_without_a_token(server, client, key, needs):
    with running() as elsewhere:
        elsewhere.answers["/files/Patient"] = [file(PATIENTS)]
        offer = server.manifest(output=[_entry(elsewhere)], requiresAccessToken=needs)
        server.answers["/job"] = [offer]
        found = client.download(server.url + EXPORT, Credentials("clinic", key()))
        assert found.output[0].path.read_bytes() == PATIENTS
        assert tokens(elsewhere) == {"GET /files/Patient": None}


def test_a_redirect_to_another_server_takes_no_token_with_it(server, client, key):
    with running() as elsewhere:
        elsewhere.answers["/bucket"] = [file(PATIENTS)]
        moved = reply("307 Temporary Redirect", b"", f"Location: {elsewhere.url}/bucket")
        server.answers["/files/Patient"] = [moved]
        found = client.download(server.url + EXPORT, Credentials("clinic", key()))
        assert found.output[0].path.read_bytes() == PATIENTS
        assert tokens(server)["GET /files/Patient"] == "Bearer t1"
        assert tokens(elsewhere) == {"GET /bucket": None}


def _entry(elsewhere: BulkServer) -> dict[str, str]:
    return {"type": "Patient", "url": f"{elsewhere.url}/files/Patient"}


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (DISCOVERY, reply("404 Not Found"), "there is no token_endpoint at"),
        (DISCOVERY, ok({}), "there is no token_endpoint at"),
        (DISCOVERY, ok(b"<html>"), "answers with something other than a JSON object"),
        (DISCOVERY, ok({"token_endpoint": "javascript:1"}), "is not an http://"),
        ("/token", ok({}), "answers without one"),
        ("/token", ok({"access_token": "a\r\nX: y"}), "answers without one"),
        ("/token", ok([]), "answers with something other than a JSON object"),
        ("/token", reply("302 Found", b"", "Location: /elsewhere"), "answers 302"),
        (
            "/token",
            reply("400 Bad Request", json.dumps(INVALID).encode()),
            "answers 400: invalid_client No key fits.",
        ),
        ("/token", reply("503 Service Unavailable"), "after 4 attempts"),
    ],
)
def test_a_token_that_is_not_given_is_one_sentence(server, fetch, path, answer, why):
    server.answers[path] = [answer]
    with pytest.raises(RemoteError) as caught:
        fetch()
    assert why in str(caught.value)
    assert f"GET {EXPORT}" not in server.lines


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"-----BEGIN PRIVATE KEY-----", "is not JSON"),
        (b"[]", "must hold one private key"),
        (b"{}", "must hold one private key"),
        (b'{"keys": 5}', "must hold one private key"),
        (KEYS["ES384"].as_dict(private=False), "must hold one private key"),
        (OctKey.generate_key(256).as_dict(private=True), "must hold one private key"),
        ({"keys": [one.as_dict(private=True) for one in KEYS.values()]}, "one private key"),
        (ECKey.generate_key("P-256").as_dict(private=True), "is on P-256"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_key_that_does_not_serve_is_one_sentence(tmp_path, content, why):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(RemoteError, match=why):
        read_key(path)


def test_a_key_without_a_kid_is_known_by_its_thumbprint(tmp_path):
    key = ECKey.generate_key("P-384")
    path = tmp_path / "key"
    path.write_text(json.dumps({"keys": [key.as_dict(private=True)]}))
    assert read_key(path).key.kid == key.thumbprint()


def test_a_token_that_goes_without_encryption_is_told(key):
    said: list[str] = []
    clock = Clock()
    for address in ("http://10.1.2.3/$export", "http://localhost/$export", "https://h/$export"):
        Authorization(
            Wire(BOUNDS, clock), Credentials("clinic", key()), address, clock, said.append
        )
    assert said == [
        "The token for http://10.1.2.3/$export goes over the network without encryption."
    ]


def test_a_server_whose_certificate_nobody_vouches_for_is_refused(client, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    with running(authority.context("localhost")) as secure:
        secure.offer(Patient=file(PATIENTS))
        with pytest.raises(RemoteError, match="SSL_CERT_FILE names a file of authorities"):
            client.download(secure.url + EXPORT)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert client.download(secure.url + EXPORT).output[0].path.read_bytes() == PATIENTS


@pytest.mark.parametrize("place", ["job", "file", "redirect", "token"])
def test_nothing_leads_from_https_to_http(client, key, tmp_path, monkeypatch, place):
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
            client.download(secure.url + EXPORT, Credentials("clinic", key()))
        assert plain.asked == []
