"""The files that pages load: compressed, kept for good by the digest in their address."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from fhirapp.auth.models import CLINICIAN
from fhirapp.web import static_files
from tests.support.browsing import Browser, add_person

FOLDER = Path(static_files.__file__).parent / "static"
STYLE = "/static/style.css"
CONTENT = (FOLDER / "style.css").read_bytes()
GZIP = {"Accept-Encoding": "gzip, deflate, br, zstd"}
KEPT = "public, max-age=31536000, immutable"


@pytest.fixture
def address(app: Flask) -> str:
    """The address of the style, as pages name it."""
    found = re.search(r'href="(/static/style\.css\?v=[^"]+)"', Browser(app).get("/").response.text)
    assert found
    return found[1]


def get(app: Flask, path: str, method: str = "GET", **headers: str) -> TestResponse:
    """Ask for a path; headers' names have _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return app.test_client().open(path, method=method, headers=named, buffered=True)


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        *(("gzip, deflate, br, zstd", True), ("GZIP", True), ("*", True), ("gzip;q=0.1", True)),
        *(("identity;q=0.5, gzip", True), ("", False), ("br", False), ("identity", False)),
        *(("gzip;q=0", False), ("gzip;q=0, *", False), ("gzip;q=0.5, identity", False)),
    ],
)
def test_who_accepts_gzip_gets_it(app, address, accepted, is_compressed):
    answer = get(app, address, Accept_Encoding=accepted)
    assert (answer.status_code, answer.content_type) == (200, "text/css; charset=utf-8")
    assert answer.headers.get("Content-Encoding") == ("gzip" if is_compressed else None)
    assert (gzip.decompress(answer.data) if is_compressed else answer.data) == CONTENT
    assert answer.content_length == len(answer.data)
    assert answer.headers["Vary"] == "Accept-Encoding"


def test_by_the_digest_of_its_content_a_file_is_kept_for_good(app, address):
    for headers in ({}, GZIP):
        assert get(app, address, **headers).headers["Cache-Control"] == KEPT


@pytest.mark.parametrize("query", ["", "?v=", "?v=0123456789abcdef", "?w=1"])
def test_by_any_other_address_it_is_asked_for_again(app, query):
    answer = get(app, STYLE + query)
    assert (answer.data, answer.headers["Cache-Control"]) == (CONTENT, "no-cache")
    assert answer.headers.get("Expires") is None


@pytest.mark.parametrize("path", [STYLE, None], ids=["plain", "with digest"])
def test_who_has_it_is_told_so_by_coding(app, address, path):
    path = path or address
    plain, packed = get(app, path), get(app, path, **GZIP)
    tags = plain.headers["ETag"], packed.headers["ETag"]
    assert tags[0] != tags[1]
    for headers, tag, other in (({}, *tags), (GZIP, *reversed(tags))):
        answer = get(app, path, If_None_Match=tag, **headers)
        assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", tag)
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Cache-Control"] == plain.headers["Cache-Control"]
        assert get(app, path, If_None_Match=other, **headers).status_code == 200


def test_head_tells_what_get_would_send(app, address):
    for headers in ({}, GZIP):
        whole, head = (get(app, address, method, **headers) for method in ("GET", "HEAD"))
        assert head.data == b""
        for name in ("ETag", "Content-Length", "Content-Encoding", "Vary", "Cache-Control"):
            assert head.headers.get(name) == whole.headers.get(name)


def test_a_part_is_of_what_is_sent(app):
    for headers in ({}, GZIP):
        whole = get(app, STYLE, **headers)
        part = get(app, STYLE, Range="bytes=100-199", **headers)
        assert (part.status_code, part.data) == (206, whole.data[100:200])
        assert part.headers["Content-Range"] == f"bytes 100-199/{len(whole.data)}"
        assert part.headers.get("Content-Encoding") == whole.headers.get("Content-Encoding")
        # What was begun in another coding is not continued.
        other = get(app, STYLE, Range="bytes=100-199", If_Range='"other"', **headers)
        assert (other.status_code, other.data) == (200, whole.data)
    assert get(app, STYLE, Range="bytes=999999-").status_code == 416


@pytest.mark.parametrize(
    "path",
    [
        *("nothing.css", "", "vendor", "../pages.py", "..%2fpages.py", "%2fetc%2fhosts", "a%00b"),
        *("style.css/x", "x" * 300),
    ],
)
def test_nothing_else_is_sent(app, path):
    assert get(app, f"/static/{path}").status_code == 404


def test_a_file_that_changes_has_another_address(app, monkeypatch, tmp_path):
    monkeypatch.setattr(static_files, "_FOLDER", tmp_path)
    file = tmp_path / "one.css"
    addresses = []
    for time, text in enumerate(("a{}", "b{}"), start=1):
        file.write_text(text)
        os.utime(file, (time, time))
        addresses.append(static_files.static_address("one.css"))
        for headers, unpack in (({}, bytes), (GZIP, gzip.decompress)):
            answer = get(app, addresses[-1], **headers)
            assert (unpack(answer.data).decode(), answer.headers["Cache-Control"]) == (text, KEPT)
    assert get(app, addresses[0]).headers["Cache-Control"] == "no-cache"


def test_each_file_is_compressed_once(app, address, monkeypatch):
    get(app, address, **GZIP)
    monkeypatch.setattr(static_files.gzip, "compress", lambda *_, **__: pytest.fail("again"))
    assert get(app, address, **GZIP).status_code == 200


def test_the_documentation_of_the_api_is_light_on_the_wire(app):
    page = get(app, "/api-docs").text
    found = re.findall(r'(?:href|src)="(/static/[^"]+)"|data-description="([^"]+)"', page)
    loaded = [file or document for file, document in found]
    assert {"/openapi.json"} < set(loaded)
    weights = {path: len(get(app, path, **GZIP).data) for path in ("/api-docs", *loaded)}
    assert sum(weights.values()) <= 700_000, weights


@pytest.mark.parametrize(
    ("path", "has_htmx"), [("/patients/p1", False), ("/explore", True), ("/api-docs", False)]
)
def test_htmx_comes_with_what_asks_it_for_something(app, path, has_htmx):
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    assert ("htmx.min.js" in browser.get(path).response.text) == has_htmx


def test_every_template_names_files_by_one_function():
    for template in (FOLDER.parent).rglob("*.html"):
        assert "/static/" not in template.read_text(encoding="utf-8"), template
