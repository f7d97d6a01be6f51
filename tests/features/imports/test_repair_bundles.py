"""Repairs of ids in Bundles: the references in the same Bundle follow."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from tests.support.bundles import asked, bundle, plain, put
from tests.support.importing import asking, lines
from tests.support.records import allergy, document, inline
from tests.support.stored import current

UUID = "urn:uuid:0f0e0d0c-0b0a-4908-8706-050403020100"
CAPITALS = f"urn:uuid:{UUID.removeprefix('urn:uuid:').upper()}"
EHR = "https://ehr.example/fhir/Patient/a_b"


def named(name: str, resource_id: Any = None) -> dict[str, Any]:
    """Return a patient of a name of its own, so that no other has the id that follows from it."""
    made: dict[str, Any] = {"resourceType": "Patient", "name": [{"text": name}]}
    return made if resource_id is None else {**made, "id": resource_id}


def patient_of(app: Flask, allergy_id: str) -> tuple[str, str]:
    """Return the reference to the patient of an allergy, and that patient's name."""
    fhir = asking(app)
    reference = fhir.read(f"AllergyIntolerance/{allergy_id}")["patient"]["reference"]
    return reference, fhir.read(reference)["name"][0]["text"]


# The address of an entry, the id of its patient, and a reference to it.
REPAIRED_IDS: list[tuple[str, Any, str]] = [
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
    (UUID, 6, CAPITALS),
    (EHR, None, EHR),
    (EHR, None, "Patient/a_b"),
    (EHR, None, "Patient/a_b/_history/1"),
    ("https://ehr.example/people?nr=4", None, "https://ehr.example/people?nr=4"),
    ("Patient/1", None, "Patient/1"),
    ("", " p2 ", "Patient/ p2 "),
    ("", 7, "Patient/7"),
]


@pytest.mark.parametrize("kind", ["transaction", "collection"])
def test_references_follow_a_repaired_id(take, empty, kind):
    bundles = []
    for place, (address, resource_id, reference) in enumerate(REPAIRED_IDS):
        case = f"case {place}"
        pair = [named(case, resource_id), allergy(of=reference, code={"text": case})]
        entries = [
            plain(resource, full_url)
            if kind == "collection"
            else asked("POST", resource["resourceType"], resource, full_url)
            for resource, full_url in zip(pair, (address, "urn:uuid:bb"), strict=True)
        ]
        bundles.append(bundle(kind, *(entries if kind == "transaction" else entries[::-1])))
    report = take(*bundles, repair=True)
    assert (report.rejected, report.kept) == ([], {})
    found = {}
    for allergy_id in current(empty, "AllergyIntolerance"):
        code = asking(empty).read(f"AllergyIntolerance/{allergy_id}")["code"]["text"]
        found[code] = patient_of(empty, allergy_id)[1]
    assert found == {f"case {place}": f"case {place}" for place in range(len(REPAIRED_IDS))}
    # Imported again, it is the same.
    assert not take(*bundles, repair=True).changes["Patient"].keys() - {"same"}


def test_prefix_is_added_to_a_repaired_id(module_app, import_file):
    for address, reference in (
        ("urn:uuid:aa", "urn:uuid:aa"),
        (EHR, "Patient/a_b"),
        ("Patient/1", "Patient/1"),
    ):
        case = f"prefix {reference}"
        refers = plain(allergy("refers", of=reference))
        content = bundle("collection", plain(named(case), address), refers)
        report = import_file(content, repair=True, prefix="lab-")
        assert (report.rejected, report.kept) == ([], {})
        found, name = patient_of(module_app, "lab-refers")
        assert found.startswith("Patient/lab-")
        assert name == case


def test_references_in_contained_resources_and_extensions_follow(module_app, import_file):
    of = {"reference": "urn:uuid:aa"}
    contained = {**allergy(" inner ", of="urn:uuid:aa"), "code": {"text": "Latex"}}
    refers = document(
        "follows",
        inline("x"),
        of="",
        subject=of,
        type={"text": "Letter"},
        contained=[contained],
        extension=[{"url": "urn:x", "valueReference": of}],
        context={"related": [{"reference": "# inner "}, {"reference": "#inner"}]},
    )
    content = bundle("collection", plain(refers), plain(named("contained"), "urn:uuid:aa"))
    report = import_file(content, repair=True)
    assert (report.rejected, report.kept) == ([], {})
    fhir = asking(module_app)
    stored = fhir.read("DocumentReference/follows")
    patient = stored["subject"]["reference"]
    assert fhir.read(patient)["name"] == [{"text": "contained"}]
    assert stored["contained"][0]["patient"]["reference"] == patient
    assert stored["extension"][-1]["valueReference"]["reference"] == patient
    assert stored["contained"][0]["id"] == "inner"
    assert [related["reference"] for related in stored["context"]["related"]] == ["#inner"] * 2
    changes = {(repaired.before, repaired.after) for repaired in report.repaired}
    assert ("# inner ", "#inner") in changes


@pytest.mark.parametrize("is_nested", [False, True], ids=["line", "nested"])
def test_references_follow_in_bundles_of_bundles_and_of_lines(module_app, import_file, is_nested):
    case = f"nested {is_nested}"
    refers = plain(allergy("deep", of="urn:uuid:aa"))
    content = bundle("collection", plain(named(case), "urn:uuid:aa"), refers)
    content = bundle("collection", plain(content)) if is_nested else content
    report = import_file(lines(content), "x.ndjson", repair=True)
    assert (report.rejected, report.kept) == ([], {})
    assert patient_of(module_app, "deep")[1] == case


def test_references_follow_to_a_conditional_creation_without_an_id(module_app, import_file):
    number = {"system": "urn:mrn", "value": "conditional-1"}
    patient = {**named("conditional"), "identifier": [number]}
    post = asked("POST", "Patient", patient, "urn:uuid:aa", ifNoneExist="identifier=urn:mrn|none")
    content = bundle("transaction", put(allergy("conditional", of="urn:uuid:aa")), post)
    report = import_file(content, repair=True)
    assert (report.rejected, report.kept) == ([], {})
    assert patient_of(module_app, "conditional")[1] == "conditional"


def test_uuids_are_compared_without_case_even_without_repairs(module_app, import_file):
    refers = plain(allergy("capitals", of=CAPITALS))
    report = import_file(bundle("collection", plain(named("in capitals"), UUID), refers))
    assert (report.rejected, report.kept) == ([], {})
    assert patient_of(module_app, "capitals")[1] == "in capitals"
