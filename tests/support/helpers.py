"""A client that speaks FHIR, and the one place that says what an error looks like."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.auth.clients.administration import issue_token
from fhirapp.db import writing

BASE_URL = "https://fhir.example"
FHIR_JSON, FHIR_XML = "application/fhir+json", "application/fhir+xml; charset=utf-8"
# Of all servers of the tests on PostgreSQL.
SECRET = "the-secret-of-the-tests-0123456789"


def shared_secret(database_url: str) -> dict[str, str]:
    """Return the setting that a server on this database needs beside it."""
    return {"secret": SECRET} if database_url.startswith("postgres") else {}


def damage_database(path: Path) -> None:
    """Write over the first page of a table in SQLite's file, as a failing disk may."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'patient'"
        (number,) = connection.execute(query).fetchone()
    with path.open("r+b") as file:
        file.seek((number - 1) * size)
        file.write(b"\xff" * size)


class Fhir:
    """Asks an app under /fhir, with a token."""

    def __init__(self, app: Flask, token: str) -> None:
        self._client = app.test_client()
        self.token = token

    def request(self, method: str, path: str, **options: Any) -> TestResponse:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        root = "" if path.startswith("/") else "/fhir/"
        return self._client.open(f"{root}{path}", method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.request("GET", path, **options)

    def post(self, path: str, form: Any = None, **options: Any) -> TestResponse:
        return self.request("POST", path, data=form, **options)

    def read(self, path: str) -> dict[str, Any]:
        """Return the JSON of an answer that must be a 200."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        content: dict[str, Any] = response.get_json(force=True)
        return content

    def ids(self, path: str) -> list[str]:
        """Return the ids of a search's matches, in order."""
        return ids(self.read(path))


def token_for(app: Flask, scope: str, *, patient: str | None = None, lifetime: int = 3600) -> str:
    """Issue an access token as an operator does with `fhirapp token issue`."""
    with app.app_context(), writing() as connection:
        return issue_token(connection, scope=scope, patient_id=patient, lifetime=lifetime)


def lasting(response: Any) -> dict[str, str]:
    """Return an answer's headers but the one that names the request."""
    return {name: value for name, value in response.headers if name != "X-Request-Id"}


def ids(bundle: dict[str, Any], mode: str = "match") -> list[str]:
    """Return the ids of a Bundle's entries of a mode, in order."""
    return [
        entry["resource"]["id"]
        for entry in bundle.get("entry", ())
        if entry["search"]["mode"] == mode
    ]


def link(bundle: dict[str, Any], relation: str) -> str | None:
    """Return the address of a Bundle's link, without the base address."""
    for one in bundle.get("link", ()):
        if one["relation"] == relation:
            url: str = one["url"]
            assert url.startswith(BASE_URL)
            return url.removeprefix(BASE_URL)
    return None


def every_page(fhir: Fhir, path: str) -> Iterator[dict[str, Any]]:
    """Yield the matches of all pages of a search."""
    following: str | None = path
    while following:
        bundle = fhir.read(following)
        yield from (entry["resource"] for entry in bundle.get("entry", ()))
        following = link(bundle, "next")


# What is refused by Accept, and what `_format` may be.
NEITHER = (
    "The Accept header allows neither FHIR JSON nor FHIR XML; "
    "this server answers application/fhir+json and application/fhir+xml."
)
FORMATS = "application/fhir+json or application/fhir+xml"


def assert_outcome(
    response: TestResponse,
    status: int,
    code: str,
    diagnostics: str,
    parameter: str | None = None,
) -> None:
    """Assert that an answer is this error, and nothing beside it."""
    issue: dict[str, Any] = {"severity": "error", "code": code, "diagnostics": diagnostics}
    if parameter is not None:
        issue["expression"] = [f"http.{parameter}"]
    assert response.status_code == status, response.text
    assert response.content_type == FHIR_JSON
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json(force=True) == {"resourceType": "OperationOutcome", "issue": [issue]}
