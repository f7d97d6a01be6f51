"""What the server knew when it started: when that was, and how many processes there would be.

A process of it is bound to one core later on, and could not tell any more how many there are.
"""

from __future__ import annotations

import os
import time

from flask import current_app
from flask.blueprints import BlueprintSetupState

from fhirapp.config import settings

_EXTENSION = "fhirapp.process"


def note_start(state: BlueprintSetupState) -> None:
    """Remember when an app was made, and how many cores it may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    state.app.extensions[_EXTENSION] = int(time.time()), cores or 1


def started_at() -> int:
    """Return since when the server runs, in seconds since 1970."""
    at: int = current_app.extensions[_EXTENSION][0]
    return at


def processes() -> int:
    """Return with how many processes the server was started."""
    cores: int = current_app.extensions[_EXTENSION][1]
    return settings().processes or cores
