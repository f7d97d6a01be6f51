"""`fhirapp patient`: what its commands ask, print and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fhirapp.cli import cli
from tests.support.client_commands import done, refusal
from tests.support.importing import ALLERGY, PATIENT, lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = tmp_path / "records.ndjson"
    records.write_bytes(lines(PATIENT, ALLERGY))
    done(tmp_path, "import", str(records), "--no-provenance")
    return tmp_path


def test_a_record_is_deleted_and_counted(folder):
    told = done(folder, "patient", "delete", "Patient/one", "--reason", "A letter", "--yes")
    assert told.stdout.split() == ["AllergyIntolerance", "1", "Patient", "1"]
    assert "Patient one is deleted." in told.stderr
    trail = done(folder, "audit", "list", "--patient", "one").stdout
    assert "A letter" in trail


@pytest.mark.parametrize(("typed", "status"), [("two", 2), ("one", 0)])
def test_the_id_is_asked_for_again(folder, typed, status):
    command = ["patient", "delete", "one", "--reason", "A letter", "--erase"]
    runner = CliRunner(env={"FHIRAPP_INSTANCE_PATH": str(folder)})
    answer = runner.invoke(cli, command, input=f"{typed}\n")
    assert answer.exit_code == status
    assert ("Patient one is erased." in answer.stderr) == (status == 0)


def test_records_are_merged_and_separated(folder):
    other = folder / "other.ndjson"
    other.write_bytes(lines({**PATIENT, "id": "two"}))
    done(folder, "import", str(other), "--no-provenance")
    told = done(folder, "patient", "merge", "one", "Patient/two", "--reason", "Twice", "--yes")
    assert told.stdout.split() == ["AllergyIntolerance", "1"]
    assert "Patient one is merged into two." in told.stderr
    told = done(folder, "patient", "undo-merge", "Patient/one", "--reason", "Two people")
    assert told.stdout.split() == ["AllergyIntolerance", "1"]
    assert "Patient one is a record of its own again." in told.stderr


def test_without_a_record_or_a_reason_nothing_is_done(folder):
    assert "Unknown patient: two." in refusal(
        folder, "patient", "delete", "two", "--reason", "A letter", "--yes"
    )
    assert "Enter a reason" in refusal(folder, "patient", "delete", "one", "--reason", " ", "--yes")
