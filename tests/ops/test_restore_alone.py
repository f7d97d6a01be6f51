"""A restore and a server never work on one database at the same time."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.ops.lock import alone, in_use
from tests.ops.test_restore import restored, state
from tests.support.backups import make_clinic, settings_in, taken
from tests.support.serving import servers
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """An instance of the test's own."""
    return make_clinic(tmp_path / "instance")


@pytest.fixture
def backup(clinic: Path, tmp_path: Path) -> Path:
    """A backup of it."""
    return taken(clinic, tmp_path / "clinic.backup")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_nothing_is_restored_while_a_server_runs(clinic, backup, processes):
    with servers(clinic) as run:
        server = run(PROCESSES=processes)
        # Nobody has asked it anything: it has no connection to the database yet.
        done = fhirapp(clinic, "restore", str(backup), "--force")
        assert_not_done(done, "A server runs on the database", "stop that first.")
        # A backup is taken all the while.
        assert fhirapp(clinic, "backup", str(clinic / "x.backup")).returncode == 0
        server.end()
        assert fhirapp(clinic, "restore", str(backup), "--force").returncode == 0


def test_nothing_is_restored_while_an_import_waits_for_its_input(clinic, backup):
    command = [sys.executable, "-c", MAIN, "import", "-"]
    with subprocess.Popen(
        command, env=environment(clinic), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as importing:
        try:
            while not (clinic / "import.lock").exists():
                assert importing.poll() is None
            done = fhirapp(clinic, "restore", "--force", str(backup))
            assert_not_done(done, "or a command uses it")
        finally:
            importing.kill()


def test_nothing_is_restored_under_a_program_that_has_the_database_open(clinic, backup):
    before = state(clinic)
    with closing(sqlite3.connect(clinic / "fhirapp.db")) as other:
        other.execute("SELECT count(*) FROM patient").fetchone()
        with pytest.raises(ConfigurationError, match="is in use by another program; stop that"):
            restored(backup, clinic, force=True)
    assert state(clinic) == before
    restored(backup, clinic, force=True)


def test_no_server_starts_while_a_restore_goes_on(clinic):
    database, settings = clinic / "fhirapp.db", settings_in(clinic)
    with alone(database):
        assert_not_done(fhirapp(clinic, "client", "list"), "is being restored; start again when")
    refused = pytest.raises(ConfigurationError, match="A server runs on the database")
    with in_use(settings), in_use(settings), refused, alone(database):
        raise AssertionError
