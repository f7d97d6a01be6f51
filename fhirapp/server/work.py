"""The program of a job's process: `python -m fhirapp.server.work JOB ATTEMPT`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial

from fhirapp.config import Settings
from fhirapp.core import core_app
from fhirapp.environment import load_settings
from fhirapp.feature import imported
from fhirapp.jobs import process
from fhirapp.jobs.kinds import JobFunction, job_kinds
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.queue import Job
from fhirapp.server import logs
from fhirapp.server.lock import in_use


def main(job_id: str, attempt: str) -> None:
    """Run a job in this process; a passphrase is read from standard input."""
    # Only this user may read records.
    os.umask(0o077)
    if hasattr(os, "sched_setaffinity"):
        # The server's processes are pinned to a core each.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = load_settings()
    logs.configure(settings)
    passphrase = sys.stdin.buffer.read().decode()
    with in_use(settings):
        functions = job_functions(settings, passphrase)
        process.run_job(core_app(settings), job_id, int(attempt), functions)


def job_functions(
    settings: Settings, passphrase: str
) -> Mapping[str, Callable[[Job, Tracker], str]]:
    """Return the function of each kind of job; its code is imported when it is called."""
    return {
        kind: partial(_run, reference, settings, passphrase)
        for kind, reference in job_kinds().items()
    }


def _run(reference: str, settings: Settings, passphrase: str, job: Job, tracker: Tracker) -> str:
    function: JobFunction = imported(reference)
    return function(settings, job, tracker, passphrase)


if __name__ == "__main__":
    main(*sys.argv[1:])
