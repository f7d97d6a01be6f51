"""`fhirapp db check`: a whole database passes, and each kind of damage is reported."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from flask import Flask
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.server import check as server_check
from fhirapp.server.check import Checked, Depth, Faults, check_database
from tests.support.backups import damage, run_sql
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.shell import run_command


def check(app: Flask, depth: Depth = Depth.STRUCTURE) -> Checked:
    with app.app_context():
        return check_database(db.engine, types(), depth)


def change(app: Flask, *statements: str) -> None:
    """Damage an app's database."""
    with app.app_context(), writing() as connection:
        for statement in statements:
            connection.execute(text(statement))


BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)


@BOTH
def test_whole_database_passes(app):
    with app.app_context(), db.engine.connect() as connection:
        counts = [
            connection.execute(text(f'SELECT count(*) FROM "{definition.table.name}"')).scalar_one()
            for definition in types().values()
        ]
    for depth in Depth:
        assert check(app, depth) == Checked(sum(counts), []), depth


@pytest.mark.campaign
def test_imported_records_pass(synthea_loaded):
    app, _ = synthea_loaded
    for depth in Depth:
        checked = check(app, depth)
        assert checked.faults == []
        assert checked.versions > 3_000


# What a check says, by what was done to the database. A quick check finds this too.
QUICK = {
    "AllergyIntolerance/al-p1-latex, version 1 is not marked as current": (
        "UPDATE allergy_intolerance SET is_current = FALSE WHERE id = 'al-p1-latex'"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 1 is wrongly marked as current": (
        "UPDATE document_reference SET is_current = FALSE WHERE id = 'doc-p1-discharge-2024';"
        "UPDATE document_reference SET is_current = version_id = 1 WHERE id ="
        " 'doc-p1-discharge-2024'"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 3 follows version 1": (
        "DELETE FROM document_reference WHERE id = 'doc-p1-discharge-2024' AND version_id = 2"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 2 follows version 0": (
        "DELETE FROM document_reference WHERE id = 'doc-p1-discharge-2024' AND version_id = 1"
    ),
    "AllergyIntolerance/al-p1-latex, version 0 has a number below 1": (
        "UPDATE allergy_intolerance SET version_id = 0 WHERE id = 'al-p1-latex'"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 1 does not point to the version after it": (
        "UPDATE document_reference SET replaced_pk = NULL WHERE id ="
        " 'doc-p1-discharge-2024' AND version_id = 1"
    ),
    "AllergyIntolerance/al-p1-latex, version 1 does not point to the version after it": (
        "UPDATE allergy_intolerance SET replaced_pk = 1 WHERE id = 'al-p1-latex'"
    ),
    "allergy_intolerance_token: row 99999 belongs to no version": (
        "INSERT INTO allergy_intolerance_token (pk, param, code, system) VALUES (99999,"
        " 'code', 'x', '')"
    ),
    "belongs to no version": (
        "INSERT INTO allergy_intolerance_string (pk, param, folded, exact) SELECT pk,"
        " 'x', 'x', 'x' FROM allergy_intolerance WHERE deleted"
    ),
    "allergy_intolerance: row 99999 has no words": (
        "INSERT INTO allergy_intolerance (pk, id, version_id, last_updated, is_current)"
        " VALUES (99999, 'wordless', 1, '2026-01-01T00:00:00.000+00:00', TRUE)"
    ),
    "has no matching version of DocumentReference": (
        "UPDATE diagnostic_report SET last_updated = '2001-01-01T00:00:00.000+00:00'"
        " WHERE pk = (SELECT min(pk) FROM diagnostic_report WHERE is_current)"
    ),
    "Binary/bin-p1-discharge-2024-v3, version 1 has a size that differs from its data": (
        "UPDATE \"binary\" SET size = size + 1 WHERE id = 'bin-p1-discharge-2024-v3'"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 3 points to a Binary that does not exist": (
        "DELETE FROM \"binary\" WHERE id = 'bin-p1-discharge-2024-v3'"
    ),
    "DocumentReference/doc-p1-discharge-2024, version 3 points to a Binary that does not": (
        "UPDATE \"binary\" SET deleted = TRUE WHERE id = 'bin-p1-discharge-2024-v3'"
    ),
    "DocumentReference cannot be read completely (no such table: binary)": 'DROP TABLE "binary"',
    "the table allergy_intolerance_date is missing": ("DROP TABLE allergy_intolerance_date"),
}
# A quick check does not find this.
STRUCTURE = {
    "AllergyIntolerance/al-p1-latex, version 1 has no body": (
        "UPDATE allergy_intolerance SET body = NULL WHERE id = 'al-p1-latex'"
    ),
    "AllergyIntolerance/al-p1-latex, version 1 has a body that cannot be read": (
        "UPDATE allergy_intolerance SET body = '{' WHERE id = 'al-p1-latex'"
    ),
    "AllergyIntolerance/al-p1-latex, version 1 has a body that cannot": (
        "UPDATE allergy_intolerance SET body = '[]' WHERE id = 'al-p1-latex'"
    ),
    "AllergyIntolerance/al-p1-latex, version 1 has the body of another version": (
        "UPDATE allergy_intolerance SET body = (SELECT o.body FROM allergy_intolerance o"
        " WHERE o.id = 'al-p1-sulfa' AND o.is_current) WHERE id = 'al-p1-latex'"
    ),
    "is deleted and has a body": ("UPDATE allergy_intolerance SET body = '{}' WHERE deleted"),
}


