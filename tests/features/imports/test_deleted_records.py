"""Records that were deleted and are imported again: all return, and are counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.features.imports import ccda
from fhirapp.features.imports.report import Report
from fhirapp.features.patients.deletion import admit_again, delete_patient
from tests.support.bundles import asked, bundle, history, plain, put
from tests.support.ccda_people import HOUSEHOLD, OTHER, RECORD, document
from tests.support.importing import asking, interrupted_import, lines, load, write
from tests.support.records import allergy, organization, patient, practitioner
from tests.support.stored import bodies, current, stored, versions

pytestmark = pytest.mark.usefixtures("_unread_documents")

PEOPLE = ("Patient", "Practitioner", "Organization")
CLINIC = {"reference": "Organization?identifier=urn:clinic|1"}
DOCTOR = {"reference": "Practitioner?identifier=urn:doctor|1"}
BY_NUMBER = "identifier=urn:mrn|1"


def urn(number: int) -> str:
    return f"urn:uuid:00000000-0000-4000-8000-{number:012}"


def visit(number: int, method: str) -> dict[str, Any]:
    """Return a transaction with a conditional creation or update of a patient, and an allergy."""
    condition = f"identifier=urn:mrn|{number}"
    made, address = patient(mrn=str(number)), urn(number)
    if method == "POST":
        entry = asked("POST", "Patient", made, address, ifNoneExist=condition)
    else:
        entry = asked("PUT", f"Patient?{condition}", made, address)
    return bundle("transaction", entry, put(allergy(f"a{number}", of=address)))


# Records that refer to each other by their numbers alone.
BY_CONDITION = [
    *(
        allergy(f"a{number}", of=f"Patient?identifier=urn:mrn|{number}", recorder=DOCTOR)
        for number in range(3)
    ),
    *(patient(f"p{number}", str(number), managingOrganization=CLINIC) for number in range(3)),
    practitioner("dr"),
    organization("clinic"),
]
PLAIN = [
    allergy("a", recorder={"reference": "Practitioner/dr"}),
    patient("one", managingOrganization={"reference": "Organization/clinic"}),
    practitioner("dr"),
    organization("clinic"),
]
TABLE = b"""patient_id,patient_identifier,patient_family,patient_given,patient_birthdate,id,allergen
t1,urn:mrn|t1,Meier,Ute,1970-01-02,t1-a,Penicillin
t1,urn:mrn|t1,Meier,Ute,1970-01-02,t1-b,Latex
,urn:mrn|t2,Brandt,Karl,1941-11-30,t2-a,Aspirin
t3,,Huber,Anna,,t3-a,Nickel
"""
# Two people, and two who share their clinic and its authors.
DOCUMENTS = {
    "2.xml": document("adam", (RECORD, "1"), (HOUSEHOLD, "7")),
    "3.xml": document("adam-again", (RECORD, "1"), (HOUSEHOLD, "7")),
    "4.xml": document("berta", (RECORD, "2"), given="Berta", gender="F", born="19700102"),
}
INPUTS: dict[str, dict[str, bytes]] = {
    "documents": DOCUMENTS,
    "creations": {"x.ndjson": lines(*(visit(number, "POST") for number in range(1, 4)))},
    "updates": {"x.ndjson": lines(*(visit(number, "PUT") for number in range(1, 4)))},
    "conditional references": {"x.ndjson": lines(*BY_CONDITION)},
    "plain records": {"x.ndjson": lines(*PLAIN)},
    "table": {"x.csv": TABLE},
    "bundle": {"x.json": json.dumps(bundle("collection", *map(plain, BY_CONDITION))).encode()},
}


def delete_by_administrator(app: Flask, folder: Path, *, erase: bool = False) -> None:
    for patient_id in current(app, "Patient"):
        with app.app_context():
            delete_patient(settings_of(app), patient_id, "Asked for it", "admin", erase=erase)
            admit_again(patient_id)


def erase_by_administrator(app: Flask, folder: Path) -> None:
    delete_by_administrator(app, folder, erase=True)


def delete_by_bundle(app: Flask, folder: Path) -> None:
    names = (f"{name}/{own_id}" for name in PEOPLE for own_id in current(app, name))
    gone = bundle("batch", *(asked("DELETE", name) for name in names))
    assert load(app, write(folder, gone, "gone.json"), source="s").complete


def delete_missing(app: Flask, folder: Path) -> None:
    other = write(folder, lines(patient("unrelated")), "other.ndjson")
    assert load(app, other, source="s", delete_missing=True, force=True).complete
    assert current(app, "Patient") == ["unrelated"]


def dangling_people(app: Flask) -> set[str]:
    """Return the people and organizations that current resources refer to and that are not here."""
    here = {f"{name}/{own_id}" for name in PEOPLE for own_id in current(app, name)}
    texts = [json.dumps(json.loads(row[0])) for row in bodies(app).values() if row[0] and row[2]]
    referred = re.findall(r'"reference": "((?:P|Org)\w+/[^"/]+)"', " ".join(texts))
    return {name for name in referred if name.partition("/")[0] in PEOPLE} - here


def counted(report: Report) -> dict[str, int]:
    """Return how many records of each type a report counts."""
    return {name: counts["read"] for name, counts in report.rows()}


def owners(app: Flask) -> dict[str, str | None]:
    """Return the patient of each current allergy."""
    return {
        resource_id: patient_id
        for (name, resource_id, _), (_, is_current, _, patient_id) in stored(app).items()
        if name == "AllergyIntolerance" and is_current
    }


# Patients and allergies of each input; the same patient may come several times.
COUNTS = dict.fromkeys(INPUTS, (3, 3)) | {
    "plain records": (1, 1),
    "table": (4, 4),
}


@pytest.fixture
def paths(kind: str, tmp_path: Path) -> list[Path]:
    """Files of one kind."""
    return [write(tmp_path, content, name) for name, content in INPUTS[kind].items()]


REMOVALS: list[Callable[[Flask, Path], None]] = [
    delete_by_administrator,
    erase_by_administrator,
    delete_by_bundle,
    delete_missing,
]
# Each input with one removal, and each removal with one or two inputs.
REMOVED = [
    *((kind, delete_by_bundle, 2) for kind in INPUTS),
    *(("documents", remove, 1_000) for remove in REMOVALS if remove != delete_by_bundle),
    ("conditional references", delete_missing, 1_000),
    ("table", erase_by_administrator, 1_000),
]


@pytest.mark.parametrize(("kind", "remove", "many"), REMOVED)
def test_deleted_records_return_complete(empty, tmp_path, kind, paths, remove, many, small_batches):
    small_batches(many)
    assert load(empty, *paths, source="s").complete
    before = {name: current(empty, name) for name in (*PEOPLE, "AllergyIntolerance")}
    filed = owners(empty)
    assert None not in filed.values()
    remove(empty, tmp_path)
    report = load(empty, *paths, source="s")
    assert report.complete
    counts = counted(report)
    assert (counts["Patient"], counts["AllergyIntolerance"]) == COUNTS[kind]
    for name, ids in before.items():
        assert [own_id for own_id in current(empty, name) if own_id != "unrelated"] == ids
    assert owners(empty) == filed
    assert dangling_people(empty) == set()
    settled = stored(empty)
    again = load(empty, *paths, source="s")
    assert again.complete
    assert {outcome for counts in again.changes.values() for outcome in +counts} == {"same"}
    assert counted(again) == counts
    assert stored(empty) == settled


@pytest.mark.parametrize("kind", ["documents", "creations", "conditional references", "table"])
def test_interrupted_return_of_deleted_records_is_completed_by_the_next_import(
    empty, tmp_path, paths, small_batches
):
    small_batches(1)
    load(empty, *paths, source="s")
    before = {name: current(empty, name) for name in PEOPLE}
    delete_by_bundle(empty, tmp_path)
    interrupted_import(empty, paths[0], source="s")
    assert load(empty, *paths, source="s").complete
    assert {name: current(empty, name) for name in PEOPLE} == before
    assert dangling_people(empty) == set()


@pytest.mark.parametrize("many", [1, 1_000])
def test_creation_after_the_deletion_of_its_match_creates(take, empty, many, small_batches):
    small_batches(many)
    take(patient("known", "1"), patient("one"))
    gone = bundle("batch", asked("DELETE", "Patient/known"))
    report = take(allergy("before", of=f"Patient?{BY_NUMBER}"), gone, visit(1, "POST"))
    assert report.complete
    created = urn(1).removeprefix("urn:uuid:")
    assert current(empty, "Patient") == [created, "one"]
    assert owners(empty)["a1"] == created


def test_history_after_older_content_of_its_resource_is_counted(take, empty):
    first, second, third = (patient("one", birthDate=f"197{number}") for number in (1, 2, 3))
    take(history(first, second))
    both = [first, history(first, second, third)]
    report = take(*both)
    assert report.complete
    assert counted(report) == {"Patient": 2}
    assert asking(empty).read("Patient/one")["birthDate"] == "1973"
    settled = stored(empty)
    take(*both)
    assert stored(empty) == settled


@pytest.mark.parametrize("method", ["POST", "PUT", ""])
def test_condition_matches_a_patient_who_waits_for_a_reference_that_is_never_resolved(
    take, empty, tmp_path, method
):
    """The organization's own parent is nowhere; the patient needs the organization."""
    clinic = organization("clinic", partOf={"reference": "Organization?identifier=urn:clinic|none"})
    one = patient("p1", "1", managingOrganization=CLINIC)
    entry = {
        "POST": asked("POST", "Patient", one, urn(1), ifNoneExist=BY_NUMBER),
        "PUT": asked("PUT", f"Patient?{BY_NUMBER}", one, urn(1)),
        "": plain(one),
    }[method]
    around = bundle("batch" if method else "collection", entry)
    for is_new in (True, False):
        if not is_new:
            delete_by_bundle(empty, tmp_path)
        take(allergy("a", of=f"Patient?{BY_NUMBER}"), around, clinic)
        assert owners(empty) == {"a": "p1"}
        assert dangling_people(empty) == set()
        managing = asking(empty).read("Patient/p1")["managingOrganization"]
        assert managing == {"reference": "Organization/clinic"}


