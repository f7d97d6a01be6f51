"""Schedules of an app: added, run until their jobs have ended, and the folders that they watch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask

from fhirapp.jobs import schedules
from fhirapp.jobs.schedules import Schedule, ScheduleRuns, run_due
from tests.support.contract import versions_held
from tests.support.jobs import wait_for

HOUR = 3_600


# When all files that a test writes have been quiet for long.
START = int(time.time()) + 24 * HOUR


def add(app: Flask, kind: str, *, at: int = START, **options: Any) -> None:
    """Add the schedule `one`."""
    with app.app_context():
        schedules.add("one", kind, "hourly", options, at)


class Ended(NamedTuple):
    """A schedule and its runs, none of which is under way."""

    schedule: Schedule
    runs: ScheduleRuns

    @property
    def outcome(self) -> str:
        """The outcome of the last run, "idle" if there was nothing to do since."""
        return "idle" if self.runs.is_idle else self.runs.ended[0].outcome

    @property
    def note(self) -> str:
        return self.runs.ended[0].summary

    @property
    def failures(self) -> int:
        return len(self.runs.failures)


def look(app: Flask, now: int = START + HOUR) -> Ended:
    """Look for what is due as the worker does; return the schedule once the run has ended."""
    with app.app_context():
        while run_due(now):
            pass
    current = found(app).runs.current
    if current is not None:
        wait_for(app, current.id)
    return found(app)


def found(app: Flask, name: str = "one") -> Ended:
    """Return a schedule as it is now."""
    with app.app_context():
        schedule = schedules.find(name)
        return Ended(schedule, schedules.runs_of(schedule)[name])


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
