"""Processes that append to the audit trail at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flask import Flask

from fhirapp.config import settings_of
from fhirapp.keys import key_of
from fhirapp.trail import FOLDER, public_key, trail_of
from fhirapp.trail.verify import Verified, verify
from tests.support.trails import IN_FILES

READ = "AllergyIntolerance/al-p1-penicillin"


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / FOLDER


def verified(app: Flask, *heads: dict[str, Any], kept: bool = False) -> Verified:
    return verify(folder_of(app), {public_key(key_of(app))}, heads, kept=kept)


@IN_FILES
def test_concurrent_processes_append_to_one_chain(watched, own_app):
    watched.get(READ)
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            with own_app.app_context():
                for count in range(50):
                    trail_of(own_app).append({"at": "2026-01-01", "event": "x", "what": str(count)})
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    watched.get(READ)
    found = verified(own_app)
    assert found.fault == ""
    assert found.lines - found.heads == 203
