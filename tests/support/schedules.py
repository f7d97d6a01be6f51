"""Schedules of an app: added, run until their jobs have ended, and the folders that they watch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from flask import Flask

from fhirapp.jobs import schedules
from fhirapp.jobs.schedules import Schedule
from fhirapp.server import scheduler
from fhirapp.server.scheduler import run_due
from tests.support.contract import versions_held
from tests.support.jobs import wait_for

HOUR = 3_600


# When all files that a test writes have been quiet for long.
START = int(time.time()) + 24 * HOUR


def add(app: Flask, kind: str, *, at: int = START, **options: Any) -> None:
    """Add the schedule `one`."""
    with app.app_context():
        scheduler.add("one", kind, "hourly", options, at)


def look(app: Flask, now: int = START + HOUR) -> Schedule:
    """Look for what is due as the worker does, wait for it, look again; return the schedule."""
    with app.app_context():
        while run_due(now):
            pass
        job_id = schedules.find("one").job_id
    if job_id is not None:
        wait_for(app, job_id)
    with app.app_context():
        schedules.settle(schedules.find("one"), now)
        return schedules.find("one")


def write(folder: Path, name: str, *resources: Any) -> Path:
    """Write resources to a file of a folder, one a line."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    return path


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def patients(app: Flask) -> set[str]:
    """Return the ids of an app's patients."""
    return set(versions_held(app).get("Patient", {}))
