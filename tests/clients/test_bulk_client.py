"""SMART's bulk-data-client, step by step, against a demo that runs in two processes.

The client itself is in no registry of packages. What it sends, and what it expects, stands in its
src/lib/BulkDataClient.ts: a signed assertion for a token that is renewed before it expires; a
kick-off that `Prefer`s respond-async; polls with Accept application/json, by X-Progress and
Retry-After; downloads in parallel, each line parsed and its type and the file's count checked; the
attachments of documents; a DELETE at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import import_key

from fhirapp.features.demo.accounts import BACKEND
from tests.support import live
from tests.support.bulk import EXPORTED
from tests.support.live import Demo
from tests.support.serving import WAIT_SECONDS

PARALLEL = 5
POLL_SECONDS = 0.1
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Answer:
    """An answer, read whole."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class BulkDataClient:
    """The client's steps, in its order and with its headers."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._token = ""

    def ask(self, method: str, url: str, body: str = "", **headers: str) -> Answer:
        """Send a request, with a token, to an address as the server gave it."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        with closing(HTTPConnection(host, port, timeout=WAIT_SECONDS)) as connection:
            connection.request(method, path, body or None, sent)
            return Answer(connection.getresponse())

    def authorize(self) -> None:
        """Get a token for a signed assertion, where it says that it is to be had."""
        found = self.ask("GET", f"{self._demo.fhir}/.well-known/smart-configuration").json
        url = found["token_endpoint"]
        key = import_key(self._demo.key)
        claims = {"iss": BACKEND, "sub": BACKEND, "aud": url, "jti": uuid4().hex}
        claims["exp"] = int(time.time()) + 240
        algorithm = self._demo.key["alg"]
        header = {"alg": algorithm, "kid": self._demo.key["kid"]}
        form = {
            "scope": "system/*.read",
            "grant_type": "client_credentials",
            "client_assertion_type": _JWT_BEARER,
            "client_assertion": jwt.encode(header, claims, key, algorithms=[algorithm]),
        }
        kind = "application/x-www-form-urlencoded"
        answer = self.ask("POST", url, urlencode(form), Content_Type=kind)
        assert answer.status == 200, answer.body
        self._token = answer.json["access_token"]
        assert answer.json["expires_in"] > 0

    def kick_off(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """Return the address of the status."""
        statement = self.ask("GET", f"{self._demo.fhir}/metadata").json
        assert statement["resourceType"] == "CapabilityStatement"
        headers = {"Accept": "application/fhir+json", "Prefer": "respond-async"}
        method, text = ("GET", "") if body is None else ("POST", json.dumps(body))
        if body is not None:
            headers["Content_Type"] = "application/json"
        answer = self.ask(method, f"{self._demo.fhir}/{path}", text, **headers)
        assert answer.status == 202, answer.body
        found = answer.headers["Content-Location"]
        assert found.startswith(f"{self._demo.fhir}/")
        return found

    def wait_for_export(self, url: str) -> dict[str, Any]:
        """Poll until there is a manifest, and return it."""
        while True:
            answer = self.ask("GET", url, Accept="application/json")
            if answer.status == 200:
                manifest: dict[str, Any] = answer.json
                assert manifest["output"]
                return manifest
            assert answer.status == 202, answer.body
            assert 0 <= int(answer.headers["X-Progress"].partition("%")[0]) <= 100
            # It waits for a tenth of what it is asked to, and for a second at the least.
            assert int(answer.headers["Retry-After"]) > 0
            time.sleep(POLL_SECONDS)

    def download(self, manifest: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
        """Return what all files hold, by type, fetched in parallel."""
        files = [(file, "output") for file in manifest["output"]]
        files += [(file, kind) for kind in ("deleted", "error") for file in manifest[kind]]
        with ThreadPoolExecutor(PARALLEL) as pool:
            fetched = list(pool.map(lambda one: list(self._resources(one[0])), files))
        found: dict[str, list[dict[str, Any]]] = {}
        for (file, kind), resources in zip(files, fetched, strict=True):
            if kind == "output":
                assert len(resources) == file["count"]
            found.setdefault(file["type"], []).extend(resources)
        return found

    def _resources(self, file: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        answer = self.ask("GET", file["url"], Accept_Encoding="gzip, deflate, br")
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/fhir+ndjson"
        for line in answer.body.splitlines():
            resource = json.loads(line)
            assert resource["resourceType"] == file["type"]
            yield resource


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo in two processes: whichever answers, one of them works."""
    with live.run(tmp_path_factory.mktemp("bulk"), PROCESSES="2") as running:
        yield running


@pytest.fixture
def client(demo: Demo) -> BulkDataClient:
    client = BulkDataClient(demo)
    client.authorize()
    return client


def group(*patients: str) -> dict[str, Any]:
    """Return what names patients."""
    listed = [{"name": "patient", "valueReference": {"reference": patient}} for patient in patients]
    return {"resourceType": "Parameters", "parameter": listed}


def test_bulk_client_downloads_everything_and_deletes_it(demo, client):
    status = client.kick_off("$export")
    manifest = client.wait_for_export(status)
    assert manifest["requiresAccessToken"] is True
    found = client.download(manifest)
    assert sorted(found) == EXPORTED
    for name, resources in found.items():
        newest = {row_id: versions[-1] for row_id, versions in demo.held[name].items()}
        if name != "Provenance":
            held = {row_id for row_id, one in newest.items() if one}
            assert {resource["id"] for resource in resources} == held
    attachments = [
        content["attachment"]["url"]
        for document in found["DocumentReference"]
        for content in document.get("content", ())
    ]
    assert {client.ask("GET", url).status for url in attachments} == {200}
    assert client.ask("DELETE", status).status == 202
    for url in (status, manifest["output"][0]["url"]):
        gone = client.ask("GET", url, Accept="application/json")
        assert gone.status == 404
        assert gone.json["resourceType"] == "OperationOutcome"


@pytest.mark.parametrize(
    ("path", "body", "patients"),
    [
        ("Patient/$export?_type=Patient", None, 14),
        ("Patient/$export?_type=Patient&_outputFormat=application/ndjson", None, 14),
        ("Group/grp-allergy-clinic/$export?_type=Patient,Provenance", None, 3),
        ("Group/grp-allergy-clinic/$export", group("Patient/p1", "Patient/p2"), 2),
    ],
)
def test_bulk_client_downloads_patients_and_groups(client, path, body, patients):
    status = client.kick_off(path, body)
    found = client.download(client.wait_for_export(status))
    assert len(found["Patient"]) == patients
    assert client.ask("DELETE", status).status == 202


def test_bulk_client_downloads_deletions(client):
    status = client.kick_off("$export?_since=2020-01-01T00:00:00.000Z")
    manifest = client.wait_for_export(status)
    (bundle,) = client.download(manifest)["Bundle"]
    deleted = {entry["request"]["url"] for entry in bundle["entry"]}
    assert "AllergyIntolerance/al-p5-codeine" in deleted
    assert client.ask("DELETE", status).status == 202