def test_record_that_waits_stays_behind_older_content_of_its_resource(take, empty, small_batches):
    small_batches(1)
    first, second, third = (
        allergy("a", of=f"Patient?{BY_NUMBER}", criticality=criticality)
        for criticality in ("low", "high", "unable-to-assess")
    )
    take(patient("p1", "1"), first, second)
    take(bundle("batch", asked("DELETE", "Patient/p1")))
    assert take(first, third, patient("p1", "1", gender="female")).complete
    assert asking(empty).read("AllergyIntolerance/a")["criticality"] == "unable-to-assess"


# Patients of documents who return


@pytest.mark.parametrize("together", [True, False], ids=["in one import", "in two"])
@pytest.mark.parametrize("order", [1, -1])
def test_patient_who_returns_is_compared_with_one_who_has_the_same_number(
    empty, tmp_path, together, order
):
    adam = document("adam", (HOUSEHOLD, "7"), (RECORD, "1"))
    eve = document("eve", (HOUSEHOLD, "7"), (RECORD, "2"), given="Eve", gender="F")
    paths = [write(tmp_path, adam, "1.xml"), write(tmp_path, eve, "2.xml")]
    assert load(empty, paths[0]).complete
    delete_by_administrator(empty, tmp_path)
    inputs = [paths[::order]] if together else [[path] for path in paths[::order]]
    faults = [fault for given in inputs for fault in load(empty, *given).rejected]
    assert sum("rejected too, because" in fault for fault in faults) == 1
    for name in ("Patient", "AllergyIntolerance", "DocumentReference"):
        assert len(current(empty, name)) == 1
    assert dangling_people(empty) == set()


