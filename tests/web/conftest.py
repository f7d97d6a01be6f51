"""Jobs that a page starts: in the test's own process, in others, or held until a test runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.jobs import HeldJobs, do_job
from tests.support.shell import start_job


@pytest.fixture(scope="module")
def jobs_in_process() -> Iterator[None]:
    """Do each job at once, before the page that started it is answered."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fhirapp.jobs.process._spawn", do_job)
        yield


@pytest.fixture
def job_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do each job in a process of its own, also where the module's jobs run in this one."""
    monkeypatch.setattr("fhirapp.jobs.process._spawn", start_job)


@pytest.fixture
def held_jobs(monkeypatch: pytest.MonkeyPatch) -> HeldJobs:
    """Have jobs wait until run() is called."""
    held = HeldJobs()
    monkeypatch.setattr("fhirapp.jobs.process._spawn", held.hold)
    return held