@pytest.mark.parametrize("words", [*QUICK, *STRUCTURE])
def test_damage_is_reported(own_app, words):
    change(own_app, *(QUICK | STRUCTURE)[words].split(";"))
    # Each depth finds what the one before finds.
    found = {depth: check(own_app, depth).faults for depth in Depth}
    if words not in QUICK:
        assert found.pop(Depth.QUICK) == []
    for faults in found.values():
        assert any(words in fault for fault in faults), faults


# A full check finds this.
CONTENT = {
    "a column": (
        "UPDATE allergy_intolerance SET criticality = 'unable-to-assess' WHERE id = 'al-p1-latex'",
        "AllergyIntolerance/al-p1-latex, version 1 has a body that differs from its columns",
    ),
    "a column that the body leaves out": (
        "UPDATE document_reference SET meta = '{\"tag\":[]}' WHERE id = 'doc-p1-consult-2025'",
        "DocumentReference/doc-p1-consult-2025, version 1 has a digest that differs",
    ),
    "a body": (
        (
            "UPDATE allergy_intolerance SET body = (SELECT o.body FROM allergy_intolerance o"
            " WHERE o.id = 'al-p1-sulfa' AND o.is_current) WHERE id = 'al-p3-egg'"
        ),
        "AllergyIntolerance/al-p3-egg, version 1 has a body that differs from its columns",
    ),
    "a digest": (
        "UPDATE allergy_intolerance SET digest = NULL WHERE id = 'al-p1-penicillin'",
        "AllergyIntolerance/al-p1-penicillin, version 1 has a digest that differs from its columns",
    ),
    "a hash": (
        "UPDATE \"binary\" SET hash = 'x' WHERE id = 'bin-p1-discharge-2024-v3'",
        "Binary/bin-p1-discharge-2024-v3, version 1 has a hash that differs from its data",
    ),
}


@pytest.mark.campaign
def test_differences_from_the_columns_are_reported(own_app):
    """Each damage is of another record: all are made in one database."""
    with own_app.app_context(), writing() as connection:
        for statement, _ in CONTENT.values():
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
    found = check(own_app, Depth.CONTENT).faults
    for pk in (milk, ragweed):
        words = f"allergy_intolerance_token: row {pk} has index rows that differ from its columns"
        assert words in found
    assert [
        name for name, (_, words) in CONTENT.items() if not any(words in x for x in found)
    ] == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("[7]", "AllergyIntolerance/al-p1-latex, version 1 cannot be rendered (AttributeError)"),
        ("{", "has a column that is not JSON"),
    ],
)
def test_version_that_cannot_be_rendered_is_one_fault(own_app, code, words):
    change(own_app, f"UPDATE allergy_intolerance SET code = '{code}' WHERE id = 'al-p1-latex'")
    (fault,) = check(own_app, Depth.CONTENT).faults
    assert fault.endswith(words)


