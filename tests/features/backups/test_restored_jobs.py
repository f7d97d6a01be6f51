"""The jobs in a restored database: the one that took the backup is done, others are interrupted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fhirapp.db import writing
from fhirapp.features.backups.jobs import BACKUP, VERIFICATION
from fhirapp.features.backups.restore import restore
from fhirapp.features.backups.rotation import FOLDER, backups
from fhirapp.features.health.examine import examine
from fhirapp.fhir.temporal import moment_of
from fhirapp.jobs import queue
from fhirapp.probe import Cost
from tests.support.backups import NOW, app_in, settings_in
from tests.support.databases import POSTGRESQL, SQLITE, DatabaseFactory
from tests.support.helpers import shared_secret
from tests.support.jobs import run_job


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_backup_job_in_its_own_backup_is_done_after_a_restore(
    new_database: DatabaseFactory, tmp_path: Path
):
    url, folder = new_database(), tmp_path / "instance"
    overrides = {"database_url": url, **shared_secret(url)}
    settings = settings_in(folder, **overrides)
    kinds = {queue.new_id(): kind for kind in (BACKUP, BACKUP, VERIFICATION, "bulk-export")}
    own, *others = kinds
    with app_in(folder, **overrides) as app:
        with app.app_context():
            with writing() as connection:
                for job_id, kind in kinds.items():
                    queue.add(connection, job_id, kind, "admin", int(time.time()), runs=True)
            job = queue.find(own, BACKUP)
            assert job is not None
        work = folder / "work" / own
        work.mkdir(parents=True)
        run_job(app, job, work, "")
    (taken,) = backups(settings)
    done = restore(settings, folder / FOLDER / taken.name, NOW, None, force=True)
    with app_in(folder, **overrides) as app, app.app_context():
        states = {job.id: job.state for job in queue.jobs()}
        # The export is claimed again.
        ended = [queue.DONE, queue.INTERRUPTED, queue.INTERRUPTED, queue.RUNNING]
        assert states == dict(zip((own, *others), ended, strict=True))
        job = queue.find(own, BACKUP)
        assert job is not None
        assert job.ended_at == int(moment_of(done.manifest.taken).timestamp())
        failed = [finding.values["kind"] for finding in examine(Cost.FAST).findings["Jobs"]]
        assert sorted(map(str, failed)) == [BACKUP, VERIFICATION]
