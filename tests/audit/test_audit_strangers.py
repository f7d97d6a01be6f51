"""The audit trail of strangers: they are noted, and fill no disk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit.write import _Throttled
from tests.support.helpers import Fhir, token_for
from tests.support.trails import raw_lines

SEARCH = "AllergyIntolerance/_search"


@pytest.fixture
def stranger(own_app: Flask) -> Fhir:
    return Fhir(own_app, "nobody's")


def lines(app: Flask) -> list[bytes]:
    return [line.rstrip() for line in raw_lines(app) if b'"event":' not in line]


def noted(app: Flask) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(app)]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"AllergyIntolerance?code={'a' * 8_000}", None),
        ("GET", f"Patient/{'%01' * 2_000}", None),
        ("GET", f"Patient/{'%F0%9F%A9%BA' * 1_900}", None),
        ("GET", f"metadata?x={'a' * 8_000}", None),
        ("GET", f"unknown/{'a' * 60_000}", None),
        ("POST", SEARCH, "\x01" * 3_900),
        ("POST", SEARCH, "\x01" * 2_000_000),
        ("X" * 60_000, "Patient", None),
    ],
    ids=["query", "control", "signs", "public", "too long", "form", "too much", "method"],
)
def test_of_a_request_without_a_known_token_little_is_kept(own_app, stranger, method, path, body):
    stranger.request(method, path, data=body)
    (line,) = lines(own_app)
    assert len(line) < 1_200
    (entry,) = noted(own_app)
    assert len(entry["path"]) <= 200
    assert entry["path"].startswith(f"/fhir/{path[:5]}")
    assert "?" not in entry["path"]
    assert (entry["user"], entry["client"], entry["body"]) == (None, None, "")


def test_of_too_many_requests_one_a_minute_is_noted(own_app, stranger):
    statuses = [stranger.get("Patient/p1").status_code for _ in range(70)]
    assert statuses.count(429) == 10
    assert [one["status"] for one in noted(own_app)] == [401] * 60 + [429]
    # Who is known has theirs meanwhile.
    Fhir(own_app, token_for(own_app, "system/*.rs")).get("Patient/p1")
    assert noted(own_app)[-1]["status"] == 200


def test_how_many_were_left_out_is_counted_of_each_client():
    file = _Throttled()
    told = [file.count(None, float(at)) for at in (100, 101, 159, 160, 161, 300)]
    assert told == [0, None, None, 2, None, 1]
    assert file.count("a", 101.0) == 0


def test_how_many_were_left_out_is_told_with_the_next(own_app, stranger):
    file: _Throttled = own_app.extensions["fhirapp.audit"]
    # Of a minute long ago, by whatever clock.
    for _ in range(8):
        file.count(None, -60.0)
    for _ in range(62):
        stranger.get("Patient/p1")
    assert noted(own_app)[-1]["status"] == 429
    assert noted(own_app)[-1]["body"] == "and 7 more since the last line of this kind"
