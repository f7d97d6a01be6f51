"""The drill: a whole backup passes, and what differs from what its columns make is told."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.config import settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.ops.backups.archive import KEYS, InvalidBackup
from fhirapp.ops.backups.drill import drill, read_everything
from fhirapp.ops.check import Faults
from fhirapp.store.write import Rendering
from tests.support.backups import make_clinic, settings_in, taken
from tests.support.shell import fhirapp


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clinic(tmp_path_factory.mktemp("clinic") / "instance")


def faults(app: Flask) -> list[str]:
    found = Faults()
    with app.app_context():
        read_everything(found, db.engine, types(), Rendering.of(settings_of(app)))
    return found.lines()


def test_the_seed_reads_as_it_was_published(make_app):
    assert faults(make_app()) == []


def test_imported_records_read_as_they_were_published(synthea_loaded):
    assert faults(synthea_loaded[0]) == []


def test_a_backup_passes_and_nothing_is_left(example, tmp_path):
    backup = taken(example, tmp_path / "clinic.backup")
    elsewhere = tmp_path / "elsewhere"
    drilled = drill(settings_in(elsewhere), backup, None)
    assert drilled.faults == []
    assert drilled.versions > 100
    assert drilled.manifest.taken == "2026-01-05T10:15:00.000+00:00"
    assert not [*elsewhere.iterdir()]


LATEX = "WHERE id = 'al-p1-latex'"

DAMAGE = {
    "a column": (
        f"UPDATE allergy_intolerance SET criticality = 'unable-to-assess' {LATEX}",
        "AllergyIntolerance/al-p1-latex, version 1 has another body than its columns make",
    ),
    "a column that the body leaves out": (
        "UPDATE document_reference SET meta = '{\"tag\":[]}' WHERE id = 'doc-p1-consult-2025'",
        "DocumentReference/doc-p1-consult-2025, version 1 has another digest",
    ),
    "a body": (
        (
            "UPDATE allergy_intolerance SET body = (SELECT o.body FROM allergy_intolerance o"
            f" WHERE o.id = 'al-p1-sulfa' AND o.is_current) {LATEX}"
        ),
        "AllergyIntolerance/al-p1-latex, version 1 has another body than its columns make",
    ),
    "a digest": (
        f"UPDATE allergy_intolerance SET digest = NULL {LATEX}",
        "AllergyIntolerance/al-p1-latex, version 1 has another digest than its columns make",
    ),
    "a hash": (
        "UPDATE \"binary\" SET hash = 'x' WHERE id = 'bin-p1-discharge-2024-v3'",
        "Binary/bin-p1-discharge-2024-v3, version 1 has bytes of another hash",
    ),
    "an index row too few": (
        "DELETE FROM allergy_intolerance_token WHERE param = 'code'",
        "has other index rows than its columns make",
    ),
    "an index row too many": (
        (
            "INSERT INTO allergy_intolerance_token (pk, param, code, system)"
            f" SELECT pk, 'code', 'x', '' FROM allergy_intolerance {LATEX}"
        ),
        "has other index rows than its columns make",
    ),
}


@pytest.mark.parametrize(("statement", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_what_differs_from_what_the_columns_make_is_told(make_app, statement, words):
    app = make_app()
    with app.app_context(), writing() as connection:
        connection.execute(text(statement))
    found = faults(app)
    assert any(words in line for line in found), found


def spoiled(example: Path, folder: Path, statement: str) -> Path:
    """Return an instance whose database was changed."""
    shutil.copytree(example, folder)
    with closing(sqlite3.connect(folder / "fhirapp.db")) as connection, connection:
        connection.execute(statement)
    return folder


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"UPDATE allergy_intolerance SET code = '[7]' {LATEX}", "cannot be rendered"),
        (f"UPDATE allergy_intolerance SET code = '{{' {LATEX}", "has a column that is no JSON"),
        (f"UPDATE allergy_intolerance SET code = '7' {LATEX}", "has a column that is no JSON"),
        (
            "DELETE FROM document_reference_words_docsize WHERE id = 1",
            "document_reference: row 1 has no words",
        ),
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
def test_the_command_tells_what_is_wrong_with_a_copy(example, tmp_path, statement, words):
    clinic = spoiled(example, tmp_path / "instance", statement)
    backup = taken(clinic, tmp_path / "clinic.backup")
    done = fhirapp(tmp_path / "x", "backup", "--verify", str(backup))
    assert done.returncode == 2
    assert words in done.stdout
    assert done.stderr.endswith("is not whole.\n")


def test_a_second_factor_that_the_key_does_not_open_is_told(example, tmp_path):
    clinic = spoiled(example, tmp_path / "instance", "DELETE FROM auth_setup_code")
    (clinic / KEYS[0]).write_bytes(b"k" * 32)
    drilled = drill(settings_in(tmp_path / "x"), taken(clinic, tmp_path / "x.backup"), None)
    assert [line.partition(" ")[2] for line in drilled.faults] == [
        "has a second factor that the backup's key does not open"
    ]


def test_a_damaged_file_is_refused(example, tmp_path):
    backup = taken(example, tmp_path / "clinic.backup")
    backup.write_bytes(backup.read_bytes()[:-1])
    with pytest.raises(InvalidBackup):
        drill(settings_in(tmp_path / "x"), backup, None)
