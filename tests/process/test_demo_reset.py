"""A demo that two processes find due for its reset."""

from __future__ import annotations

from flask import Flask

from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.db import db
from fhirapp.ops.prepare import prepare
from fhirapp.ops.schedules import run_due
from tests.support.racing import together

RESET_WHEN_DUE = """
import sys
from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.ops import schedules
made = []
wanted = schedules.reset
schedules.reset = lambda app, now: made.append(now) or wanted(app, now)
app = create_app(load_settings(demo=True, demo_reset="hourly", instance_path=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with app.app_context():
    schedules.run_due(7200)
print(made)
"""


def look_at(app: Flask, looks: list[float]) -> None:
    """Have the app's worker look for what is due at each of these times."""
    for now in looks:
        with app.app_context():
            while run_due(int(now)):
                pass


def test_one_of_two_processes_resets_the_demo(tmp_path):
    app = create_app(load_settings({}, demo=True, demo_reset="hourly", instance_path=str(tmp_path)))
    prepare(app, lambda _message: None)
    look_at(app, [0])
    with app.app_context():
        db.engine.dispose()
    assert sorted(together(RESET_WHEN_DUE, tmp_path)) == ["[7200]", "[]"]
