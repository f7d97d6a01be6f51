"""How tests follow what an administrator begins on a page: a process of its own, to its end."""

from __future__ import annotations

import fcntl
import os
import re

from flask import Flask

from fhirapp.config import settings_of
from fhirapp.jobs import files
from fhirapp.jobs.files import HELD, Task
from tests.support.browsing import Page

_TASK = re.compile(r"[0-9a-f]{24}")


def task_id(page: Page) -> str:
    """Return the id in a page's address."""
    found = _TASK.search(page.path)
    assert found, (page.path, page.status, page.words)
    return found[0]


def task(app: Flask, name: str) -> Task:
    """Return a task as it is now."""
    found = files.find(settings_of(app).instance, name)
    assert found is not None
    return found


def wait_for(app: Flask, name: str) -> Task:
    """Wait for the end of a task's process; return the task."""
    path = files.tasks_folder(settings_of(app).instance) / name / HELD
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    return task(app, name)


def newest(app: Flask, kind: str) -> Task:
    """Wait for the newest task of a kind."""
    return wait_for(app, files.every(settings_of(app).instance, kind)[0].id)