def test_busy_database_is_not_reported_as_damage(own_app, monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> list[str]:
        raise OperationalError("PRAGMA", {}, sqlite3.OperationalError("database is locked"))

    monkeypatch.setattr(server_check, "integrity_faults", refuse)
    with pytest.raises(OperationalError):
        check(own_app)


def test_full_check_runs_while_another_connection_writes(own_app):
    with own_app.app_context():
        path = db.engine.url.database
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM patient")
        assert check(own_app, Depth.CONTENT).faults == []


def test_missing_tables_of_a_new_type_are_no_fault(make_app):
    app = make_app(seed=False)
    with app.app_context():
        definition = types()["Encounter"]
        names = [definition.table.name, *(table.name for table in definition.tables)]
    change(app, *(f"DROP TABLE {name}" for name in names))
    assert check(app).faults == []


def test_first_faults_of_a_kind_are_listed_and_the_others_counted():
    faults = Faults()
    for number in range(12):
        faults.add("has no body", f"Patient/{number}, version 1")
    faults.add("has no words", "patient: row 1")
    assert faults.lines() == [
        *(f"Patient/{number}, version 1 has no body" for number in range(5)),
        "… and 7 more: has no body",
        "patient: row 1 has no words",
    ]


def test_full_check_is_an_option_of_the_command(clinic_folder):
    run_sql(clinic_folder, "UPDATE patient SET digest = NULL WHERE id = 'p1'")
    assert run_command(clinic_folder, "db", "check").returncode == 0
    done = run_command(clinic_folder, "db", "check", "--full")
    assert done.returncode == 2
    assert "Patient/p1, version 1 has a digest that differs from its columns" in done.stdout


def test_exit_code_says_whether_the_database_is_whole(clinic_folder):
    done = run_command(clinic_folder, "db", "check")
    assert done.returncode == 0, done.stdout
    assert "no damage found" in done.stderr
    run_sql(clinic_folder, "UPDATE patient SET body = NULL", "DELETE FROM auth_user")
    done = run_command(clinic_folder, "db", "check")
    assert (done.returncode, "no damage found" in done.stderr) == (2, False)
    assert "point to rows of auth_user that do not exist" in done.stdout
    assert "more: has no body" in done.stdout
    damage(clinic_folder)
    assert run_command(clinic_folder, "db", "check").returncode == 2


@pytest.mark.parametrize(
    ("number", "state"),
    [
        ("9999", "of a newer fhirapp; a start refuses it."),
        ("0010", "of an older fhirapp; a start refuses it until fhirapp 0.1.0 has upgraded it."),
    ],
)
def test_database_of_another_release_is_checked_as_far_as_possible(clinic_folder, number, state):
    run_sql(clinic_folder, f"UPDATE alembic_version SET version_num = '{number}'")
    done = run_command(clinic_folder, "db", "check")
    assert done.returncode == 0
    assert f"has schema {number} {state}" in done.stdout
    assert "SQLite's own checks were run: no damage found." in done.stderr
    damage(clinic_folder)
    assert run_command(clinic_folder, "db", "check").returncode == 2


@pytest.mark.databases(POSTGRESQL)
def test_type_that_postgresql_cannot_read_hides_no_fault_of_another(own_app):
    change(own_app, "ALTER TABLE allergy_intolerance RENAME COLUMN version_id TO lost")
    (words,) = (words for words in QUICK if "a size that differs from its data" in words)
    change(own_app, *QUICK[words].split(";"))
    faults = check(own_app).faults
    assert any("AllergyIntolerance cannot be read completely" in line for line in faults)
    assert any(words in line for line in faults), faults
    assert not any("aborted" in line for line in faults)


@pytest.mark.databases(POSTGRESQL)
def test_damage_in_postgresql_is_reported(own_app):
    # The second makes the version that the row of the first lacks: each is checked by itself.
    for kind in (
        "row 99999 belongs to no version",
        "has no words",
        "a size that differs from its data",
    ):
        (words,) = (words for words in QUICK if kind in words)
        change(own_app, *QUICK[words].split(";"))
        found = check(own_app).faults
        assert any(words in line for line in found), found
