"""`fhirapp patient`: deletion, erasure and merges of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client_commands import done, refusal, shell
from tests.support.importing import ALLERGY, PATIENT, lines


@pytest.fixture
def folder(instance: Path) -> Path:
    """An instance folder with the patients one, who has an allergy, and two."""
    records = instance / "records.ndjson"
    records.write_bytes(lines(PATIENT, {**PATIENT, "id": "two"}, ALLERGY))
    done(instance, "import", str(records), "--no-provenance")
    return instance


def test_record_is_deleted_with_a_reason_in_the_audit_trail(folder):
    for patient, reason, words in (
        ("three", "A letter", "Unknown patient: three."),
        ("one", " ", "Enter a reason"),
    ):
        command = ("patient", "delete", patient, "--reason", reason, "--yes")
        assert words in refusal(folder, *command)
    result = done(folder, "patient", "delete", "Patient/one", "--reason", "A letter", "--yes")
    assert result.stdout.split() == ["AllergyIntolerance", "1", "Patient", "1"]
    assert "one is deleted" in result.stderr
    assert "A letter" in done(folder, "audit", "list", "--patient", "one").stdout


def test_erasure_asks_for_the_id_again(folder):
    command = ("patient", "delete", "one", "--reason", "A letter", "--erase")
    assert shell(folder, *command, stdin=b"two\n", echoes=True).exit_code == 2
    result = shell(folder, *command, stdin=b"one\n", echoes=True)
    assert result.exit_code == 0
    assert "one is erased" in result.stderr


def test_records_are_merged_and_separated(folder):
    result = done(folder, "patient", "merge", "one", "Patient/two", "--reason", "Twice", "--yes")
    assert result.stdout.split() == ["AllergyIntolerance", "1"]
    assert "one is merged into two" in result.stderr
    result = done(folder, "patient", "undo-merge", "Patient/one", "--reason", "Two people")
    assert result.stdout.split() == ["AllergyIntolerance", "1"]
    assert "one is a record of its own again" in result.stderr
