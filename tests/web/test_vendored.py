"""Files of others that we serve: as npm has them, and named with version and licence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fhirapp.web
from tests import TESTS

VENDOR = Path(fhirapp.web.__file__).parent / "static" / "vendor"
NODE = TESTS / "node"
SERVED = {
    "htmx.min.js": ("htmx.org", "dist/htmx.min.js"),
    "fhir-client.pure.min.js": ("fhirclient", "build/fhir-client.pure.min.js"),
    "swagger-ui/swagger-ui-bundle.js": ("swagger-ui-dist", "swagger-ui-bundle.js"),
    "swagger-ui/swagger-ui.css": ("swagger-ui-dist", "swagger-ui.css"),
}


@pytest.mark.parametrize("file", SERVED)
def test_a_file_of_others_is_as_it_was_published(file):
    package, path = SERVED[file]
    published = NODE / "node_modules" / package / path
    if not published.is_file():
        pytest.skip("needs the packages of `npm ci` in tests/node")
    assert (VENDOR / file).read_bytes() == published.read_bytes()


def test_each_is_named_with_its_version_and_licence():
    said = (VENDOR / "README.md").read_text(encoding="utf-8")
    versions = json.loads((NODE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for file, (package, _) in SERVED.items():
        assert f"`{file}`" in said
        assert f"`{package}` {versions[package]}" in said
    assert sorted(path.name for path in (VENDOR / "licenses").iterdir()) == [
        *("fhirclient.txt", "htmx.txt", "swagger-ui.txt")
    ]


def test_nothing_else_lies_there():
    found = {
        path.relative_to(VENDOR).as_posix()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.parent.name != "licenses"
    }
    assert found == {*SERVED, "README.md"}
