"""Settings that are changed while servers run reach all their processes."""

from __future__ import annotations

import json
import time

import pytest
from flask import Flask

from fhirapp import create_app
from fhirapp.config import load_settings, settings_of
from fhirapp.db import db
from fhirapp.ops import live_settings
from tests.support.databases import POSTGRESQL
from tests.support.helpers import token_for
from tests.support.serving import WAIT_SECONDS, get, servers


def change(empty: Flask, name: str, value: str | None) -> None:
    with empty.app_context():
        live_settings.change(name, value, "ann")


def test_all_processes_of_a_server_apply_a_changed_setting(tmp_path):
    with servers(tmp_path) as run:
        server = run("--demo")
        twin = create_app(load_settings({}, instance_path=str(tmp_path), demo=True))
        token = token_for(twin, "system/*.rs")
        change(twin, "page_size", "3")
        asked = get("/fhir/AllergyIntolerance", f"Authorization: Bearer {token}")
        deadline, in_a_row = time.monotonic() + WAIT_SECONDS, 0
        while in_a_row < 20 and time.monotonic() < deadline:
            size = len(json.loads(server.ask(asked)[1])["entry"])
            in_a_row = in_a_row + 1 if size == 3 else 0
        assert in_a_row == 20
        with twin.app_context():
            db.engine.dispose()
        assert server.end() == 0


@pytest.mark.databases(POSTGRESQL)
def test_another_server_of_the_database_applies_a_changed_setting(empty, tmp_path):
    settings = settings_of(empty)
    token = token_for(empty, "system/*.rs")
    asked = get("/fhir/AllergyIntolerance", f"Authorization: Bearer {token}")
    with servers(tmp_path) as run:
        server = run(DATABASE_URL=settings.database_url, SECRET=settings.secret, PROCESSES="1")
        assert server.ask(asked)[0].status == 200
        change(empty, "require_patient_or_id", "true")
        deadline = time.monotonic() + WAIT_SECONDS
        while (status := server.ask(asked)[0].status) != 400 and time.monotonic() < deadline:
            pass
        assert status == 400
        assert server.end() == 0
