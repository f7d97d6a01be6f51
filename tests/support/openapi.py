"""The OpenAPI document as a reader of it would hold the server to it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from flask import Flask
from jsonschema import Draft202012Validator
from werkzeug.http import parse_options_header
from werkzeug.test import TestResponse

# Of url_map, as the document names them.
_NAMES = {
    "resource_id": "id",
    "definition_id": "id",
    "version_id": "vid",
    "event_id": "id",
    "export_id": "export",
    "name": "file",
}


class Described:
    """What /openapi.json says, and whether answers are as it says."""

    def __init__(self, app: Flask) -> None:
        self.document: dict[str, Any] = app.test_client().get("/openapi.json").get_json()
        self.paths: dict[str, Any] = self.document["paths"]

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """Every path as what an address matches, those without a variable first."""
        return [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path)
            for path in sorted(self.paths, key=lambda one: one.count("{"))
        ]

    def path_of(self, address: str) -> str | None:
        """Return the path that describes an address, None where none does."""
        address = address.partition("?")[0]
        # As info.description says, a slash after the name of a type changes nothing.
        address = re.sub("^(/(?:fhir|api)/[A-Z][A-Za-z]+)/$", r"\1", address)
        return next((path for found, path in self._patterns if found.fullmatch(address)), None)

    def resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return what a reference refers to."""
        while "$ref" in node:
            *_, kind, name = node["$ref"].split("/")
            node = self.document["components"][kind][name]
        return node

    def parameters(self, path: str, method: str) -> dict[str, dict[str, Any]]:
        """Return the parameters of an operation, by name."""
        listed = map(self.resolved, self.paths[path][method].get("parameters", ()))
        return {one["name"]: one for one in listed}

    def assert_as_described(self, method: str, path: str, response: TestResponse) -> None:
        """Assert that the document tells of an answer's status, headers and content."""
        answers = self.paths[path][method]["responses"]
        told = f"{method} {path}: {response.status_code}"
        assert str(response.status_code) in answers, f"{told} is not described: {response.text}"
        described = self.resolved(answers[str(response.status_code)])
        for name, header in described.get("headers", {}).items():
            assert not header.get("required") or name in response.headers, f"{told} lacks {name}"
        if "content" not in described:
            assert response.data == b"", told
            return
        media = response.content_type
        essence = parse_options_header(media)[0]
        content = described["content"].get(essence, described["content"].get("*/*"))
        assert content is not None, f"{told} is {media}"
        if "schema" in content and response.data:
            self._validator(content["schema"]).validate(response.get_json(force=True))

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        return Draft202012Validator({**schema, "components": self.document["components"]})


def path_of_rule(rule: str) -> str:
    """Return a rule of the app as the document names it: <resource_id> is {id}."""
    return re.sub(r"<(\w+)>", lambda found: f"{{{_NAMES[found[1]]}}}", rule)
