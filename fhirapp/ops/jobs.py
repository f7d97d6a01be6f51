"""The jobs that pages and schedules begin: imports, exports, backups, drills, restores.

How a job is claimed, watched and stopped is in fhirapp/jobs/; work.py is the process of one.
"""

from __future__ import annotations

from contextlib import closing, suppress

from flask import Flask, current_app

from fhirapp.audit.tables import load
from fhirapp.config import settings_of
from fhirapp.db import Reader, db
from fhirapp.features.backups.prepared import remove_prepared
from fhirapp.features.imports import uploads
from fhirapp.jobs import process, table, worker
from fhirapp.trail.packing import pack

IMPORT, EXPORT, RESTORE = "import", "export", "restore"
BACKUP, DRILL, FOLDER, PULL = "backup", "drill", "folder", "pull"
# All kinds of imports.
IMPORTS = (IMPORT, FOLDER, PULL)
KINDS = (*IMPORTS, EXPORT, BACKUP, DRILL, RESTORE)
# All files of an export in one.
ARCHIVE = "export.zip"
# In seconds: how long what was uploaded is kept, for another try and before it is imported.
DAY = 86_400
# So many jobs of a kind are remembered.
_REMEMBERED = 200


def init_app(app: Flask) -> None:
    """Have the server's worker remove old jobs, and mark those whose process is gone."""
    worker.register(app, sweep)
    worker.register(app, lambda _now: process.keep_left())
    worker.register(app, lambda _now: pack(settings_of(app)))
    if settings_of(app).is_postgresql:
        # So that whoever looks seldom does not wait for all that was written since.
        worker.register(app, lambda _now: load())


def sweep(now: int) -> None:
    """Mark lost jobs; remove what is kept no longer: exports, uploads, old reports."""
    settings = settings_of(current_app)
    with closing(Reader(db.engine)) as snapshot:
        table.interrupt_lost(snapshot, KINDS, now)
    # What cannot be removed now goes later.
    with suppress(OSError):
        process.remove_orphans(now - DAY)
        uploads.remove_old(IMPORT, now - DAY)
        remove_prepared(settings, now)
    for kind in KINDS:
        for place, job in enumerate(table.jobs(kind)):
            if job.is_under_way:
                continue
            since = job.ended_at or job.created_at
            is_expired = kind == EXPORT and since + settings.export_hours * 3_600 < now
            if is_expired or place >= _REMEMBERED:
                process.remove(job)
