"""Static files: compressed, cached by the digest in their address; and those of other projects."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.web import static_files
from tests import TESTS
from tests.support.browsing import Browser

STATIC = Path(static_files.__file__).parent / "static"
NODE = TESTS / "node"
STYLE = "/static/style.css"
CONTENT = (STATIC / "style.css").read_bytes()
GZIP = {"Accept-Encoding": "gzip, deflate, br, zstd"}
CODINGS: tuple[dict[str, str], ...] = ({}, GZIP)
IMMUTABLE = "public, max-age=31536000, immutable"


@pytest.fixture
def address(app: Flask) -> str:
    """The address of the style sheet on pages."""
    found = re.search(r'href="(/static/style\.css\?v=[^"]+)"', Browser(app).get("/").response.text)
    assert found
    return found[1]


def get(app: Flask, path: str, method: str = "GET", **headers: str) -> TestResponse:
    """Request a path; headers are named with _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return app.test_client().open(path, method=method, headers=named, buffered=True)


def test_file_is_compressed_for_clients_that_accept_gzip(app, address):
    accepted = {
        **dict.fromkeys(("gzip, deflate, br, zstd", "GZIP", "*", "gzip;q=0.1"), True),
        "identity;q=0.5, gzip": True,
        **dict.fromkeys(("", "br", "identity", "gzip;q=0", "gzip;q=0, *"), False),
        "gzip;q=0.5, identity": False,
    }
    for header, is_compressed in accepted.items():
        answer = get(app, address, Accept_Encoding=header)
        assert (answer.status_code, answer.content_type) == (200, "text/css; charset=utf-8")
        coding = answer.headers.get("Content-Encoding")
        assert coding == ("gzip" if is_compressed else None), header
        assert (gzip.decompress(answer.data) if is_compressed else answer.data) == CONTENT
        assert answer.content_length == len(answer.data)
        assert answer.headers["Vary"] == "Accept-Encoding"


def test_file_is_cached_for_good_by_its_digest_alone(app, address):
    for headers in CODINGS:
        assert get(app, address, **headers).headers["Cache-Control"] == IMMUTABLE
    for query in ("", "?v=", "?v=0123456789abcdef", "?w=1"):
        answer = get(app, STYLE + query)
        assert (answer.data, answer.headers["Cache-Control"]) == (CONTENT, "no-cache")
        assert answer.headers.get("Expires") is None


def test_etag_is_of_the_coding(app, address):
    for path in (STYLE, address):
        plain, packed = (get(app, path, **headers) for headers in CODINGS)
        tags = plain.headers["ETag"], packed.headers["ETag"]
        assert tags[0] != tags[1]
        for headers, tag, other in (({}, *tags), (GZIP, *reversed(tags))):
            answer = get(app, path, If_None_Match=tag, **headers)
            assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", tag)
            assert answer.headers["Vary"] == "Accept-Encoding"
            assert answer.headers["Cache-Control"] == plain.headers["Cache-Control"]
            assert get(app, path, If_None_Match=other, **headers).status_code == 200


def test_head_has_the_headers_of_get_and_a_range_is_of_the_coding(app, address):
    for headers in CODINGS:
        whole, head = (get(app, address, method, **headers) for method in ("GET", "HEAD"))
        assert head.data == b""
        for name in ("ETag", "Content-Length", "Content-Encoding", "Vary", "Cache-Control"):
            assert head.headers.get(name) == whole.headers.get(name)
        part = get(app, STYLE, Range="bytes=100-199", **headers)
        assert (part.status_code, part.data) == (206, whole.data[100:200])


def test_other_paths_are_not_found(app):
    paths = ("nothing.css", "", "vendor", "../pages.py", "..%2fpages.py", "%2fetc%2fhosts")
    for path in (*paths, "a%00b", "style.css/x", "x" * 300):
        assert get(app, f"/static/{path}").status_code == 404, path


def test_changed_file_has_another_address(app, monkeypatch, tmp_path):
    monkeypatch.setattr(static_files, "_FOLDER", tmp_path)
    file = tmp_path / "one.css"
    addresses = []
    for time, text in enumerate(("a{}", "b{}"), start=1):
        file.write_text(text)
        os.utime(file, (time, time))
        addresses.append(static_files.static_address("one.css"))
        for headers, unpack in (({}, bytes), (GZIP, gzip.decompress)):
            answer = get(app, addresses[-1], **headers)
            found = unpack(answer.data).decode(), answer.headers["Cache-Control"]
            assert found == (text, IMMUTABLE)
    assert get(app, addresses[0]).headers["Cache-Control"] == "no-cache"


def test_templates_name_files_by_a_function():
    for template in STATIC.parent.rglob("*.html"):
        assert "/static/" not in template.read_text(encoding="utf-8"), template


# Files of other projects.

VENDOR = STATIC / "vendor"
VENDORED = {
    "htmx.min.js": ("htmx.org", "dist/htmx.min.js"),
    "fhir-client.pure.min.js": ("fhirclient", "build/fhir-client.pure.min.js"),
    "swagger-ui/swagger-ui-bundle.js": ("swagger-ui-dist", "swagger-ui-bundle.js"),
    "swagger-ui/swagger-ui.css": ("swagger-ui-dist", "swagger-ui.css"),
}


@pytest.mark.browser
def test_vendored_files_are_those_of_their_npm_packages():
    for file, (package, path) in VENDORED.items():
        published = NODE / "node_modules" / package / path
        assert (VENDOR / file).read_bytes() == published.read_bytes(), file


def test_vendored_files_are_listed_with_version_and_licence():
    readme = (VENDOR / "README.md").read_text(encoding="utf-8")
    versions = json.loads((NODE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for file, (package, _) in VENDORED.items():
        assert f"`{file}`" in readme
        assert f"`{package}` {versions[package]}" in readme
    found = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    licences = {f"licenses/{name}.txt" for name in ("fhirclient", "htmx", "swagger-ui")}
    assert found == {*VENDORED, *licences, "README.md"}
