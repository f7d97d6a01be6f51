"""Verifying a backup: a whole one passes; damage, another key and another schema are reported."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from fhirapp.features.backups.archive import KEYS, InvalidBackup
from fhirapp.features.backups.verification import verify_backup, verify_database_file
from tests.support.backups import inside, run_sql, settings_in, taken
from tests.support.shell import run_command


def test_whole_backup_verifies_and_leaves_nothing(backup, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    verification = verify_backup(settings_in(elsewhere), backup, None)
    assert verification.faults == []
    assert verification.versions > 100
    assert verification.manifest.taken == "2026-01-05T10:15:00.000+00:00"
    assert not [*elsewhere.iterdir()]


def test_second_factor_of_another_key_is_reported(clinic_folder, tmp_path):
    (clinic_folder / KEYS[0]).write_bytes(b"k" * 32)
    verification = verify_backup(
        settings_in(tmp_path / "x"), taken(clinic_folder, tmp_path / "x.backup"), None
    )
    assert [line.partition(" ")[2] for line in verification.faults] == [
        "has a second factor that the backup's key does not open"
    ]


def test_damaged_backup_is_refused_by_the_verification(backup, tmp_path):
    damaged = tmp_path / "damaged.backup"
    damaged.write_bytes(backup.read_bytes()[:-1])
    with pytest.raises(InvalidBackup):
        verify_backup(settings_in(tmp_path / "x"), damaged, None)


def test_backup_of_another_schema_than_its_manifest_says_is_refused(backup, tmp_path):
    folder = tmp_path / "unpacked"
    manifest = replace(inside(backup, folder), schema="0001")
    with pytest.raises(InvalidBackup, match="schema"):
        verify_database_file(settings_in(tmp_path / "x"), backup, folder, manifest)


def test_verification_reports_columns_that_are_no_json_and_a_damaged_index_of_words(
    clinic_folder, tmp_path
):
    latex = "UPDATE allergy_intolerance SET code = '%s' WHERE id = 'al-p1-latex'"
    sulfa = "UPDATE allergy_intolerance SET code = '%s' WHERE id = 'al-p1-sulfa'"
    egg = "UPDATE allergy_intolerance SET code = '%s' WHERE id = 'al-p3-egg'"
    run_sql(
        clinic_folder,
        *(latex % "[7]", sulfa % "{", egg % "7"),
        "DELETE FROM document_reference_words_docsize WHERE id = 1",
    )
    with closing(sqlite3.connect(clinic_folder / "fhirapp.db")) as connection:
        ids = (
            "SELECT pk FROM allergy_intolerance WHERE is_current"
            " AND id IN ('al-p1-sulfa', 'al-p3-egg')"
        )
        sulfa_row, egg_row = (pk for (pk,) in connection.execute(ids))
    backup = taken(clinic_folder, tmp_path / "clinic.backup")
    done = run_command(tmp_path / "x", "backup", "--verify", str(backup))
    assert done.returncode == 2
    assert done.stderr.endswith("failed verification.\n")
    for words in (
        "AllergyIntolerance/al-p1-latex, version 1 cannot be rendered (AttributeError)",
        f"allergy_intolerance: row {sulfa_row} has a column that is not JSON",
        f"allergy_intolerance: row {egg_row} has a column that is not JSON",
        "document_reference: row 1 has no words",
    ):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE document_reference_words_data SET block = x'00'",
            "document_reference_words has words that differ from the records",
        ),
        (
            "UPDATE document_reference_words_data SET block = zeroblob(9) WHERE id > 10",
            "document_reference_words is damaged",
        ),
        # Only FTS5's own check finds this.
        (
            "DELETE FROM document_reference_words_idx WHERE pgno % 4 = 0",
            "document_reference_words is damaged",
        ),
    ],
)
def test_verification_reports_a_damaged_index_of_words(clinic_folder, tmp_path, statement, words):
    run_sql(clinic_folder, statement)
    verification = verify_backup(
        settings_in(tmp_path / "x"), taken(clinic_folder, tmp_path / "x.backup"), None
    )
    assert any(words in fault for fault in verification.faults)