@pytest.mark.parametrize("many", [1, 1_000])
def test_deferred_patient_of_a_document_is_compared_with_others(
    empty, tmp_path, many, small_batches
):
    """The clinic of the document waits for its parent, and so does the patient."""
    small_batches(many)
    clinic = (
        b'</patient><providerOrganization><id root="2.999.5" extension="1"/><name>Clinic</name>'
        b"</providerOrganization>"
    )
    adam = document("Adam", (RECORD, "1"), (HOUSEHOLD, "7")).replace(b"</patient>", clinic)
    eve = document("Eve", (RECORD, "2"), (HOUSEHOLD, "7"), given="Eve")
    resources = ccda.resources_of(adam)
    (made,) = [resource for resource in resources if resource["resourceType"] == "Organization"]
    waits = {**made, "partOf": {"reference": "Organization?identifier=urn:clinic|none"}}
    clinics = write(tmp_path, lines(waits), "x.ndjson")
    documents = [write(tmp_path, adam, "adam.xml"), write(tmp_path, eve, "eve.xml")]
    report = load(empty, clinics, *documents)
    assert f"urn:oid:{HOUSEHOLD}|7 of Patient/" in "".join(report.rejected)
    (patient_id,) = current(empty, "Patient")
    assert asking(empty).read(f"Patient/{patient_id}")["name"][0]["given"] == ["Eve"]
    assert [*owners(empty).values()] == [patient_id]
    assert len(current(empty, "DocumentReference")) == 1
    counts = counted(report)
    assert (counts["Patient"], counts["Organization"], counts["DocumentReference"]) == (2, 2, 2)


def test_patient_who_returns_with_a_number_of_another_kind_is_the_same(empty, tmp_path):
    first = write(tmp_path, document("adam", (HOUSEHOLD, "7"), (RECORD, "1")), "1.xml")
    load(empty, first)
    delete_by_administrator(empty, tmp_path)
    other = document("adam", (HOUSEHOLD, "7"), (OTHER, "5"))
    assert load(empty, first, write(tmp_path, other, "2.xml")).complete
    assert len(current(empty, "Patient")) == 1
    assert dangling_people(empty) == set()


# An id that somebody else has


@pytest.mark.parametrize(("source", "order"), [("", 1), ("lab", -1)])
def test_creation_does_not_take_the_patient_who_has_its_id(take, empty, source, order):
    take(patient("1", "100", birthDate="1970-01-02"), source="ehr" if source else "")
    mine = patient("1", "900", birthDate="1980-03-04")
    address = "https://x.example/Patient/1"
    entry = asked("POST", "Patient", mine, address, ifNoneExist="identifier=urn:mrn|900")
    batch = bundle("transaction", *[entry, put(allergy("a", of=address))][::order])
    report = take(batch, source=source)
    assert report.rejected_types["Patient"] == 1
    assert "1" not in owners(empty).values()


def test_rejected_update_leaves_no_match_behind(take, empty):
    take(patient("1", "100", birthDate="1970"), source="ehr")
    mine = patient("1", "900", birthDate="1980")
    entry = asked("PUT", "Patient?identifier=urn:mrn|900", mine, urn(1))
    waits = allergy("a", of="Patient?identifier=urn:mrn|900")
    report = take(bundle("batch", entry), waits, source="lab")
    assert report.rejected_types["Patient"] == 1
    assert "1" not in owners(empty).values()
    assert versions(empty, "Patient") == [("Patient", "1", 1, False)]
