"""A repair that changes an id changes what refers to it in the same Bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.importing import allergy, asked, asking, bundle, current, load, plain, put, write

UUID = "urn:uuid:0f0e0d0c-0b0a-4908-8706-050403020100"
CAPITALS = f"urn:uuid:{UUID.removeprefix('urn:uuid:').upper()}"


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def named(name: str, resource_id: Any = None) -> dict[str, Any]:
    """Return a patient of a name of its own, so that no other has the id that follows from it."""
    made: dict[str, Any] = {"resourceType": "Patient", "name": [{"text": name}]}
    return made if resource_id is None else {**made, "id": resource_id}


def read(app: Flask, name: str) -> Any:
    """Return a resource, Type/id."""
    response = asking(app).get(name)
    assert response.status_code == 200
    return response.json


@pytest.mark.parametrize(
    ("kind", "is_first"),
    [("transaction", True), ("batch", False), ("collection", False)],
    ids=["patient first", "patient last", "without requests"],
)
@pytest.mark.parametrize(
    ("address", "resource_id", "reference"),
    [
        ("urn:uuid:aa", None, "urn:uuid:aa"),
        ("urn:uuid:aa", None, "urn:uuid:AA"),
        ("urn:uuid:AA", None, "urn:uuid:aa"),
        ("urn:uuid:aa", "", "urn:uuid:aa"),
        ("urn:uuid:aa", " ", "urn:uuid:aa"),
        ("urn:uuid:aa", " p1 ", "urn:uuid:aa"),
        ("urn:uuid:aa", 5, "urn:uuid:aa"),
        ("urn:oid:1.2.3.4", None, "urn:oid:1.2.3.4"),
        ("urn:x-clinic:4", None, "urn:x-clinic:4"),
        (UUID, "", UUID),
        (UUID, 5, CAPITALS),
        ("https://ehr.example/fhir/Patient/a_b", None, "https://ehr.example/fhir/Patient/a_b"),
        ("https://ehr.example/fhir/Patient/a_b", None, "Patient/a_b"),
        ("https://ehr.example/fhir/Patient/a_b", None, "Patient/a_b/_history/1"),
        ("https://ehr.example/people?nr=4", None, "https://ehr.example/people?nr=4"),
        ("Patient/1", None, "Patient/1"),
        ("", " p2 ", "Patient/ p2 "),
        ("", 7, "Patient/7"),
    ],
)
def test_references_follow_an_id_that_is_repaired(
    kept, tmp_path, kind, is_first, address, resource_id, reference
):
    case = f"{kind} {is_first} {address} {resource_id} {reference}"
    form = asked if kind in ("transaction", "batch") else None
    pair = [named(case, resource_id), allergy(of=reference, code={"text": case})]
    addresses = [address, "urn:uuid:bb"]
    entries = [
        form("POST", resource["resourceType"], resource, full_url)
        if form
        else plain(resource, full_url)
        for resource, full_url in zip(pair, addresses, strict=True)
    ]
    path = write(tmp_path, bundle(kind, *(entries if is_first else entries[::-1])))
    before = {*current(kept, "AllergyIntolerance")}
    report = load(kept, path, repair=True)
    assert (report.rejected, report.kept) == ([], {})
    (made,) = {*current(kept, "AllergyIntolerance")} - before
    patient_id = read(kept, f"AllergyIntolerance/{made}")["patient"]["reference"].split("/")[1]
    assert read(kept, f"Patient/{patient_id}")["name"] == [{"text": case}]
    # Imported again, it is the same.
    assert not load(kept, path, repair=True).changes["Patient"].keys() - {"same"}


def test_a_prefix_goes_before_the_id_that_is_repaired(kept, tmp_path):
    for address, reference in (
        ("urn:uuid:aa", "urn:uuid:aa"),
        ("https://ehr.example/fhir/Patient/a_b", "Patient/a_b"),
        ("Patient/1", "Patient/1"),
    ):
        case = f"prefix {reference}"
        of = allergy("refers", of=reference)
        path = write(tmp_path, bundle("collection", plain(named(case), address), plain(of)))
        report = load(kept, path, repair=True, prefix="lab-")
        assert (report.rejected, report.kept) == ([], {})
        patient = read(kept, "AllergyIntolerance/lab-refers")["patient"]["reference"]
        assert patient.startswith("Patient/lab-")
        assert read(kept, patient)["name"] == [{"text": case}]


def test_references_in_contained_resources_and_extensions_follow(kept, tmp_path):
    document = {
        "resourceType": "DocumentReference",
        "id": "follows",
        "status": "current",
        "type": {"text": "Letter"},
        "contained": [
            {
                "resourceType": "AllergyIntolerance",
                "id": " inner ",
                "patient": {"reference": "urn:uuid:aa"},
                "code": {"text": "Latex"},
            }
        ],
        "subject": {"reference": "urn:uuid:aa"},
        "extension": [{"url": "urn:x", "valueReference": {"reference": "urn:uuid:aa"}}],
        "context": {"related": [{"reference": "# inner "}, {"reference": "#inner"}]},
        "content": [{"attachment": {"contentType": "text/plain", "data": "eA=="}}],
    }
    entries = [plain(document), plain(named("contained"), "urn:uuid:aa")]
    report = load(kept, write(tmp_path, bundle("collection", *entries)), repair=True)
    assert (report.rejected, report.kept) == ([], {})
    stored = read(kept, "DocumentReference/follows")
    patient = stored["subject"]["reference"]
    assert read(kept, patient)["name"] == [{"text": "contained"}]
    assert stored["contained"][0]["patient"]["reference"] == patient
    assert stored["extension"][-1]["valueReference"]["reference"] == patient
    assert stored["contained"][0]["id"] == "inner"
    assert [related["reference"] for related in stored["context"]["related"]] == ["#inner"] * 2
    changes = {(repaired.before, repaired.after) for repaired in report.repaired}
    assert ("# inner ", "#inner") in changes


@pytest.mark.parametrize("nested", [False, True], ids=["lines", "nested"])
def test_references_follow_in_bundles_of_bundles_and_of_lines(kept, tmp_path, nested):
    case = f"inner {nested}"
    entries = [plain(named(case), "urn:uuid:aa"), plain(allergy("deep", of="urn:uuid:aa"))]
    content: Any = bundle("collection", *entries)
    content = bundle("collection", plain(content)) if nested else content
    path = write(tmp_path, json.dumps(content).encode() + b"\n", "x.ndjson")
    report = load(kept, path, repair=True)
    assert (report.rejected, report.kept) == ([], {})
    patient = read(kept, "AllergyIntolerance/deep")["patient"]["reference"]
    assert read(kept, patient)["name"] == [{"text": case}]


def test_a_conditional_creation_without_an_id_is_referred_to(kept, tmp_path):
    number = {"system": "urn:mrn", "value": "conditional-1"}
    patient = {**named("conditional"), "identifier": [number]}
    post = asked("POST", "Patient", patient, "urn:uuid:aa", ifNoneExist="identifier=urn:mrn|none")
    entries = [put(allergy("conditional", of="urn:uuid:aa")), post]
    report = load(kept, write(tmp_path, bundle("transaction", *entries)), repair=True)
    assert (report.rejected, report.kept) == ([], {})
    patient = read(kept, "AllergyIntolerance/conditional")["patient"]["reference"]
    assert read(kept, patient)["name"] == [{"text": "conditional"}]


def test_uuids_are_compared_in_any_case_without_repairs_too(kept, tmp_path):
    entries = [plain(named("in capitals"), UUID), plain(allergy("capitals", of=CAPITALS))]
    report = load(kept, write(tmp_path, bundle("collection", *entries)))
    assert (report.rejected, report.kept) == ([], {})
    patient = read(kept, "AllergyIntolerance/capitals")["patient"]["reference"]
    assert read(kept, patient)["name"] == [{"text": "in capitals"}]


def test_an_address_that_no_entry_has_is_kept_as_it_is(kept, tmp_path):
    entries = [plain(named("alone"), "urn:uuid:aa"), plain(allergy("lost", of="urn:uuid:ab"))]
    report = load(kept, write(tmp_path, bundle("collection", *entries)), repair=True)
    assert report.kept == {"urn:uuid:ab": "no resource of this Bundle has that address"}
