"""Two records of one person become one, and two again: nothing is lost, and nothing mixed up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.links import INACTIVE, RecordLink, all_links, linked_patients
from fhirapp.auth.models import PATIENT, UserPatient
from fhirapp.auth.users.accounts import link, unlink
from fhirapp.config import RefusedCommand, settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.patients.deletion import correct_patient, delete_patient
from fhirapp.features.patients.merge import merge_patients, preview, undo_merge
from fhirapp.server.check import Depth, check_database
from fhirapp.store.prepare import elements_of, prepared_of
from tests.support.browsing import add_person, id_of
from tests.support.helpers import Fhir, token_for
from tests.support.importing import allergy, asking, bundle, load, patient, plain, write
from tests.support.patient_records import data, note

REASON = "Registered twice on arrival"


BORN = {"birthDate": "1958-04-12", "gender": "female"}


TWICE = patient("twice", "111", name=[{"family": "Doppelt", "given": ["Dora"]}], **BORN)


STAYS = patient("stays", "222", name=[{"family": "Doppelt", "given": ["Dorothea"]}], **BORN)


OTHER = patient("other", "333", name=[{"family": "Anders", "given": ["Anna"]}], gender="female")


GROUP = {
    "resourceType": "Group",
    "id": "ward",
    "type": "person",
    "actual": True,
    "member": [{"entity": {"reference": "Patient/twice"}}],
}


RECORDS = (
    TWICE,
    STAYS,
    OTHER,
    allergy("nuts", "Patient/twice"),
    allergy("latex", "Patient/stays"),
    # Somebody else's, reported by the person.
    allergy("milk", "Patient/other", asserter={"reference": "Patient/twice"}),
    note("letter", "twice", data=data("She had zwiebelkuchen at noon")),
    GROUP,
)


@pytest.fixture
def app(make_app: Callable[..., Flask], tmp_path: Path) -> Flask:
    app = make_app(seed=False)
    bring(app, tmp_path, *RECORDS)
    return app


def bring(app: Flask, folder: Path, *records: Any) -> str:
    report = load(app, write(folder, bundle("collection", *map(plain, records))))
    assert report.complete, report.table()
    return report.table()


def merge(app: Flask, source: str = "twice", target: str = "stays", **more: Any) -> Any:
    with app.app_context():
        return merge_patients(
            settings_of(app), source, target, REASON, "admin", **{"move_accounts": False, **more}
        )


def undo(app: Flask, source: str = "twice") -> Mapping[str, int]:
    with app.app_context():
        return undo_merge(settings_of(app), source, "Two people after all")


def contents(app: Flask) -> dict[tuple[str, str], bytes | None]:
    """Return the digest of each current resource."""
    with app.app_context(), db.engine.connect() as connection:
        return {
            (name, row.id): row.digest
            for name, definition in types().items()
            if not definition.view and name != "Provenance"
            for row in connection.execute(
                select(definition.table).where(definition.table.c.is_current)
            )
        }


def faults(app: Flask) -> list[str]:
    with app.app_context():
        return check_database(db.engine, types(), Depth.STRUCTURE).faults


ABOUT_MERGED = (
    "AllergyIntolerance?patient=twice",
    "AllergyIntolerance?patient=Patient/twice&criticality=high",
    "AllergyIntolerance?patient=twice&_summary=count",
    "AllergyIntolerance?patient=twice&_total=none",
    "DocumentReference?subject=Patient/twice",
    "DocumentReference?patient:Patient=twice",
    "DiagnosticReport?patient=twice",
    "AllergyIntolerance/$summary?patient=twice",
    "DocumentReference/$docref?patient=twice",
    "Patient/twice/$everything",
    "Patient/twice/$summary",
    "AllergyIntolerance?patient=twice,other",
    "AllergyIntolerance?asserter=Patient/twice",
    "AllergyIntolerance?patient._id=twice",
    "DocumentReference?subject:Patient._id=twice,other",
    "AllergyIntolerance?asserter:Patient._id=twice",
    "Group?member=Patient/twice",
)


def merged_into(answer: Any) -> str:
    """Return where the refusal of a request says that the record is."""
    assert answer.status_code == 400, answer.text
    return str(answer.get_json(force=True)["issue"][0]["diagnostics"])


def test_merge_preview_counts_and_moves_nothing(app):
    before = contents(app)
    with app.app_context(), db.engine.connect() as connection:
        found = preview(connection, "twice", "stays")
    assert found.counts == {"AllergyIntolerance": 2, "DocumentReference": 1, "Group": 1}
    assert contents(app) == before


def test_merged_record_has_everything(app):
    counts = merge(app)
    assert counts == {"AllergyIntolerance": 2, "DocumentReference": 1, "Group": 1}
    fhir = asking(app)
    assert sorted(fhir.ids("AllergyIntolerance?patient=stays")) == ["latex", "nuts"]
    assert fhir.ids("DocumentReference?patient=stays&_content=zwiebelkuchen") == ["letter"]
    moved = fhir.read("AllergyIntolerance/nuts")["patient"]
    assert moved["reference"] == "Patient/stays"
    assert moved["extension"] == [{"url": "urn:fhirapp:merged-from", "valueString": "twice"}]
    asserter = fhir.read("AllergyIntolerance/milk")
    assert asserter["patient"] == {"reference": "Patient/other"}
    assert asserter["asserter"]["reference"] == "Patient/stays"
    gone, kept = fhir.read("Patient/twice"), fhir.read("Patient/stays")
    assert gone["active"] is False
    assert [(linked["type"], linked["other"]["reference"]) for linked in gone["link"]] == [
        ("replaced-by", "Patient/stays")
    ]
    assert [(linked["type"], linked["other"]["reference"]) for linked in kept["link"]] == [
        ("replaces", "Patient/twice")
    ]
    assert "active" not in kept
    assert gone["name"] == TWICE["name"]
    assert faults(app) == []


def test_request_about_the_merged_patient_is_refused_and_never_empty(app):
    """An empty answer would read as "no allergies", and the record is elsewhere."""
    merge(app)
    fhir = asking(app)
    for path in ABOUT_MERGED:
        assert "was merged into Patient/stays" in merged_into(fhir.get(path)), path
    own = Fhir(app, token_for(app, "patient/*.rs", patient="twice"))
    for path in ("AllergyIntolerance", "DocumentReference?type=x", "Encounter?_summary=count"):
        assert "merged into Patient/stays" in merged_into(own.get(path)), path
    system = Fhir(app, token_for(app, "system/AllergyIntolerance.rs"))
    patient_is = {"name": "patient", "valueReference": {"reference": "Patient/twice"}}
    asks = {"resourceType": "Parameters", "parameter": [patient_is]}
    headers = {"Prefer": "respond-async"}
    export = "$export?_type=AllergyIntolerance&_typeFilter=AllergyIntolerance%3Fpatient%3Dtwice"
    for answer in (
        system.get(export, headers=headers),
        system.post("Patient/$export", json=asks, headers=headers),
    ):
        assert "merged into Patient/stays" in merged_into(answer)
    # Of both it is answered, and the summary knows that the record is among its entries.
    assert sorted(fhir.ids("AllergyIntolerance?patient=twice,stays")) == ["latex", "nuts"]
    assert fhir.ids("AllergyIntolerance?patient=twice,stays&onset=1900") == []
    summary = json.dumps(fhir.read("AllergyIntolerance/$summary?patient=stays"))
    assert "AllergyIntolerance/nuts" in summary
    assert "other-record" not in summary
    undo(app)
    assert {path: asking(app).get(path).status_code for path in ABOUT_MERGED} == dict.fromkeys(
        ABOUT_MERGED, 200
    )


def test_versioned_reference_is_moved_and_restored(app, tmp_path):
    before, after = (allergy(name, "Patient/twice/_history/1") for name in ("rye", "oats"))
    bring(app, tmp_path, before)
    was = contents(app)
    merge(app)
    bring(app, tmp_path, after)
    fhir = asking(app)
    assert {"rye", "oats"} < {*fhir.ids("AllergyIntolerance?patient=stays")}
    assert fhir.read("AllergyIntolerance/rye")["patient"]["reference"] == "Patient/stays"
    assert faults(app) == []
    undo(app)
    assert fhir.read("AllergyIntolerance/oats")["patient"] == after["patient"]
    assert contents(app).items() > was.items()


def test_import_moves_no_reference_that_a_merge_does_not(app, tmp_path):
    """An undo would not find it either, and it would name somebody else for ever."""
    twice = {"reference": "Patient/twice"}
    family = {"resourceType": "RelatedPerson", "id": "r", "patient": twice}
    odd = (
        allergy("odd", "Patient/other", extension=[{"url": "urn:x", "valueReference": twice}]),
        allergy("held", "Patient/other", contained=[family], asserter={"reference": "#r"}),
    )
    bring(app, tmp_path, *odd)
    before = contents(app)
    merge(app)
    merged = contents(app)
    bring(app, tmp_path, *odd)
    assert contents(app) == merged
    undo(app)
    assert contents(app) == before


def test_undo_restores_everything(app, tmp_path):
    before = contents(app)
    merge(app)
    merged = contents(app)
    assert merged != before
    # The same import again changes nothing.
    bring(app, tmp_path, *RECORDS)
    assert contents(app) == merged
    assert undo(app) == {"AllergyIntolerance": 2, "DocumentReference": 1, "Group": 1}
    assert contents(app) == before
    fhir = asking(app)
    assert fhir.ids("AllergyIntolerance?patient=twice") == ["nuts"]
    assert fhir.ids("AllergyIntolerance?patient=stays") == ["latex"]
    assert fhir.read("AllergyIntolerance/nuts")["meta"]["versionId"] == "3"
    assert faults(app) == []
    for active in (True, False):
        bring(app, tmp_path, {**TWICE, "active": active})
        merge(app)
        assert fhir.read("Patient/twice")["active"] is False
        undo(app)
        assert fhir.read("Patient/twice")["active"] is active


def test_imported_records_of_the_merged_patient_go_to_the_other(app, tmp_path):
    merge(app)
    moved = {**TWICE, "address": [{"city": "Bonn"}]}
    more = allergy("nuts", "Patient/twice", criticality="high")
    bring(app, tmp_path, moved, more, allergy("bees", "Patient/twice"))
    fhir = asking(app)
    assert sorted(fhir.ids("AllergyIntolerance?patient=stays")) == ["bees", "latex", "nuts"]
    assert fhir.read("Patient/twice")["active"] is False
    assert faults(app) == []
    undo(app)
    assert sorted(fhir.ids("AllergyIntolerance?patient=twice")) == ["bees", "nuts"]
    assert fhir.read("AllergyIntolerance/nuts")["criticality"] == "high"
    now = fhir.read("Patient/twice")
    assert now["address"] == [{"city": "Bonn"}]
    assert {"link", "active"}.isdisjoint(now)
    before = contents(app)
    bring(app, tmp_path, moved, more, allergy("bees", "Patient/twice"))
    assert contents(app) == before


def test_shared_identifier_finds_the_patient_who_stays(app, tmp_path):
    for person in (TWICE, STAYS):
        shared = {"system": "urn:ssn", "value": "9"}
        bring(app, tmp_path, {**person, "identifier": [*person["identifier"], shared]})
    merge(app)
    bees = allergy("bees", "Patient?identifier=urn:ssn|9")
    transaction = bundle("transaction", {"resource": bees, "request": put_of(bees)})
    assert load(app, write(tmp_path, transaction)).complete
    assert "bees" in asking(app).ids("AllergyIntolerance?patient=stays")


def put_of(resource: Mapping[str, Any]) -> dict[str, str]:
    return {"method": "PUT", "url": f"{resource['resourceType']}/{resource['id']}"}


def test_imported_history_of_a_merged_patient_is_refused(app, tmp_path):
    bees = allergy("bees", "Patient/twice")
    merge(app)
    entry = {
        "resource": {
            **bees,
            "meta": {"versionId": "1", "lastUpdated": "2024-01-01T00:00:00.000+00:00"},
        },
        "request": put_of(bees),
        "response": {"status": "201", "lastModified": "2024-01-01T00:00:00.000+00:00"},
    }
    history = {"resourceType": "Bundle", "type": "history", "entry": [entry]}
    path = write(tmp_path, json.dumps(history).encode(), "history.ndjson")
    report = load(app, path)
    assert not report.complete
    assert "Patient/twice was merged with another record here" in str(report.faults)


def test_correction_survives_merge_and_undo(app, tmp_path):
    def correct(resource_id: str, family: str) -> None:
        found = asking(app).read(f"Patient/{resource_id}")
        with app.app_context():
            changed = {**found, "name": [{"family": family}]}
            changed.pop("text", None)
            assert correct_patient(settings_of(app), changed, ["family"], REASON, "admin")

    def family(resource_id: str) -> str:
        name: str = asking(app).read(f"Patient/{resource_id}")["name"][0]["family"]
        return name

    correct("stays", "Einfach")
    merge(app)
    correct("twice", "Zweifach")
    bring(app, tmp_path, TWICE, STAYS)
    assert (family("twice"), family("stays")) == ("Zweifach", "Einfach")
    assert asking(app).read("Patient/stays")["link"]
    undo(app)
    bring(app, tmp_path, TWICE, STAYS)
    assert (family("twice"), family("stays")) == ("Zweifach", "Einfach")


def test_tokens_of_the_merged_patient_are_revoked_and_old_versions_hidden(app):
    old = Fhir(app, token_for(app, "patient/*.rs", patient="twice"))
    other = Fhir(app, token_for(app, "patient/*.rs", patient="stays"))
    assert old.get("AllergyIntolerance/nuts").status_code == 200
    assert other.get("AllergyIntolerance/nuts").status_code == 404
    merge(app)
    assert old.get("AllergyIntolerance/nuts").status_code == 401
    assert other.get("AllergyIntolerance/nuts").status_code == 200
    assert other.get("AllergyIntolerance/nuts/_history/1").status_code == 404
    undo(app)
    assert other.get("AllergyIntolerance/nuts").status_code == 401
    anew = Fhir(app, token_for(app, "patient/*.rs", patient="stays"))
    for path in ("AllergyIntolerance/nuts", "AllergyIntolerance/nuts/_history/2"):
        assert anew.get(path).status_code == 404
    back = Fhir(app, token_for(app, "patient/*.rs", patient="twice"))
    assert back.get("AllergyIntolerance/nuts").status_code == 200


def test_accounts_move_where_asked_and_return(app):
    add_person(app, PATIENT, "stays", "twice", name="Her mother")
    person = id_of(app, add_person(app, PATIENT, "twice", name="Dora"))

    def links() -> list[tuple[str, bool]]:
        with app.app_context():
            found = select(UserPatient.user_id, UserPatient.patient_id, UserPatient.is_self)
            found = found.where(UserPatient.patient_id.in_(["twice", "stays"]))
            return sorted(
                (linked.patient_id, linked.is_self) for linked in db.session.execute(found)
            )

    before = links()
    for move_accounts in (False, True):
        merge(app, move_accounts=move_accounts)
        assert {patient_id for patient_id, _ in links()} == {"stays"}
        assert len(links()) == (2 if move_accounts else 1)
        undo(app)
        assert links() == before
    merge(app, move_accounts=True)
    with app.app_context(), writing() as connection:
        assert unlink(connection, person, "stays")
    undo(app)
    with app.app_context():
        # Unlinked meanwhile, it sees nothing.
        assert linked_patients(person) == []


def test_two_different_people_are_not_merged(app, tmp_path):
    bring(app, tmp_path, patient("younger", birthDate="1988"), patient("man", gender="male"))
    before = contents(app)
    for source, target, message in (
        ("twice", "twice", "these are the same"),
        ("twice", "nobody", "Unknown patient: nobody"),
        ("nobody", "stays", "Unknown patient: nobody"),
        ("twice", "younger", "dates of birth"),
        ("twice", "man", "sexes differ"),
    ):
        with pytest.raises(RefusedCommand, match=message):
            merge(app, source, target)
    assert contents(app) == before


def test_three_records_of_one_person_are_merged(app, tmp_path):
    thrice = patient("thrice", "444", **BORN)
    bring(app, tmp_path, thrice, allergy("bees", "Patient/thrice"))
    before = contents(app)
    merge(app)
    merge(app, "thrice")
    fhir = asking(app)
    assert sorted(fhir.ids("AllergyIntolerance?patient=stays")) == ["bees", "latex", "nuts"]
    undo(app)
    assert sorted(fhir.ids("AllergyIntolerance?patient=stays")) == ["bees", "latex"]
    assert fhir.ids("AllergyIntolerance?patient=twice") == ["nuts"]
    assert fhir.get("AllergyIntolerance?patient=thrice").status_code == 400
    undo(app, "thrice")
    assert contents(app) == before


def test_imported_merge_of_another_server_is_known(app, make_app, tmp_path):
    merge(app)
    records = [
        asking(app).read(name)
        for name in ("Patient/twice", "Patient/stays", "AllergyIntolerance/nuts")
    ]
    fed = make_app(seed=False)
    bring(fed, tmp_path, *records)
    assert asking(fed).ids("AllergyIntolerance?patient=stays") == ["nuts"]
    assert asking(fed).get("AllergyIntolerance?patient=twice").status_code == 400


def test_record_is_part_of_one_merge(app):
    merge(app)
    for source, target in (("twice", "other"), ("other", "twice"), ("stays", "other")):
        with pytest.raises(RefusedCommand, match="already part of a merge"):
            merge(app, source, target)
    for patient_id in ("twice", "stays"):
        with app.app_context(), pytest.raises(RefusedCommand, match="Undo the merge"):
            delete_patient(settings_of(app), patient_id, REASON, "admin", erase=True)
    undo(app)
    with pytest.raises(RefusedCommand, match="not merged"):
        undo(app)
    with app.app_context():
        delete_patient(settings_of(app), "twice", REASON, "admin", erase=True)
    assert faults(app) == []


def test_audit_trail_gives_the_reason_for_both_patients(app):
    merge(app)
    undo(app)
    for patient_id in ("twice", "stays"):
        with app.app_context():
            told = {
                entry.event: entry for entry in entries(kind=ADMINISTRATION, patient_id=patient_id)
            }
        assert REASON in told["patients-merged"].body
        assert "1 DocumentReference" in told["patients-merged"].body
        assert "Two people after all" in told["merge-undone"].body


def test_stored_version_is_prepared_again_without_difference(make_app):
    """A merge works with rows: what it makes of one must be what an import made."""
    app = make_app()
    with app.app_context(), db.engine.connect() as connection:
        checked = 0
        for name, definition in types().items():
            if definition.view or name == "Binary":
                continue
            for row in connection.execute(select(definition.table)).mappings():
                if not row["deleted"]:
                    again = prepared_of(definition, row["id"], elements_of(definition, row))
                    assert again.digest == row["digest"], (name, row["id"])
                    stored = {column: row[column] for column in again.columns}
                    assert again.columns == stored, (name, row["id"])
                    checked += 1
    assert checked > 50


def test_link_of_a_representative_moves_and_an_inactive_one_makes_room_until_an_undo(app, tmp_path):
    mothers = [
        {
            "resourceType": "RelatedPerson",
            "id": f"mother-of-{name}",
            "active": name == "twice",
            "patient": {"reference": f"Patient/{name}"},
        }
        for name in ("twice", "stays")
    ]
    bring(app, tmp_path, *mothers)
    person = id_of(app, add_person(app, PATIENT))
    with app.app_context(), writing() as connection:
        for name in ("twice", "stays"):
            link(connection, person, name, related_person=f"mother-of-{name}")

    def seen() -> list[RecordLink]:
        with app.app_context():
            return all_links(person)

    before = [
        RecordLink("stays", False, "mother-of-stays", INACTIVE),
        RecordLink("twice", False, "mother-of-twice", ""),
    ]
    assert seen() == before
    merge(app, move_accounts=True)
    assert seen() == [RecordLink("stays", False, "mother-of-twice", "")]
    undo(app)
    assert seen() == before
