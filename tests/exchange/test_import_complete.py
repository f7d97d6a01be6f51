"""Nothing is lost: each record of an import that succeeds is here afterwards, and is counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.exchange import ccda
from fhirapp.exchange.imports.report import Report
from fhirapp.ops.patients import admit_again, delete_patient
from tests.exchange.test_import_source_ids import history
from tests.support.ccda_people import HOUSEHOLD, OTHER, RECORD, document
from tests.support.ccda_samples import sample
from tests.support.importing import (
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    plain,
    put,
    stored,
    versions,
    write,
)
from tests.support.repeated_imports import begin

PEOPLE = ("Patient", "Practitioner", "Organization")


def urn(number: int) -> str:
    return f"urn:uuid:00000000-0000-4000-8000-{number:012}"


def organization(resource_id: str, number: str, **more: Any) -> dict[str, Any]:
    identifier = [{"system": "urn:clinic", "value": number}]
    return {
        "resourceType": "Organization",
        "id": resource_id,
        "identifier": identifier,
        "name": "Clinic",
        **more,
    }


def practitioner(resource_id: str, number: str) -> dict[str, Any]:
    identifier = [{"system": "urn:doctor", "value": number}]
    return {"resourceType": "Practitioner", "id": resource_id, "identifier": identifier}


CLINIC = {"reference": "Organization?identifier=urn:clinic|1"}
DOCTOR = {"reference": "Practitioner?identifier=urn:doctor|1"}


def visit(number: int, method: str) -> dict[str, Any]:
    """Return a transaction that brings a patient on a condition, and an allergy."""
    condition = f"identifier=urn:mrn|{number}"
    address = urn(number)
    if method == "POST":
        brings = asked("POST", "Patient", patient(mrn=str(number)), address, ifNoneExist=condition)
    else:
        brings = asked("PUT", f"Patient?{condition}", patient(mrn=str(number)), address)
    return bundle("transaction", brings, put(allergy(f"a{number}", of=address)))


def by_condition() -> list[dict[str, Any]]:
    """Return records that name each other by their numbers alone."""
    return [
        *(
            allergy(f"a{number}", of=f"Patient?identifier=urn:mrn|{number}", recorder=DOCTOR)
            for number in range(3)
        ),
        *(patient(f"p{number}", str(number), managingOrganization=CLINIC) for number in range(3)),
        practitioner("dr", "1"),
        organization("clinic", "1"),
    ]


def ccda_files(folder: Path) -> list[Path]:
    """Write documents of two people, who share their clinic and its authors."""
    texts = [
        sample("ccd").encode(),
        sample("discharge-summary").encode(),
        document("adam", (RECORD, "1"), (HOUSEHOLD, "7")),
        document("adam-again", (RECORD, "1"), (HOUSEHOLD, "7")),
        document("berta", (RECORD, "2"), given="Berta", gender="F", born="19700102"),
    ]
    return [write(folder, text, f"{number}.xml") for number, text in enumerate(texts)]


def ndjson(*contents: Any) -> Callable[[Path], list[Path]]:
    return lambda folder: [write(folder, lines(*contents), "x.ndjson")]


TABLE = b"""patient_id,patient_identifier,patient_family,patient_given,patient_birthdate,id,allergen
t1,urn:mrn|t1,Meier,Ute,1970-01-02,t1-a,Penicillin
t1,urn:mrn|t1,Meier,Ute,1970-01-02,t1-b,Latex
,urn:mrn|t2,Brandt,Karl,1941-11-30,t2-a,Aspirin
t3,,Huber,Anna,,t3-a,Nickel
"""

INPUTS: dict[str, Callable[[Path], list[Path]]] = {
    "documents": ccda_files,
    "creations": ndjson(*(visit(number, "POST") for number in range(1, 4))),
    "conditional changes": ndjson(*(visit(number, "PUT") for number in range(1, 4))),
    "conditional references": ndjson(*by_condition()),
    "plain records": ndjson(
        allergy("a", recorder={"reference": "Practitioner/dr"}),
        patient("one", managingOrganization={"reference": "Organization/clinic"}),
        practitioner("dr", "1"),
        organization("clinic", "1"),
    ),
    "table": lambda folder: [write(folder, TABLE, "x.csv")],
    "bundle": lambda folder: [
        write(folder, bundle("collection", *map(plain, by_condition())), "x.json")
    ],
}


def delete_by_administrator(app: Flask, folder: Path) -> None:
    for patient_id in current(app, "Patient"):
        with app.app_context():
            delete_patient(settings_of(app), patient_id, "Asked for it", "admin", erase=False)
            admit_again(patient_id)


def erase_by_administrator(app: Flask, folder: Path) -> None:
    for patient_id in current(app, "Patient"):
        with app.app_context():
            delete_patient(settings_of(app), patient_id, "Asked for it", "admin", erase=True)
            admit_again(patient_id)


def delete_by_bundle(app: Flask, folder: Path) -> None:
    names = (f"{name}/{one}" for name in PEOPLE for one in current(app, name))
    gone = bundle("batch", *(asked("DELETE", name) for name in names))
    assert load(app, write(folder, gone, "gone.json"), source="s").complete


def delete_missing(app: Flask, folder: Path) -> None:
    other = write(folder, lines(patient("unrelated")), "other.ndjson")
    assert load(app, other, source="s", delete_missing=True, force=True).complete
    assert current(app, "Patient") == ["unrelated"]


REMOVALS = [delete_by_administrator, erase_by_administrator, delete_by_bundle, delete_missing]


def dangling_people(app: Flask) -> set[str]:
    """Return the people and organizations that a current resource names, and that are not here."""
    here = {f"{name}/{one}" for name in PEOPLE for one in current(app, name)}
    named = set()
    with app.app_context(), db.engine.connect() as connection:
        for definition in types().values():
            if definition.view or definition.name in ("Binary", "Provenance"):
                continue
            bodies = select(definition.table.c.body).where(definition.table.c.is_current)
            for body in connection.execute(bodies).scalars():
                named.update(_references(json.loads(body)))
    return {name for name in named if name.startswith(tuple(f"{one}/" for one in PEOPLE))} - here


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def records_in(paths: Sequence[Path]) -> Counter[str]:
    """Return how many records of each type are in files, read without the importer."""
    counts: Counter[str] = Counter()
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".xml":
            resources = ccda.resources_of(content, path.name)
            counts.update(resource["resourceType"] for resource in resources)
        elif path.suffix == ".csv":
            rows = [row.split(b",") for row in content.splitlines()[1:]]
            counts["AllergyIntolerance"] += len(rows)
            counts["Patient"] += sum(bool(row[2]) for row in rows)
        else:
            for resource in map(json.loads, content.splitlines()):
                entries = resource.get("entry", [{"resource": resource}])
                counts.update(entry["resource"]["resourceType"] for entry in entries)
    return counts


def counted(report: Report) -> dict[str, int]:
    """Return how many records of each type a report counts."""
    return {name: counts["read"] for name, counts in report.rows()}


def owners(app: Flask) -> dict[str, str | None]:
    """Return whose each current allergy is."""
    return {
        resource_id: patient_id
        for (name, resource_id, _), (_, is_current, _, patient_id) in stored(app).items()
        if name == "AllergyIntolerance" and is_current
    }


@pytest.mark.parametrize("many", [2, 1_000])
@pytest.mark.parametrize("remove", REMOVALS)
@pytest.mark.parametrize("kind", INPUTS)
def test_records_that_were_deleted_come_back_complete(
    empty, tmp_path, kind, remove, many, monkeypatch
):
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    paths = INPUTS[kind](tmp_path)
    assert load(empty, *paths, source="s").complete
    before = {name: current(empty, name) for name in (*PEOPLE, "AllergyIntolerance")}
    filed = owners(empty)
    assert None not in filed.values()
    remove(empty, tmp_path)
    report = load(empty, *paths, source="s")
    assert report.complete
    assert counted(report) == records_in(paths)
    for name, ids in before.items():
        assert [one for one in current(empty, name) if one != "unrelated"] == ids
    assert owners(empty) == filed
    assert dangling_people(empty) == set()
    settled = stored(empty)
    again = load(empty, *paths, source="s")
    assert again.complete
    assert {outcome for counts in again.changes.values() for outcome in +counts} == {"same"}
    assert counted(again) == records_in(paths)
    assert stored(empty) == settled


@pytest.mark.parametrize("many", [1, 1_000])
@pytest.mark.parametrize("kind", INPUTS)
def test_an_import_that_is_killed_while_records_return_is_completed_by_the_next(
    empty, tmp_path, kind, many, monkeypatch
):
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    paths = INPUTS[kind](tmp_path)
    load(empty, *paths, source="s")
    before = {name: current(empty, name) for name in PEOPLE}
    delete_by_bundle(empty, tmp_path)
    begin(empty, paths[0], source="s")
    assert load(empty, *paths, source="s").complete
    assert {name: current(empty, name) for name in PEOPLE} == before
    assert dangling_people(empty) == set()


@pytest.mark.parametrize("many", [1, 1_000])
def test_a_creation_after_the_deletion_of_what_it_would_find_creates(
    take, empty, many, monkeypatch
):
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    take(patient("known", "1"), patient("one"))
    finds = visit(1, "POST")
    gone = bundle("batch", asked("DELETE", "Patient/known"))
    report = take(allergy("before", of="Patient?identifier=urn:mrn|1"), gone, finds)
    assert report.complete
    assert current(empty, "Patient") == [urn(1).removeprefix("urn:uuid:"), "one"]
    assert owners(empty)["a1"] == urn(1).removeprefix("urn:uuid:")


def test_a_history_after_older_content_of_its_resource_is_counted(take, empty):
    def version(number: int) -> dict[str, Any]:
        instant = f"202{number}-01-01T00:00:00.000+00:00"
        meta = {"versionId": str(number), "lastUpdated": instant}
        return patient("one", birthDate=f"197{number}", meta=meta)

    take(history(version(1), version(2)))
    both = [patient("one", birthDate="1971"), history(version(1), version(2), version(3))]
    report = take(*both)
    assert report.complete
    assert counted(report) == {"Patient": 2}
    assert asking(empty).read("Patient/one")["birthDate"] == "1973"
    settled = stored(empty)
    take(*both)
    assert stored(empty) == settled


@pytest.mark.parametrize("method", ["POST", "PUT", ""])
@pytest.mark.parametrize("returns", [False, True], ids=["new", "deleted before"])
def test_a_patient_who_waits_for_what_never_comes_is_found_by_a_condition(
    take, empty, tmp_path, method, returns
):
    """The organization's own parent is nowhere; the patient needs the organization."""
    nowhere = {"reference": "Organization?identifier=urn:clinic|none"}
    clinic = organization("clinic", "1", partOf=nowhere)
    one = patient("p1", "1", managingOrganization=CLINIC)
    condition = "identifier=urn:mrn|1"
    entry = {
        "POST": asked("POST", "Patient", one, urn(1), ifNoneExist=condition),
        "PUT": asked("PUT", f"Patient?{condition}", one, urn(1)),
        "": plain(one),
    }[method]
    records = [
        allergy("a", of=f"Patient?{condition}"),
        bundle("batch" if method else "collection", entry),
        clinic,
    ]
    take(*records)
    if returns:
        delete_by_bundle(empty, tmp_path)
        take(*records)
    assert owners(empty) == {"a": "p1"}
    assert dangling_people(empty) == set()
    assert asking(empty).read("Patient/p1")["managingOrganization"] == {
        "reference": "Organization/clinic"
    }


