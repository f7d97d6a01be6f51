"""How tests follow what an administrator begins on a page: a process of its own, to its end."""

from __future__ import annotations

import re
import time

from flask import Flask

from fhirapp.jobs import table
from fhirapp.jobs.table import Job
from fhirapp.ops.jobs import BACKUP, DRILL, EXPORT, FOLDER, IMPORT, PULL, RESTORE
from tests.support.browsing import Page

KINDS = (IMPORT, EXPORT, BACKUP, DRILL, FOLDER, PULL, RESTORE)
_ID = re.compile(r"[0-9a-f]{24}")
_LONGEST_SECONDS = 120


def task_id(page: Page) -> str:
    """Return the id in a page's address."""
    found = _ID.search(page.path)
    assert found, (page.path, page.status, page.words)
    return found[0]


def task(app: Flask, job_id: str) -> Job:
    """Return a job as it is now."""
    with app.app_context():
        job = table.find(job_id, *KINDS)
    assert job is not None
    return job


def wait_for(app: Flask, job_id: str) -> Job:
    """Wait for the end of a job; return it."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while (job := task(app, job_id)).is_under_way:
        assert time.monotonic() < deadline, job
        time.sleep(0.02)
    return job


def newest(app: Flask, kind: str) -> Job:
    """Wait for the newest job of a kind."""
    with app.app_context():
        job_id = table.jobs(kind, limit=1)[0].id
    return wait_for(app, job_id)
