"""A clinic and its users; and jobs that a page starts: in this process, in others, or held."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from tests.support.browsing import Browser, add_person
from tests.support.jobs import HeldJobs, do_job
from tests.support.shell import start_job


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, whose users and clients the tests of a module may change."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)


@pytest.fixture
def browser(clinic: Flask, person: str) -> Browser:
    """The browser in which that person is signed in."""
    return Browser(clinic).resume(person)


@pytest.fixture
def admin(clinic: Flask) -> Browser:
    """The browser of an administrator."""
    return Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))


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