def test_a_record_that_waits_stays_behind_older_content_of_its_resource(take, empty, monkeypatch):
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", 1)
    first = allergy("a", of="Patient?identifier=urn:mrn|1", criticality="low")
    second = allergy("a", of="Patient?identifier=urn:mrn|1", criticality="high")
    third = allergy("a", of="Patient?identifier=urn:mrn|1", criticality="unable-to-assess")
    take(patient("p1", "1"), first, second)
    take(bundle("batch", asked("DELETE", "Patient/p1")))
    report = take(first, third, patient("p1", "1", gender="female"))
    assert report.complete
    assert asking(empty).read("AllergyIntolerance/a")["criticality"] == "unable-to-assess"


@pytest.mark.parametrize("together", [True, False], ids=["in one import", "in two"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_patient_who_returns_is_checked_against_one_with_a_shared_number(
    empty, tmp_path, together, order
):
    adam = write(tmp_path, document("adam", (HOUSEHOLD, "7"), (RECORD, "1")), "1.xml")
    eve = write(
        tmp_path, document("eve", (HOUSEHOLD, "7"), (RECORD, "2"), given="Eve", gender="F"), "2.xml"
    )
    assert load(empty, adam).complete
    delete_by_administrator(empty, tmp_path)
    if together:
        reports = [load(empty, *[adam, eve][::order])]
    else:
        reports = [load(empty, path) for path in [adam, eve][::order]]
    assert sum("rejected too, because" in fault for one in reports for fault in one.rejected) == 1
    assert len(current(empty, "Patient")) == 1
    assert len(current(empty, "AllergyIntolerance")) == 1
    assert len(current(empty, "DocumentReference")) == 1
    assert dangling_people(empty) == set()


@pytest.mark.parametrize("many", [1, 1_000])
def test_a_deferred_patient_of_a_document_is_checked_for_twins(empty, tmp_path, many, monkeypatch):
    """The clinic of the document waits for its parent, and so does the patient."""
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", many)
    clinic = (
        b'</patient><providerOrganization><id root="2.999.5" extension="1"/><name>Clinic</name>'
        b"</providerOrganization>"
    )
    adam, eve = (
        document(name, (RECORD, number), (HOUSEHOLD, "7"), given=name)
        for name, number in (("Adam", "1"), ("Eve", "2"))
    )
    adam = adam.replace(b"</patient>", clinic)
    resources = ccda.resources_of(adam, "adam.xml")
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
    assert counted(report) == records_in(documents) + Counter(Organization=1)


@pytest.mark.parametrize("order", [1, -1], ids=["patient first", "allergy first"])
@pytest.mark.parametrize("source", ["", "lab"])
def test_a_creation_does_not_take_the_patient_whose_id_it_has_for_its_own(
    take, empty, source, order
):
    take(patient("1", "100", birthDate="1970-01-02"), source="ehr" if source else "")
    mine = patient("1", "900", birthDate="1980-03-04")
    address = "https://x.example/Patient/1"
    entry = asked("POST", "Patient", mine, address, ifNoneExist="identifier=urn:mrn|900")
    batch = bundle("transaction", *[entry, put(allergy("a", of=address))][::order])
    report = take(batch, source=source)
    assert report.rejected_types["Patient"] == 1
    assert "1" not in owners(empty).values()


def test_a_creation_that_is_rejected_leaves_no_match_behind(take, empty):
    take(patient("1", "100", birthDate="1970"), source="ehr")
    mine = patient("1", "900", birthDate="1980")
    entry = asked("PUT", "Patient?identifier=urn:mrn|900", mine, urn(1))
    waits = allergy("a", of="Patient?identifier=urn:mrn|900")
    report = take(bundle("batch", entry), waits, source="lab")
    assert report.rejected_types["Patient"] == 1
    assert "1" not in owners(empty).values()
    assert versions(empty, "Patient") == [("Patient", "1", 1, False)]


def test_other_numbers_of_the_documents_do_not_matter(empty, tmp_path):
    """A number of another kind tells nothing: the two are one person."""
    load(empty, write(tmp_path, document("adam", (HOUSEHOLD, "7"), (RECORD, "1")), "1.xml"))
    delete_by_administrator(empty, tmp_path)
    other = document("adam", (HOUSEHOLD, "7"), (OTHER, "5"))
    assert load(empty, tmp_path / "1.xml", write(tmp_path, other, "2.xml")).complete
    assert len(current(empty, "Patient")) == 1
    assert dangling_people(empty) == set()
