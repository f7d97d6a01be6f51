"""Conditional references in an import: resolved, or kept as they are and listed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import ALLERGY, PATIENT, asking, lines, load_lines, load_paths

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

NPI = "http://hl7.org/fhir/sid/us-npi"
DOCTOR: dict[str, Any] = {
    "resourceType": "Practitioner",
    "id": "dr",
    "identifier": [{"system": NPI, "value": "1"}],
}
OTHER: dict[str, Any] = {
    "resourceType": "Practitioner",
    "id": "other",
    "identifier": [{"system": NPI, "value": "2"}, {"system": "urn:x", "value": "same"}],
}
THIRD: dict[str, Any] = {
    "resourceType": "Practitioner",
    "id": "third",
    "identifier": [{"system": "urn:x", "value": "same"}],
}


@pytest.fixture(scope="module")
def clinic(make_app, tmp_path_factory):
    """Return an app with one patient and three practitioners."""
    app = make_app(seed=False)
    folder = tmp_path_factory.mktemp("clinic")
    assert load_lines(app, folder, PATIENT, DOCTOR, OTHER, THIRD).complete
    return app


def with_recorder(reference: str) -> dict[str, Any]:
    """Return the allergy with a recorder."""
    return {**ALLERGY, "recorder": {"reference": reference, "display": "Dr."}}


@pytest.mark.parametrize(
    "reference",
    [
        f"Practitioner?identifier={NPI}|1",
        f"Practitioner?identifier={NPI}%7C1",
        "Practitioner?identifier=1",
        "Practitioner?_id=dr",
    ],
)
def test_a_reference_by_what_one_resource_alone_has_is_resolved(clinic, tmp_path, reference):
    report = load_lines(clinic, tmp_path, with_recorder(reference))
    assert not report.kept
    assert asking(clinic).read("AllergyIntolerance/nuts")["recorder"] == {
        "reference": "Practitioner/dr",
        "display": "Dr.",
    }
    assert asking(clinic).ids("AllergyIntolerance?recorder=Practitioner/dr") == ["nuts"]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (f"Practitioner?identifier={NPI}|404", "Practitioner: none matches"),
        ("Practitioner?identifier=urn:x|same", "Practitioner: more than one matches"),
        ("Location?identifier=1", "Location is not served"),
        ("Practitioner?hobby=x", "Practitioner: hobby: is not a search parameter of this type"),
        ("Practitioner?identifier:in=x", "Practitioner: identifier:in: the modifier"),
        ("Practitioner?name.family=x", "Practitioner: name.family: "),
        ("Patient?identifier=", ""),
        ("Patient?identifier", ""),
        ("Patient?&", ""),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_kept_and_listed(
    clinic, tmp_path, reference, reason
):
    """With one patient only, a query that asks for nothing must not mean that patient."""
    report = load_lines(clinic, tmp_path, with_recorder(reference))
    assert report.complete
    assert list(report.kept) == [reference]
    assert report.kept[reference].startswith(reason)
    recorder = asking(clinic).read("AllergyIntolerance/nuts")["recorder"]
    assert recorder["reference"] == reference


def test_references_are_resolved_wherever_they_stand(clinic, tmp_path):
    doctor = {"reference": f"Practitioner?identifier={NPI}|1"}
    note = {"authorReference": doctor, "text": "seen"}
    extension = {"url": "urn:who", "valueReference": doctor}
    allergy = {**ALLERGY, "note": [note], "extension": [extension], "asserter": doctor}
    load_lines(clinic, tmp_path, allergy)
    found = asking(clinic).read("AllergyIntolerance/nuts")
    resolved = {"reference": "Practitioner/dr"}
    assert found["note"][0]["authorReference"] == resolved
    assert found["extension"][0]["valueReference"] == resolved
    assert found["asserter"] == resolved


def test_a_patient_that_is_named_conditionally_is_the_compartment(clinic, tmp_path):
    patient = {"resourceType": "Patient", "id": "two", "identifier": [{"value": "mrn-2"}]}
    allergy = {**ALLERGY, "id": "by-mrn", "patient": {"reference": "Patient?identifier=mrn-2"}}
    load_lines(clinic, tmp_path, patient, allergy)
    assert asking(clinic).ids("AllergyIntolerance?patient=two") == ["by-mrn"]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("Practitioner/nobody", "Practitioner is not here"),
        ("https://x.example/Practitioner?a=b", "leads to another server"),
        ("urn:uuid:1", "no resource of this Bundle has that address"),
        ("https://x.example/fhir/Practitioner/1", "leads to https://x.example/fhir/"),
    ],
)
def test_other_references_are_left_as_they_are(clinic, tmp_path, reference, reason):
    report = load_lines(clinic, tmp_path, with_recorder(reference))
    assert report.kept == {reference: reason}
    found = asking(clinic).read("AllergyIntolerance/nuts")
    assert found["recorder"]["reference"] == reference


def test_what_comes_later_in_the_run_is_found_too(make_app, tmp_path):
    app = make_app(seed=False)
    (tmp_path / "a.ndjson").write_bytes(
        lines(PATIENT, with_recorder(f"Practitioner?identifier={NPI}|1"))
    )
    (tmp_path / "b.ndjson").write_bytes(lines(DOCTOR))
    report = load_paths(app, tmp_path / "a.ndjson", tmp_path / "b.ndjson")
    assert not report.kept
    found = asking(app).read("AllergyIntolerance/nuts")["recorder"]
    assert found["reference"] == "Practitioner/dr"


def test_a_reference_that_was_kept_is_resolved_by_a_later_run(make_app, tmp_path):
    app = make_app(seed=False)
    allergy = with_recorder(f"Practitioner?identifier={NPI}|1")
    first = load_lines(app, tmp_path, PATIENT, allergy)
    assert first.kept == {allergy["recorder"]["reference"]: "Practitioner: none matches"}
    again = load_lines(app, tmp_path, PATIENT, allergy)
    assert again.changes["AllergyIntolerance"] == {"same": 1}
    later = load_lines(app, tmp_path, DOCTOR, allergy)
    assert not later.kept
    assert later.changes["AllergyIntolerance"] == {"changed": 1}
