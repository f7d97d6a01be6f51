"""The fixture of jobs that run in this process."""

from __future__ import annotations

import pytest

from tests.support.jobs import do_job


@pytest.fixture
def jobs_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do each job in this process when it is started."""
    monkeypatch.setattr("fhirapp.jobs.process._spawn", do_job)
