"""References of imported records: conditional ones are resolved, dangling ones are listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.features.imports.report import page
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import asking, lines, load, load_lines, write
from tests.support.records import (
    ALLERGY,
    PATIENT,
    allergy,
    binary,
    document,
    origin,
    patient,
    practitioner,
)

NPI = "http://hl7.org/fhir/sid/us-npi"
DOCTOR = practitioner("dr", "1", NPI)
SAME = [{"system": "urn:x", "value": "same"}]
OTHER = {**DOCTOR, "id": "other", "identifier": [{"system": NPI, "value": "2"}, *SAME]}
BY_NPI = f"Practitioner?identifier={NPI}|1"
both_databases = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """An app with one patient and three practitioners."""
    app = make_app(seed=False)
    third = {**DOCTOR, "id": "third", "identifier": SAME}
    folder = tmp_path_factory.mktemp("clinic")
    assert load_lines(app, folder, PATIENT, DOCTOR, OTHER, third).complete
    return app


def recorded(reference: str) -> dict[str, Any]:
    """Return the allergy with a recorder."""
    return {**ALLERGY, "recorder": {"reference": reference, "display": "Dr."}}


@both_databases
def test_conditional_reference_with_one_match_is_resolved(clinic, tmp_path):
    fhir = asking(clinic)
    for reference in (
        BY_NPI, BY_NPI.replace("|", "%7C"), "Practitioner?identifier=1", "Practitioner?_id=dr",
    ):  # fmt: skip
        assert not load_lines(clinic, tmp_path, recorded(reference)).kept
        found = fhir.read("AllergyIntolerance/nuts")["recorder"]
        assert found == {"reference": "Practitioner/dr", "display": "Dr."}
        assert fhir.ids("AllergyIntolerance?recorder=Practitioner/dr") == ["nuts"]


@both_databases
def test_reference_that_cannot_be_resolved_is_kept_and_listed(clinic, tmp_path):
    """With one patient only, a query without a condition must not match that patient."""
    expected = {
        f"Practitioner?identifier={NPI}|404": "Practitioner: none matches",
        "Practitioner?identifier=urn:x|same": "Practitioner: more than one matches",
        "Location?identifier=1": "Location is not served",
        "Practitioner?hobby=x": "Practitioner: hobby: is not a search parameter of this type",
        "Practitioner?identifier:in=x": "Practitioner: identifier:in: the modifier",
        "Practitioner?name.family=x": "Practitioner: name.family: ",
        "Patient?identifier=": "",
        "Patient?identifier": "",
        "Patient?&": "",
        "Practitioner/nobody": "Practitioner is not here",
        "https://x.example/Practitioner?a=b": "leads to another server",
        "urn:uuid:1": "no resource of this Bundle has that address",
        "https://x.example/fhir/Practitioner/1": "leads to https://x.example/fhir/",
    }
    found = {}
    for reference, reason in expected.items():
        report = load_lines(clinic, tmp_path, recorded(reference))
        assert report.complete
        ((kept, said),) = report.kept.items()
        assert asking(clinic).read("AllergyIntolerance/nuts")["recorder"]["reference"] == kept
        found[kept] = said[: len(reason)]
    assert found == expected


def test_references_are_resolved_in_every_element(clinic, tmp_path):
    doctor = {"reference": BY_NPI}
    note = {"authorReference": doctor, "text": "seen"}
    extension = {"url": "urn:who", "valueReference": doctor}
    refers = {**ALLERGY, "note": [note], "extension": [extension], "asserter": doctor}
    load_lines(clinic, tmp_path, refers)
    found = asking(clinic).read("AllergyIntolerance/nuts")
    resolved = {"reference": "Practitioner/dr"}
    assert found["note"][0]["authorReference"] == resolved
    assert found["extension"][0]["valueReference"] == resolved
    assert found["asserter"] == resolved


def test_patient_of_a_conditional_reference_owns_the_record(clinic, tmp_path):
    load_lines(
        clinic, tmp_path, patient("two", "2"), allergy("by-mrn", of="Patient?identifier=urn:mrn|2")
    )
    assert asking(clinic).ids("AllergyIntolerance?patient=two") == ["by-mrn"]


@both_databases
def test_conditional_reference_is_resolved_by_a_later_file_or_import(empty, tmp_path):
    first = write(tmp_path, lines(PATIENT, recorded(BY_NPI)), "a.ndjson")
    assert load(empty, first).kept == {BY_NPI: "Practitioner: none matches"}
    assert load(empty, first).changes["AllergyIntolerance"] == {"same": 1}
    later = load(empty, first, write(tmp_path, lines(DOCTOR), "b.ndjson"))
    assert not later.kept
    assert later.changes["AllergyIntolerance"] == {"changed": 1}
    found = asking(empty).read("AllergyIntolerance/nuts")["recorder"]
    assert found["reference"] == "Practitioner/dr"


# Dangling references

NOBODY = {"reference": "Organization/nobody"}
SOURCE_URL = "http://hl7.org/fhir/4.0/StructureDefinition/extension-Attachment.url"


def test_dangling_reference_is_listed_in_every_element(module_app, tmp_path):
    """Most of these elements have no search parameter."""
    doctor = {"resourceType": "Practitioner", "id": "d"}
    qualification = [{"code": {"text": "MD"}, "issuer": NOBODY}]
    for resource in (
        patient("one", managingOrganization=NOBODY),
        patient("one", contact=[{"organization": NOBODY}]),
        patient("one", identifier=[{"value": "1", "assigner": NOBODY}]),
        {**doctor, "qualification": qualification},
        origin("v", "Practitioner/d", agent=[{"who": {"display": "x"}, "onBehalfOf": NOBODY}]),
        {**binary("b"), "securityContext": NOBODY},
        patient("one", extension=[{"url": "http://x.example", "valueReference": NOBODY}]),
    ):
        report = load_lines(module_app, tmp_path, doctor, resource)
        assert report.complete
        assert report.kept == {"Organization/nobody": "Organization is not here"}, resource
        assert load_lines(module_app, tmp_path, resource).kept == {}


def test_many_dangling_references_to_one_resource_are_listed_once_and_counted(take):
    asserter = {"reference": "Practitioner/x"}
    report = take(
        patient("one"), *(allergy(f"a{number}", asserter=asserter) for number in range(300))
    )
    assert report.kept == {"Practitioner/x": "Practitioner is not here"}
    assert report.kept.counts == {"Practitioner is not here": 300}


# Attachments whose bytes are not here


def test_url_of_an_attachment_that_is_not_here_is_listed(module_app, tmp_path):
    expected = {
        "Binary/gone": "Binary is not here",
        "https://ehr.example/fhir/Binary/1": "leads to https://ehr.example/fhir/",
        "https://ehr.example/scans/1.pdf": "leads to another server",
        "urn:uuid:0f0e0d0c-0b0a-4908-8706-050403020101": (
            "no resource of this Bundle has that address"
        ),
    }
    for url, reason in expected.items():
        report = load_lines(module_app, tmp_path, patient("one"), document("d", {"url": url}))
        assert report.complete
        assert report.kept == {url: reason}
        found = asking(module_app).read("DocumentReference/d")["content"][0]["attachment"]["url"]
        assert found.endswith(url)
    # Also where the document has no patient.
    report = load_lines(module_app, tmp_path, document("d", {"url": "https://x.example"}, of=""))
    assert report.changes["DocumentReference"] == {"changed": 1}


def test_url_beside_data_is_kept_in_an_extension_and_reported(take, empty):
    url = "https://ehr.example/scans/1.pdf"
    both = document("d", {"contentType": "text/plain", "data": "QUJD", "url": url})
    report = take(patient("one"), both, document("plain", {"data": "QUJD"}))
    ((remark, times),) = report.remarks.items()
    assert "DocumentReference.content.attachment.url" in remark
    assert "kept in an extension" in remark
    assert times == 1
    assert report.kept == {}
    fhir = asking(empty)
    served = fhir.read("DocumentReference/d")
    attachment = served["content"][0]["attachment"]
    assert attachment["extension"] == [{"url": SOURCE_URL, "valueUrl": url}]
    assert attachment["data"] == "QUJD"
    assert "/fhir/Binary/" in attachment["url"]
    assert take(both).changes["DocumentReference"] == {"same": 1}
    # A response of this server has the URL of its Binary beside the data, not another's.
    without = fhir.read("DocumentReference/plain")
    assert "extension" not in without["content"][0]["attachment"]
    for resource in (served, without):
        assert not take(resource).remarks
        found = fhir.read(f"DocumentReference/{resource['id']}")
        assert found["content"] == resource["content"]


# Records that nobody can read


def test_provenance_without_its_targets_is_reported_as_unreachable(take, empty):
    lost = origin("lost", "Patient/one", "Observation/o")
    waiting = origin("waiting", "AllergyIntolerance/a")
    report = take(patient("one"), lost, waiting, origin("seen", "Patient/one"), provenance=False)
    assert report.complete
    assert report.unreachable == {
        "Provenance/lost": "its target Observation/o is not here",
        "Provenance/waiting": "its target AllergyIntolerance/a is not here",
    }
    ((advice, count),) = report.unreachable.counts.items()
    assert "import the missing" in advice
    assert count == 2
    content = json.loads(json.dumps(report.content()))
    assert content["unreachable"] == report.unreachable
    assert content["unreachableCount"] == {advice: 2}
    for text in (report.table(), page(report)):
        assert "read" in text
        assert advice in text
    assert "Provenance/waiting" in page(report)

    def status(resource_id: str) -> int:
        return asking(empty).get(f"Provenance/{resource_id}").status_code

    assert [status(resource_id) for resource_id in ("waiting", "seen")] == [404, 200]
    assert take(allergy("a"), provenance=False).unreachable == {}
    assert [status(resource_id) for resource_id in ("waiting", "lost")] == [200, 404]


def test_binary_without_a_document_is_reported_as_unreachable(take, empty):
    report = take(binary("lone"), binary("b"), document("d", {"url": "Binary/b"}, of="one"))
    assert report.unreachable == {"Binary/lone": "no document links to it"}
    ((advice, count),) = report.unreachable.counts.items()
    assert "DocumentReference" in advice
    assert count == 1
    fhir = asking(empty)
    assert fhir.get("Binary/lone").status_code == 404
    assert fhir.get("Binary/b").status_code == 200
    take(patient("one"), document("e", {"url": "Binary/lone"}))
    assert fhir.get("Binary/lone").status_code == 200
