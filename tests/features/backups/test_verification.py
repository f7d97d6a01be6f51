"""Verifying a backup: a whole one passes, and each difference from the columns is reported."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.config import settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.backups.archive import KEYS, InvalidBackup
from fhirapp.features.backups.verification import (
    read_everything,
    verify_backup,
    verify_database_file,
)
from fhirapp.server.check import Faults
from fhirapp.store.write import Rendering
from tests.support.backups import inside, run_sql, settings_in, taken
from tests.support.shell import run_command


def faults(app: Flask) -> list[str]:
    found = Faults()
    with app.app_context():
        read_everything(found, db.engine, types(), Rendering.of(settings_of(app)))
    return found.lines()


@pytest.mark.campaign
def test_imported_records_have_no_differences(synthea_loaded):
    assert faults(synthea_loaded[0]) == []


def test_whole_backup_verifies_and_leaves_nothing(backup, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    verification = verify_backup(settings_in(elsewhere), backup, None)
    assert verification.faults == []
    assert verification.versions > 100
    assert verification.manifest.taken == "2026-01-05T10:15:00.000+00:00"
    assert not [*elsewhere.iterdir()]


DAMAGE = {
    "a column": (
        "UPDATE allergy_intolerance SET criticality = 'unable-to-assess' WHERE id = 'al-p1-latex'",
        "AllergyIntolerance/al-p1-latex, version 1 has another body than its columns make",
    ),
    "a column that the body leaves out": (
        "UPDATE document_reference SET meta = '{\"tag\":[]}' WHERE id = 'doc-p1-consult-2025'",
        "DocumentReference/doc-p1-consult-2025, version 1 has another digest",
    ),
    "a body": (
        (
            "UPDATE allergy_intolerance SET body = (SELECT o.body FROM allergy_intolerance o"
            " WHERE o.id = 'al-p1-sulfa' AND o.is_current) WHERE id = 'al-p3-egg'"
        ),
        "AllergyIntolerance/al-p3-egg, version 1 has another body than its columns make",
    ),
    "a digest": (
        "UPDATE allergy_intolerance SET digest = NULL WHERE id = 'al-p1-penicillin'",
        "AllergyIntolerance/al-p1-penicillin, version 1 has another digest than its columns make",
    ),
    "a hash": (
        "UPDATE \"binary\" SET hash = 'x' WHERE id = 'bin-p1-discharge-2024-v3'",
        "Binary/bin-p1-discharge-2024-v3, version 1 has bytes of another hash",
    ),
}


@pytest.mark.campaign
def test_differences_from_the_columns_are_reported(own_app):
    """Each damage is of another record: all are made in one database."""
    with own_app.app_context(), writing() as connection:
        for statement, _ in DAMAGE.values():
            connection.execute(text(statement))
        ids = "SELECT pk FROM allergy_intolerance WHERE id IN ('al-p3-milk', 'al-p1-ragweed')"
        milk, ragweed = sorted(connection.execute(text(ids)).scalars())
        for statement in (
            f"DELETE FROM allergy_intolerance_token WHERE param = 'code' AND pk = {milk}",
            (
                "INSERT INTO allergy_intolerance_token (pk, param, code, system)"
                f" VALUES ({ragweed}, 'code', 'x', '')"
            ),
        ):
            connection.execute(text(statement))
    found = faults(own_app)
    for pk in (milk, ragweed):
        words = f"allergy_intolerance_token: row {pk} has other index rows than its columns make"
        assert words in found
    assert [name for name, (_, words) in DAMAGE.items() if not any(words in x for x in found)] == []


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
    assert done.stderr.endswith("is not whole.\n")
    for words in (
        "AllergyIntolerance/al-p1-latex, version 1 (AttributeError) cannot be rendered",
        f"allergy_intolerance: row {sulfa_row} has a column that is no JSON",
        f"allergy_intolerance: row {egg_row} has a column that is no JSON",
        "document_reference: row 1 has no words",
    ):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE document_reference_words_data SET block = x'00'",
            "document_reference_words has other words than the records",
        ),
        (
            "UPDATE document_reference_words_data SET block = zeroblob(9) WHERE id > 10",
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
