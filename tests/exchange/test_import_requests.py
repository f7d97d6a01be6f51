"""Importing transactions and batches: creations and changes with a condition, and deletions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

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

_NUMBERS = count(1000)


@pytest.fixture
def take(empty: Flask, tmp_path: Path) -> Callable[..., Any]:
    """Return what imports resources and Bundles, each on a line of one file."""
    return lambda *contents: load(empty, write(tmp_path, lines(*contents), "x.ndjson"))


def urn() -> str:
    """Return an address that no other entry has."""
    return f"urn:uuid:00000000-0000-4000-8000-{next(_NUMBERS):012}"


def created(mrn: str, resource: dict[str, Any] | None = None, address: str = "") -> Any:
    """Return an entry that creates a patient unless one with this number is there."""
    new = resource or patient(mrn=mrn)
    condition = f"identifier=urn:mrn|{mrn}"
    return asked("POST", "Patient", new, address or urn(), ifNoneExist=condition)


def visit(mrn: str, name: str, allergy_first: bool = False) -> dict[str, Any]:
    """Return a transaction as each visit sends it: a patient if there is none, and an allergy."""
    address = urn()
    entries = [created(mrn, address=address), put(allergy(name, of=address))]
    return bundle("transaction", *(reversed(entries) if allergy_first else entries))


def test_a_creation_that_finds_one_changes_nothing_and_that_one_is_meant(take, empty):
    take(patient("known", "1", gender="male"))
    address = urn()
    entry = created("1", patient(mrn="1", gender="female"), address)
    report = take(bundle("transaction", put(allergy("a", of=address)), entry))
    assert report.changes == {"AllergyIntolerance": {"new": 1}, "Patient": {"same": 1}}
    assert asking(empty).read("Patient/known")["gender"] == "male"
    assert asking(empty).ids("AllergyIntolerance?patient=known") == ["a"]


def test_a_creation_that_finds_its_own_former_self_changes_nothing(take, empty):
    address = urn()
    take(bundle("transaction", created("1", patient(mrn="1", gender="male"), address)))
    take(bundle("transaction", created("1", patient(mrn="1", gender="female"), address)))
    assert [one["gender"] for one in _patients(empty)] == ["male"]


def _patients(app: Flask) -> list[dict[str, Any]]:
    found = asking(app).read("Patient?identifier=urn:mrn|1")
    return [one["resource"] for one in found.get("entry", ())]


def test_a_creation_that_finds_two_is_refused(take, empty):
    take(patient("one", "1"), patient("two", "1"))
    report = take(bundle("transaction", created("1")))
    assert (
        report.faults[0].message == "Patient?identifier=urn:mrn|1: Patient: more than one matches"
    )
    assert current(empty, "Patient") == ["one", "two"]


@pytest.mark.parametrize("first", [False, True], ids=["patient first", "allergy first"])
def test_two_bundles_that_create_the_same_patient_create_one(take, empty, first):
    bundles = [visit("1", "a", first), visit("1", "b", first)]
    assert take(*bundles).complete
    (patient_id,) = current(empty, "Patient")
    assert sorted(asking(empty).ids(f"AllergyIntolerance?patient={patient_id}")) == ["a", "b"]
    before = stored(empty)
    assert take(*bundles).complete
    assert take(*reversed(bundles)).complete
    assert stored(empty) == before


@pytest.mark.parametrize("order", [1, -1], ids=["resource first", "creation first"])
def test_a_creation_finds_a_resource_of_the_same_batch(take, empty, order):
    contents = [patient("known", "1"), visit("1", "a")]
    take(*contents[::order])
    found = len(current(empty, "Patient"))
    again = take(*contents[::order])
    assert again.complete
    # Whether it was there at first or not, it is not made again.
    assert len(current(empty, "Patient")) == found
    if order == 1:
        assert current(empty, "Patient") == ["known"]


def test_creations_that_wait_for_a_reference_create_one_all_the_same(take, empty):
    clinic = {"reference": "Organization?identifier=urn:clinic|1"}
    bundles = []
    for name in ("a", "b"):
        address = urn()
        new = created("1", patient(mrn="1", managingOrganization=clinic), address)
        bundles.append(bundle("transaction", new, put(allergy(name, of=address))))
    organization = {
        "resourceType": "Organization",
        "id": "clinic",
        "identifier": [{"system": "urn:clinic", "value": "1"}],
        "name": "Clinic",
    }
    report = take(*bundles, organization)
    assert not report.kept
    (patient_id,) = current(empty, "Patient")
    assert sorted(asking(empty).ids(f"AllergyIntolerance?patient={patient_id}")) == ["a", "b"]


def test_a_change_with_a_condition_changes_the_one_that_it_finds(take, empty):
    take(patient("known", "1", gender="male"))
    address = urn()
    url = "Patient?identifier=urn:mrn|1"
    entry = asked("PUT", url, patient(mrn="1", gender="female"), address)
    one = bundle("batch", put(allergy("a", of=address)), entry)
    report = take(one)
    assert report.changes["Patient"] == {"changed": 1}
    assert asking(empty).read("Patient/known")["gender"] == "female"
    assert asking(empty).ids("AllergyIntolerance?patient=known") == ["a"]
    assert take(one).changes == {"AllergyIntolerance": {"same": 1}, "Patient": {"same": 1}}


def test_a_change_with_a_condition_that_finds_none_creates(take, empty):
    address = urn()
    one = bundle(
        "transaction",
        asked("PUT", "Patient?identifier=urn:mrn|7", patient(mrn="7"), address),
        put(allergy("a", of=address)),
    )
    take(one)
    assert current(empty, "Patient") == [address.removeprefix("urn:uuid:")]
    assert take(one).changes == {"AllergyIntolerance": {"same": 1}, "Patient": {"same": 1}}


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("identifier=", "the query has no condition"),
        ("nonsense=1", "nonsense: is not a search parameter"),
        ("_id=1&", ""),
        ("identifier=urn:mrn|1\ud800", ""),
        ("identifier=" + ",".join(f"urn:mrn|{one}" for one in range(40_000)), ""),
        ("identifier=a\0b", ""),
        ("birthdate=nonsense", "birthdate: "),
        ("identifier=a b", "is not a condition"),
    ],
)
def test_a_condition_that_cannot_be_asked_refuses_its_entry_alone(take, empty, condition, reason):
    new = asked("POST", "Patient", patient("new"), urn(), ifNoneExist=condition)
    one = bundle("transaction", put(patient("before", "1")), new, put(patient("after")))
    report = take(one)
    assert reason in "".join(report.rejected)
    assert {"before", "after"} <= {*current(empty, "Patient")}


def test_gets_and_outcomes_ask_for_nothing(take, empty):
    one = bundle("batch", asked("GET", "Patient?name=x"), asked("HEAD", "Patient/x"))
    assert take(one).complete
    outcome = {"resourceType": "OperationOutcome", "issue": []}
    found = bundle(
        "searchset",
        {"resource": outcome, "search": {"mode": "outcome"}},
        {"resource": patient("found"), "search": {"mode": "match"}},
        {"resource": patient("beside"), "search": {"mode": "include"}},
        {"fullUrl": "https://source.example/fhir/Patient/none"},
    )
    report = take(found)
    assert report.complete
    assert not report.skipped
    assert current(empty, "Patient") == ["beside", "found"]


def test_a_deletion_is_a_version_and_a_second_one_is_none(take, empty):
    take(patient("one"), allergy("gone"), allergy("stays"))
    gone = bundle("transaction", asked("DELETE", "AllergyIntolerance/gone"))
    assert take(gone).changes == {"AllergyIntolerance": {"deleted": 1}}
    assert asking(empty).get("AllergyIntolerance/gone").status_code == 410
    assert current(empty, "AllergyIntolerance") == ["stays"]
    before = stored(empty)
    take(gone, bundle("batch", asked("DELETE", "Patient/never"), asked("DELETE", "Basic/1")))
    assert stored(empty) == before


def test_what_is_put_and_deleted_stays_deleted_however_often_it_comes(take, empty):
    """As in a folder of what was sent day by day, imported from its beginning."""
    contents = [
        patient("one"),
        bundle("transaction", put(allergy("brief"))),
        bundle("transaction", asked("DELETE", "AllergyIntolerance/brief")),
    ]
    take(*contents)
    assert versions(empty, "AllergyIntolerance") == [
        ("AllergyIntolerance", "brief", 1, False),
        ("AllergyIntolerance", "brief", 2, True),
    ]
    take(*contents)
    assert current(empty, "AllergyIntolerance") == []
    assert len(versions(empty, "AllergyIntolerance")) == 2


def test_a_deletion_after_what_waits_for_a_reference_comes_after_it(take, empty):
    waits = allergy("brief", recorder={"reference": "Practitioner?identifier=urn:x|1"})
    take(
        patient("one"),
        bundle("batch", put(waits), asked("DELETE", "AllergyIntolerance/brief")),
        {
            "resourceType": "Practitioner",
            "id": "dr",
            "identifier": [{"system": "urn:x", "value": "1"}],
        },
    )
    assert current(empty, "AllergyIntolerance") == []


def test_what_comes_after_its_deletion_is_there(take, empty):
    take(
        bundle("batch", put(patient("back")), asked("DELETE", "Patient/back")),
        bundle("batch", put(patient("back", gender="female"))),
    )
    assert [one[2:] for one in versions(empty, "Patient")] == [(1, False), (2, True), (3, False)]


def test_a_bundle_within_a_bundle_is_taken_apart_too(take, empty):
    inner = bundle("document", plain(patient("inner"), "urn:uuid:1"))
    report = take(bundle("searchset", plain(inner), plain(patient("outer"))))
    assert report.complete
    assert current(empty, "Patient") == ["inner", "outer"]
