"""Imports of transactions and batches: conditional creations and updates, and deletions."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.support.bundles import asked, bundle, put
from tests.support.importing import asking
from tests.support.records import allergy, organization, patient, practitioner
from tests.support.stored import current, stored, versions

_NUMBERS = count(1000)
BY_NUMBER = "identifier=urn:mrn|1"


def urn() -> str:
    """Return an address that no other entry has."""
    return f"urn:uuid:00000000-0000-4000-8000-{next(_NUMBERS):012}"


def creation(address: str, **elements: Any) -> Any:
    """Return an entry that creates a patient unless one with the number 1 is there."""
    return asked("POST", "Patient", patient(mrn="1", **elements), address, ifNoneExist=BY_NUMBER)


def visit(allergy_id: str, *, is_first: bool = True, **elements: Any) -> dict[str, Any]:
    """Return a transaction as each visit sends it: a patient if there is none, and an allergy."""
    address = urn()
    entries = [creation(address, **elements), put(allergy(allergy_id, of=address))]
    return bundle("transaction", *(entries if is_first else reversed(entries)))


def test_creation_that_matches_a_patient_changes_nothing_and_refers_to_that_one(take, empty):
    take(patient("known", "1", gender="male"))
    report = take(visit("a", is_first=False, gender="female"))
    assert report.changes == {"AllergyIntolerance": {"new": 1}, "Patient": {"same": 1}}
    assert asking(empty).read("Patient/known")["gender"] == "male"
    assert asking(empty).ids("AllergyIntolerance?patient=known") == ["a"]


def test_creation_that_matches_its_own_patient_changes_nothing(take, empty):
    address = urn()
    take(bundle("transaction", creation(address, gender="male")))
    take(bundle("transaction", creation(address, gender="female")))
    (entry,) = asking(empty).read(f"Patient?{BY_NUMBER}")["entry"]
    assert entry["resource"]["gender"] == "male"


def test_creation_with_two_matches_is_rejected(take, empty):
    take(patient("one", "1"), patient("two", "1"))
    (fault,) = take(bundle("transaction", creation(urn()))).faults
    assert fault.message == f"Patient?{BY_NUMBER}: Patient: more than one matches"
    assert current(empty, "Patient") == ["one", "two"]


@pytest.mark.parametrize("is_first", [True, False], ids=["patient first", "allergy first"])
def test_two_bundles_that_create_the_same_patient_create_one(take, empty, is_first):
    bundles = [visit("a", is_first=is_first), visit("b", is_first=is_first)]
    assert take(*bundles).complete
    (patient_id,) = current(empty, "Patient")
    assert sorted(asking(empty).ids(f"AllergyIntolerance?patient={patient_id}")) == ["a", "b"]
    before = stored(empty)
    assert take(*bundles).complete
    assert take(*reversed(bundles)).complete
    assert stored(empty) == before


@pytest.mark.parametrize("order", [1, -1], ids=["resource first", "creation first"])
def test_creation_matches_a_resource_of_the_same_batch(take, empty, order):
    contents = [patient("known", "1"), visit("a")][::order]
    take(*contents)
    found = current(empty, "Patient")
    assert take(*contents).complete
    assert current(empty, "Patient") == found
    if order == 1:
        assert found == ["known"]


def test_creations_that_wait_for_a_reference_create_one_patient(take, empty):
    clinic = {"reference": "Organization?identifier=urn:clinic|1"}
    bundles = [visit(allergy_id, managingOrganization=clinic) for allergy_id in "ab"]
    assert not take(*bundles, organization("clinic")).kept
    (patient_id,) = current(empty, "Patient")
    assert sorted(asking(empty).ids(f"AllergyIntolerance?patient={patient_id}")) == ["a", "b"]


@pytest.mark.parametrize("known", ["known", ""])
def test_conditional_update_changes_its_match_or_creates(take, empty, known):
    if known:
        take(patient(known, "1", gender="male"))
    address = urn()
    update = asked("PUT", f"Patient?{BY_NUMBER}", patient(mrn="1", gender="female"), address)
    content = bundle("batch", put(allergy("a", of=address)), update)
    assert take(content).changes["Patient"] == ({"changed": 1} if known else {"new": 1})
    patient_id = known or address.removeprefix("urn:uuid:")
    assert current(empty, "Patient") == [patient_id]
    assert asking(empty).read(f"Patient/{patient_id}")["gender"] == "female"
    assert asking(empty).ids(f"AllergyIntolerance?patient={patient_id}") == ["a"]
    assert take(content).changes == {"AllergyIntolerance": {"same": 1}, "Patient": {"same": 1}}


def test_last_of_several_conditional_updates_of_one_import_counts(take, empty):
    """As in a folder of what was sent day by day, imported again from its beginning."""
    days = [
        bundle("transaction", asked("PUT", f"Patient?{BY_NUMBER}", patient(mrn="1", **day), urn()))
        for day in ({"gender": "male"}, {"gender": "female"}, {"gender": "other"})
    ]
    for _ in range(3):
        assert take(*days).complete
        assert [row[2:] for row in versions(empty, "Patient")] == [(1, False)]
    (entry,) = asking(empty).read(f"Patient?{BY_NUMBER}")["entry"]
    assert entry["resource"]["gender"] == "other"


def test_condition_that_is_no_valid_search_rejects_its_entry_alone(take, empty):
    conditions = {
        "identifier=": "the query has no condition",
        "nonsense=1": "nonsense: is not a search parameter",
        "_id=1&": "",
        "identifier=urn:mrn|1\ud800": "",
        "identifier=" + ",".join(f"urn:mrn|{number}" for number in range(40_000)): "",
        "identifier=a\0b": "",
        "birthdate=nonsense": "birthdate: ",
        "identifier=a b": "is not a condition",
    }
    bundles = [
        bundle(
            "transaction",
            put(patient(f"before{place}", "1")),
            asked("POST", "Patient", patient(f"new{place}"), urn(), ifNoneExist=condition),
            put(patient(f"after{place}")),
        )
        for place, condition in enumerate(conditions)
    ]
    report = take(*bundles)
    for place, reason in enumerate(conditions.values(), 1):
        faults = [str(fault) for fault in report.faults if f".ndjson:{place}," in fault.place]
        assert reason in "".join(faults)
        assert bool(faults) or not reason
        around = {f"before{place - 1}", f"after{place - 1}"}
        assert around <= {*current(empty, "Patient")}


def test_gets_outcomes_and_entries_without_resources_are_ignored(take, empty):
    asks = bundle("batch", asked("GET", "Patient?name=x"), asked("HEAD", "Patient/x"))
    assert take(asks).complete
    outcome = {"resourceType": "OperationOutcome", "issue": []}
    found = bundle(
        "searchset",
        {"resource": outcome, "search": {"mode": "outcome"}},
        {"resource": patient("found"), "search": {"mode": "match"}},
        {"resource": patient("beside"), "search": {"mode": "include"}},
        {"fullUrl": "https://source.example/fhir/Patient/none"},
    )
    report = take(found)
    assert (report.complete, report.skipped) == (True, {})
    assert current(empty, "Patient") == ["beside", "found"]


# Deletions


def test_deletion_is_a_version_and_its_repetition_is_none(take, empty):
    take(patient("one"), allergy("gone"), allergy("stays"))
    gone = bundle("transaction", asked("DELETE", "AllergyIntolerance/gone"))
    assert take(gone).changes == {"AllergyIntolerance": {"deleted": 1}}
    assert asking(empty).get("AllergyIntolerance/gone").status_code == 410
    assert current(empty, "AllergyIntolerance") == ["stays"]
    before = stored(empty)
    take(gone, bundle("batch", asked("DELETE", "Patient/never"), asked("DELETE", "Basic/1")))
    assert stored(empty) == before


def test_record_that_is_put_and_deleted_stays_deleted_when_both_are_imported_again(take, empty):
    """As in a folder of what was sent day by day, imported from its beginning."""
    contents = [
        patient("one"),
        bundle("transaction", put(allergy("brief"))),
        bundle("transaction", asked("DELETE", "AllergyIntolerance/brief")),
    ]
    # The last of them counts: nothing is deleted that was never here.
    for _ in range(2):
        assert take(*contents).complete
        assert versions(empty, "AllergyIntolerance") == []
    take(*contents[:2])
    for _ in range(2):
        take(*contents)
        assert [row[2:] for row in versions(empty, "AllergyIntolerance")] == [(1, False), (2, True)]


def test_deletion_of_a_record_that_waits_for_a_reference_comes_after_it(take, empty):
    waits = allergy("brief", recorder={"reference": "Practitioner?identifier=urn:doctor|1"})
    both = bundle("batch", put(waits), asked("DELETE", "AllergyIntolerance/brief"))
    take(patient("one"), both, practitioner("dr"))
    assert current(empty, "AllergyIntolerance") == []


def test_record_that_is_put_after_its_deletion_is_current(take, empty):
    take(
        bundle("batch", put(patient("back")), asked("DELETE", "Patient/back")),
        bundle("batch", put(patient("back", gender="female"))),
    )
    assert current(empty, "Patient") == ["back"]
    assert asking(empty).read("Patient/back")["gender"] == "female"
    assert [row[2:] for row in versions(empty, "Patient")] == [(1, False)]
