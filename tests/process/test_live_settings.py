"""Settings that are changed while servers run reach all their processes."""

from __future__ import annotations

import json
import time

from fhirapp import create_app
from fhirapp.db import db
from fhirapp.environment import load_settings
from fhirapp.server import live_settings
from tests.support.helpers import token_for
from tests.support.serving import WAIT_SECONDS, get, servers


def test_all_processes_of_a_server_apply_a_changed_setting(tmp_path):
    with servers(tmp_path) as run:
        server = run("--demo")
        twin = create_app(load_settings({}, instance_path=str(tmp_path), demo=True))
        token = token_for(twin, "system/*.rs")
        with twin.app_context():
            live_settings.change("page_size", "3", "ann")
        asked = get("/fhir/AllergyIntolerance", f"Authorization: Bearer {token}")
        deadline, in_a_row = time.monotonic() + WAIT_SECONDS, 0
        while in_a_row < 20 and time.monotonic() < deadline:
            size = len(json.loads(server.ask(asked)[1])["entry"])
            in_a_row = in_a_row + 1 if size == 3 else 0
        assert in_a_row == 20
        with twin.app_context():
            db.engine.dispose()
        assert server.end() == 0
