"""How tests export: a backend client of their own, its requests, and what they bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import issue_token
from fhirapp.config import settings_of
from fhirapp.db import reader, writing
from fhirapp.definition import Visibility
from tests.support.authorizing import add_backend
from tests.support.contract import SERVED
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir, link
from tests.support.jobs import run_queued

ASYNC = {"Prefer": "respond-async", "Accept": FHIR_JSON}
NDJSON = "application/fhir+ndjson"
# A type, and the id of a resource.
Name = tuple[str, str]


class Exports(Fhir):
    """A backend client that exports."""

    def __init__(self, app: Flask, scope: str = "system/*.rs", client_id: str = "") -> None:
        self.client_id = client_id or add_backend(app, scope).client_id
        with app.app_context(), writing() as connection:
            token = issue_token(connection, scope=scope, client_id=self.client_id)
        super().__init__(app, token)
        self.app = app

    def kick_off(self, path: str = "$export", body: Any = None, **headers: str) -> TestResponse:
        """Ask for an export, by POST where there is a body: JSON."""
        method = "GET" if body is None else "POST"
        sent = {} if body is None else {"data": json.dumps(body), "content_type": FHIR_JSON}
        return self.request(method, path, headers={**ASYNC, **headers}, **sent)

    def started(self, path: str = "$export", body: Any = None, **headers: str) -> str:
        """Return the path of the status of an export that was taken on."""
        response = self.kick_off(path, body, **headers)
        assert response.status_code == 202, response.text
        return path_of(response.headers["Content-Location"])

    def work(self, *, seconds: float = 0, on_page: Callable[[], object] = lambda: None) -> int:
        """Do the exports that wait, as if so many seconds had passed; return how many.

        on_page is called after each page of rows.
        """
        return run_queued(self.app, seconds=seconds, on_progress=on_page)

    def kept(self) -> int:
        """Return how many exports of the client there are."""
        with self.app.app_context():
            asked = "SELECT count(*) FROM job WHERE owner = ?"
            return int(reader().all(asked, (self.client_id,))[0][0])

    def manifest(self, status: str) -> dict[str, Any]:
        """Return the manifest of an export that is done."""
        response = self.get(status)
        assert response.status_code == 200, response.text
        content: dict[str, Any] = response.get_json()
        return content

    def done(self, path: str = "$export", body: Any = None, **headers: str) -> dict[str, Any]:
        """Return the manifest of an export that is asked for and done."""
        status = self.started(path, body, **headers)
        assert self.work()
        return self.manifest(status)

    def lines(self, manifest: Mapping[str, Any], kind: str = "output") -> list[dict[str, Any]]:
        """Return what stands in the files of a kind, which hold what the manifest says."""
        found = []
        for file in manifest[kind]:
            response = self.get(path_of(file["url"]))
            assert (response.status_code, response.content_type) == (200, NDJSON)
            assert response.data.endswith(b"\n")
            resources = [json.loads(line) for line in response.data.splitlines()]
            assert {resource["resourceType"] for resource in resources} == {file["type"]}
            assert len(resources) == file["count"]
            found += resources
        return found

    def exported(self, path: str = "$export", body: Any = None) -> dict[Name, dict[str, Any]]:
        """Return what an export brings, by type and id; nothing twice."""
        resources = self.lines(self.done(path, body))
        found = {(resource["resourceType"], resource["id"]): resource for resource in resources}
        assert len(found) == len(resources)
        return found

    def searched(self, path: str) -> dict[Name, dict[str, Any]]:
        """Return what all pages of a search bring, by type and id."""
        found = {}
        bundle: dict[str, Any] | None = self.read(path)
        while bundle:
            for entry in bundle.get("entry", ()):
                if entry["search"]["mode"] == "match":
                    resource = entry["resource"]
                    found[resource["resourceType"], resource["id"]] = resource
            following = link(bundle, "next")
            bundle = self.read(following) if following else None
        return found


def path_of(address: str) -> str:
    """Return an absolute address of the server's without where it is."""
    assert address.startswith(f"{BASE_URL}/fhir/")
    return urlsplit(address).path


def folder_of(app: Flask, status: str) -> Path:
    """Return the folder of an export, by the path of its status."""
    settings = settings_of(app)
    return Path(settings.files or settings.instance) / "exports" / status.rpartition("/")[2]


# The types that can be exported, and of these those that belong to patients.
EXPORTED = [name for name, one in sorted(SERVED.items()) if one.searchable]
OF_PATIENTS = [
    name
    for name in EXPORTED
    if SERVED[name].compartment or SERVED[name].visibility is Visibility.TARGETS
]
