"""Fixtures of the tests of operations: jobs that run in this process, and a watched folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.jobs import do_job


@pytest.fixture
def jobs_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do each job in this process when it is started."""
    monkeypatch.setattr("fhirapp.jobs.process._spawn", do_job)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder that can be watched."""
    folder = tmp_path / "inbox"
    for own in ("done", "failed"):
        (folder / own).mkdir(parents=True)
    return folder
