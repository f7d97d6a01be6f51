"""A patient's record as a whole: deleted with its history kept, or erased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.audit.entries import ADMINISTRATION, AuditEntry, entries
from fhirapp.auth.models import PATIENT, UserPatient
from fhirapp.config import RefusedCommand, settings_of
from fhirapp.db import db
from fhirapp.db.locks import lock
from fhirapp.definition import types
from fhirapp.features.imports.report import Report
from fhirapp.features.patients.deletion import admit_again, belongings, delete_patient
from fhirapp.search.fulltext import words_table
from fhirapp.server.check import Depth, check_database
from fhirapp.store.import_models import TURN
from tests.support.browsing import add_person
from tests.support.helpers import Fhir, token_for
from tests.support.importing import allergy, asking, bundle, load, patient, plain, write
from tests.support.patient_records import data, note

REASON = "Asked for it by letter of 3 March"


SECRET_WORD = "zwiebelkuchen"


SHARED = {"resourceType": "Binary", "id": "leaflet", "contentType": "text/plain"}


SHARED["data"] = data("A leaflet that two patients were given")


RECORDS = (
    patient("gone", "111", name=[{"family": "Verschwunden", "given": ["Vera"]}]),
    patient("stays", "222", name=[{"family": "Bleibt", "given": ["Bela"]}]),
    allergy("gone-nuts", "Patient/gone"),
    allergy("stays-nuts", "Patient/stays"),
    SHARED,
    note("letter", "gone", data=data(f"The patient ate {SECRET_WORD} at noon")),
    note("handed", "gone", url="Binary/leaflet"),
    note("handed-too", "stays", url="Binary/leaflet"),
)


@pytest.fixture
def app(make_app: Callable[..., Flask], tmp_path: Path) -> Flask:
    app = make_app(seed=False)
    assert bring(app, tmp_path).complete
    changed = allergy("gone-nuts", "Patient/gone", criticality="high")
    assert load(app, write(tmp_path, bundle("collection", plain(changed)))).complete
    return app


def bring(app: Flask, folder: Path) -> Report:
    return load(app, write(folder, bundle("collection", *map(plain, RECORDS))))


def remove(app: Flask, patient_id: str = "gone", *, erase: bool = False) -> Mapping[str, int]:
    with app.app_context():
        return delete_patient(settings_of(app), patient_id, REASON, "admin", erase=erase)


def faults(app: Flask) -> list[str]:
    with app.app_context():
        return check_database(db.engine, types(), Depth.STRUCTURE).faults


def administration_events(app: Flask) -> list[AuditEntry]:
    with app.app_context():
        return list(entries(kind=ADMINISTRATION, patient_id="gone"))


def test_belongings_of_a_patient_are_counted_before_a_deletion(app):
    with app.app_context(), db.engine.connect() as connection:
        found = belongings(connection, "gone")
    assert found.counts["AllergyIntolerance"] == 1
    assert found.counts["DocumentReference"] == 2
    # The leaflet is another's too.
    assert found.counts["Binary"] == 1
    assert found.counts["Provenance"] == 2
    assert found.counts["Patient"] == 1


@pytest.mark.parametrize("erase", [False, True])
def test_deleted_records_are_gone_and_others_stay(app, erase):
    remove(app, erase=erase)
    fhir = asking(app)
    for path in ("Patient/gone", "AllergyIntolerance/gone-nuts", "DocumentReference/letter"):
        assert fhir.get(path).status_code == 410
    assert fhir.ids("AllergyIntolerance?patient=gone") == []
    assert fhir.ids(f"DocumentReference?_content={SECRET_WORD}") == []
    assert fhir.ids("AllergyIntolerance?patient=stays") == ["stays-nuts"]
    assert fhir.ids("DocumentReference?_content=leaflet") == ["handed-too"]
    assert fhir.get("Binary/leaflet").status_code == 200
    assert faults(app) == []


def test_history_of_a_deleted_record_is_kept(app):
    remove(app)
    fhir = asking(app)
    assert fhir.read("AllergyIntolerance/gone-nuts/_history/1")["id"] == "gone-nuts"
    history = fhir.read("AllergyIntolerance/gone-nuts/_history")
    assert [entry["request"]["method"] for entry in history["entry"]] == ["DELETE", "PUT", "PUT"]


def test_history_of_an_erased_record_has_no_content(app):
    before = asking(app).get("AllergyIntolerance/gone-nuts/_history")
    remove(app, erase=True)
    fhir = asking(app)
    for number in (1, 2, 3):
        assert fhir.get(f"AllergyIntolerance/gone-nuts/_history/{number}").status_code == 410
    tag = {"If-None-Match": before.headers["ETag"]}
    after = fhir.get("AllergyIntolerance/gone-nuts/_history", headers=tag)
    assert after.status_code == 200
    assert all("resource" not in entry for entry in after.get_json(force=True)["entry"])


def test_erased_content_is_left_in_no_table(app):
    remove(app, erase=True)
    with app.app_context(), db.engine.connect() as connection:
        for definition in types().values():
            ids = select(definition.table.c.pk).where(definition.table.c.patient_id == "gone")
            for index in definition.tables:
                found = connection.execute(select(index).where(index.c.pk.in_(ids)))
                assert found.all() == []
            for row in connection.execute(select(definition.table)).mappings():
                assert SECRET_WORD not in repr({**row})
                if row["patient_id"] == "gone":
                    assert (row["deleted"], row["body"], row["extra"]) == (True, None, None)
                    assert row.get("data") is None
        words = words_table(types()["DocumentReference"].tables)
        if db.engine.dialect.name == "sqlite":
            match = f"SELECT rowid FROM {words} WHERE {words} MATCH ?"
            assert connection.exec_driver_sql(match, (SECRET_WORD,)).all() == []
            check = f"INSERT INTO {words} ({words}) VALUES ('integrity-check')"
            connection.exec_driver_sql(check)


def test_erased_content_is_left_nowhere_in_the_file(app):
    with app.app_context():
        database = Path(db.engine.url.database)
        db.session.remove()
    remove(app, erase=True)
    with app.app_context():
        db.engine.dispose()
    content = database.read_bytes()
    assert b"Bleibt" in content
    for word in (b"Verschwunden", SECRET_WORD.encode()):
        assert word not in content


def test_deleted_patient_can_be_erased_later(app):
    remove(app)
    assert remove(app, erase=True)["DocumentReference"] == 2
    assert asking(app).get("AllergyIntolerance/gone-nuts/_history/1").status_code == 410
    assert faults(app) == []


def test_deletion_removes_links_of_accounts_and_revokes_tokens(app):
    add_person(app, PATIENT, "gone", "stays")
    own = Fhir(app, token_for(app, "patient/*.rs", patient="gone"))
    assert own.get("Patient/gone").status_code == 200
    remove(app)
    assert own.get("Patient/gone").status_code == 401
    with app.app_context():
        linked = (
            db.session.execute(
                select(UserPatient.patient_id).where(UserPatient.patient_id.in_(["gone", "stays"]))
            )
            .scalars()
            .all()
        )
    assert linked == ["stays"]


def test_audit_trail_keeps_the_reason_and_no_content(app):
    remove(app, erase=True)
    (entry,) = [entry for entry in administration_events(app) if entry.event == "patient-erased"]
    assert REASON in entry.body
    assert "2 DocumentReference" in entry.body
    assert "Verschwunden" not in repr(administration_events(app))


def test_import_does_not_restore_an_erased_patient_until_admitted(app, tmp_path):
    remove(app, erase=True)
    report = bring(app, tmp_path)
    assert report.complete
    assert "Patient/gone: was deleted here by an administrator" in report.table()
    assert asking(app).get("Patient/gone").status_code == 410
    assert SECRET_WORD not in repr(binary_rows(app))
    with app.app_context():
        admit_again("gone")
        with pytest.raises(RefusedCommand):
            admit_again("gone")
    assert bring(app, tmp_path).complete
    fhir = asking(app)
    assert fhir.ids(f"DocumentReference?_content={SECRET_WORD}") == ["letter"]
    # No number comes twice.
    assert fhir.read("DocumentReference/letter")["meta"]["versionId"] == "3"
    assert faults(app) == []


def binary_rows(app: Flask) -> list[Any]:
    with app.app_context(), db.engine.connect() as connection:
        return [*connection.execute(select(types()["Binary"].table))]


def test_deletion_without_reason_of_an_unknown_patient_or_during_an_import_is_refused(app):
    for reason in ("", "  no  ", "x" * 301):
        with app.app_context(), pytest.raises(RefusedCommand, match="Enter a reason"):
            delete_patient(settings_of(app), "gone", reason, "admin", erase=False)
    importing = lock(settings_of(app), TURN, lambda: None)
    with app.app_context(), importing, pytest.raises(RefusedCommand, match="An import is running"):
        remove(app)
    assert asking(app).get("Patient/gone").status_code == 200
    remove(app)
    for patient_id in ("nobody", "gone"):
        with pytest.raises(RefusedCommand, match=f"Unknown patient: {patient_id}"):
            remove(app, patient_id)
