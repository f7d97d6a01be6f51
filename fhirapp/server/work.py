"""What the process of a job does: `python -m fhirapp.server.work JOB ATTEMPT`."""

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
from fhirapp.jobs.kinds import Work, job_kinds
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.queue import Job
from fhirapp.server import logs
from fhirapp.server.lock import in_use


def main(job_id: str, attempt: str) -> None:
    """Do a job in this process, which was started for it; a passphrase comes on standard input."""
    # Records are what only this user may read.
    os.umask(0o077)
    if hasattr(os, "sched_setaffinity"):
        # The server's processes have a core each.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = load_settings()
    logs.configure(settings)
    passphrase = sys.stdin.buffer.read().decode()
    with in_use(settings):
        process.perform(core_app(settings), job_id, int(attempt), works(settings, passphrase))


def works(settings: Settings, passphrase: str) -> Mapping[str, Callable[[Job, Tracker], str]]:
    """Return what does a job of each kind; the code of a kind is imported when it is done."""
    return {
        kind: partial(_do, reference, settings, passphrase)
        for kind, reference in job_kinds().items()
    }


def _do(reference: str, settings: Settings, passphrase: str, job: Job, tracker: Tracker) -> str:
    work: Work = imported(reference)
    return work(settings, job, tracker, passphrase)


if __name__ == "__main__":
    main(*sys.argv[1:])
