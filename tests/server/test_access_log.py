"""The access log: who requested what, how it was answered, and nothing of a record."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.auth.protector import VIA_PROXY
from fhirapp.config import settings_of
from fhirapp.db import Reader
from fhirapp.server import access_log
from tests.support.helpers import Fhir, token_for

LATEX = "AllergyIntolerance/al-p1-latex"


@pytest.fixture
def logged(make_app: Callable[..., Flask]) -> Flask:
    """A server that logs into files, as JSON."""
    return make_app(access_log="files", log_format="json")


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / access_log.FOLDER


def records(app: Flask) -> list[dict[str, object]]:
    (file,) = folder_of(app).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_line_has_client_route_and_status_and_nothing_of_a_record(logged):
    fhir = Fhir(logged, token_for(logged, "system/*.rs"))
    read = fhir.get(LATEX)
    fhir.get("AllergyIntolerance?patient=p1&_content=latex")
    fhir.get("nonsense/of-a-patient")
    first, second, third = records(logged)
    assert first["route"] == "/fhir/AllergyIntolerance/<resource_id>"
    assert (first["method"], first["status"], first["bytes"]) == ("GET", 200, len(read.data))
    assert first["client"]
    assert first["address"] == "127.0.0.1"
    assert first["request"] == read.headers["X-Request-Id"]
    assert isinstance(first["ms"], float)
    assert second["route"] == "/fhir/AllergyIntolerance"
    assert third["status"] == 404
    text = next(folder_of(logged).iterdir()).read_text()
    assert not re.search("latex|p1|of-a-patient", text)
    assert fhir.token not in text


def test_requests_refused_early_have_a_line(logged):
    client = logged.test_client()
    client.get("/fhir/AllergyIntolerance?x=" + "y" * 9_000)
    client.get("/sign-in", base_url="https://evil.example")
    assert [record["status"] for record in records(logged)] == [414, 421]
    assert all(record["ms"] is not None for record in records(logged))


def test_lines_are_text_on_standard_output_where_set(make_app, capsys):
    app = make_app(access_log="stdout")
    app.test_client().get("/health/live")
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"\S+T\S+ 127\.0\.0\.1 - GET /health/live 200 \d+ [\d.]+ms [0-9a-f]{16}", line
    )


def test_old_log_files_are_removed_and_other_files_stay(logged):
    folder = folder_of(logged)
    folder.mkdir()
    for name in ("access-2020-01-01.log", "other.txt"):
        (folder / name).touch()
    logged.test_client().get("/health/live")
    today = f"access-{datetime.now(UTC):%Y-%m-%d}.log"
    assert {path.name for path in folder.iterdir()} == {today, "other.txt"}


def test_unwritable_log_refuses_no_request(logged):
    folder_of(logged).write_text("in its way")
    assert logged.test_client().get("/health/live").status_code == 200


def test_no_log_is_written_by_default(make_app, capsys):
    app = make_app()
    app.test_client().get("/health/live")
    assert not folder_of(app).exists()
    assert capsys.readouterr().out == ""


def test_request_id_of_a_named_proxy_alone_is_kept(logged):
    client = logged.test_client()
    for headers, named in (
        ({"X-Request-Id": "proxy-4711.a_b"}, "proxy-4711.a_b"),
        ({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}, "ab" * 16),
        ({"X-Request-Id": "short"}, None),
        ({"X-Request-Id": "with a space in it"}, None),
        ({"X-Request-Id": "x" * 65}, None),
        ({"traceparent": "nonsense"}, None),
    ):
        proxy = {VIA_PROXY: "10.0.0.7"}
        by_proxy = client.get("/health/live", headers=headers, environ_overrides=proxy)
        stranger = client.get("/health/live", headers=headers)
        if named is None:
            assert re.fullmatch("[0-9a-f]{16}", by_proxy.headers["X-Request-Id"])
        else:
            assert by_proxy.headers["X-Request-Id"] == named
        assert re.fullmatch("[0-9a-f]{16}", stranger.headers["X-Request-Id"])


def test_slow_query_is_logged_with_its_plan_and_without_values(logged, monkeypatch, caplog):
    # In fhirapp.db, reader is the function.
    monkeypatch.setattr(sys.modules[Reader.__module__], "SLOW_SECONDS", 0)
    fhir = Fhir(logged, token_for(logged, "system/*.rs"))
    caplog.clear()
    assert fhir.get("AllergyIntolerance?patient=p1").status_code == 200
    told = [
        record.getMessage() for record in caplog.records if "a query took" in record.getMessage()
    ]
    assert any("SELECT" in line and "allergy_intolerance" in line for line in told)
    assert not any(re.search(r"\bp1\b", line) for line in told)
    if "sqlite" in settings_of(logged).database_uri:
        assert any("SEARCH" in line for line in told)
