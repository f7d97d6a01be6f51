"""Starts queued jobs, removes old ones, and what features no longer keep.

How a job is claimed, watched and stopped is in fhirapp/jobs/; work.py is the process of one.
"""

from __future__ import annotations

from contextlib import closing, suppress

from flask import Flask

from fhirapp.audit.seals import remove_expired
from fhirapp.db import Reader, db
from fhirapp.feature import features, imported, requeued_kinds
from fhirapp.jobs import process, queue, uploads, worker
from fhirapp.jobs.kinds import job_kinds

# In seconds: how long files without a job are kept, and uploads that nothing was done with.
DAY = 86_400
# So many jobs of a kind are remembered.
_REMEMBERED = 200


def init_app(app: Flask) -> None:
    """Have the server's worker start queued jobs, remove old ones, and mark lost ones."""
    worker.register(app, sweep=sweep, run_next=process.start_queued)
    worker.register(app, sweep=lambda _now: process.keep_left())
    worker.register(app, sweep=lambda _now: remove_expired(app))


def sweep(now: int) -> None:
    """Mark lost jobs, and remove what is kept no longer: old jobs, and what features keep."""
    # The others are begun again, and expire.
    kinds = job_kinds().keys() - requeued_kinds()
    with closing(Reader(db.engine)) as snapshot:
        queue.interrupt_lost(snapshot, [*kinds], now)
    sweeps = [imported(reference) for feature in features() for reference in feature.sweeps]
    for remove in (_remove_orphans, *sweeps):
        # What cannot be removed now goes later.
        with suppress(OSError):
            remove(now)
    for kind in kinds:
        for job in queue.jobs(kind)[_REMEMBERED:]:
            if not job.is_under_way:
                process.remove(job)


def _remove_orphans(now: int) -> None:
    """Remove what no job made or needs: files without a job, and uploads that wait for a day."""
    with suppress(OSError):
        process.remove_orphans(now - DAY)
    uploads.remove_old(now - DAY)
