"""What leads nowhere after an import is listed, whatever element it stands in, repaired or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchange.test_attachments import document
from tests.exchange.test_import_report import page
from tests.support.contract import SERVED
from tests.support.importing import allergy, asking, patient

NOBODY = {"reference": "Organization/nobody"}
BINARY = {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": "QUJD"}
SOURCE_URL = "http://hl7.org/fhir/4.0/StructureDefinition/extension-Attachment.url"


def origin(resource_id: str, *targets: str, **elements: Any) -> dict[str, Any]:
    """Return a Provenance of these targets."""
    return {
        "resourceType": "Provenance",
        "id": resource_id,
        "target": [{"reference": one} for one in targets],
        "recorded": "2024-01-01T00:00:00Z",
        "agent": [{"who": {"display": "somebody"}}],
        **elements,
    }


@pytest.mark.parametrize(
    "resource",
    [
        patient("one", managingOrganization=NOBODY),
        # No search parameter knows of these.
        patient("one", contact=[{"organization": NOBODY}]),
        patient("one", identifier=[{"value": "1", "assigner": NOBODY}]),
        {
            "resourceType": "Practitioner",
            "id": "d",
            "qualification": [{"code": {"text": "MD"}, "issuer": NOBODY}],
        },
        origin("v", "Practitioner/d", agent=[{"who": {"display": "x"}, "onBehalfOf": NOBODY}]),
        {**BINARY, "securityContext": NOBODY},
        patient("one", extension=[{"url": "http://x.example", "valueReference": NOBODY}]),
    ],
)
def test_a_reference_to_what_is_not_here_is_listed_wherever_it_stands(take, resource):
    report = take({"resourceType": "Practitioner", "id": "d"}, resource)
    assert report.complete
    assert report.kept == {"Organization/nobody": "Organization is not here"}
    assert take(resource).kept == {}


def test_a_reference_to_a_type_that_is_not_stored_is_listed(take):
    report = take(patient("one"), allergy("a", asserter={"reference": "PractitionerRole/x"}))
    assert report.kept == {"PractitionerRole/x": "PractitionerRole is not stored here"}


def test_many_references_to_one_are_listed_once_and_counted(take):
    asserter = {"reference": "Practitioner/x"}
    report = take(
        patient("one"), *(allergy(f"a{number}", asserter=asserter) for number in range(700))
    )
    assert report.kept == {"Practitioner/x": "Practitioner is not here"}
    assert report.kept_count == {"Practitioner is not here": 700}


OLD = [
    {"resourceType": "Patient", "id": "one", "careProvider": [{"reference": "Practitioner/x"}]},
    {
        "resourceType": "Practitioner",
        "id": "d",
        "practitionerRole": [{"managingOrganization": {"reference": "Organization/x"}}],
    },
    {
        "resourceType": "Encounter",
        "id": "e",
        "status": "finished",
        "class": "inpatient",
        "patient": {"reference": "Patient/one"},
        "reason": [{"text": "Rash"}],
        "incomingReferral": [{"reference": "ReferralRequest/x"}],
        "indication": [{"reference": "https://old.example/fhir/Condition/x"}],
    },
    {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "content": "QUJD"},
    document("doc", {"url": "Binary/b"}),
    origin(
        "v",
        "Patient/one",
        agent=[{"role": {"code": "author"}, "actor": {"reference": "Patient/gone"}}],
        entity=[{"role": "source", "type": {"code": "x"}, "reference": "DocumentReference/gone"}],
    ),
]


def test_after_a_repair_each_reference_that_leads_nowhere_is_listed(take, empty):
    assert take(*OLD).rejected_lines == len(OLD) - 1
    report = take(*OLD, repair=True)
    assert report.complete
    assert report.kept == {
        "Practitioner/x": "Practitioner is not here",
        "Organization/x": "Organization is not here",
        "ReferralRequest/x": "ReferralRequest is not stored here",
        "https://old.example/fhir/Condition/x": "leads to https://old.example/fhir/",
        "Patient/gone": "Patient is not here",
        "DocumentReference/gone": "DocumentReference is not here",
    }
    fhir = asking(empty)
    encounter = fhir.read("Encounter/e")
    assert encounter["reasonCode"] == [{"text": "Rash"}]
    assert encounter["class"]["code"] == "IMP"
    assert fhir.ids("Encounter?patient=one&class=IMP") == ["e"]
    assert fhir.ids("Patient?general-practitioner=Practitioner/x") == ["one"]
    assert fhir.read("DocumentReference/doc")["content"][0]["attachment"]["data"] == "QUJD"


def test_an_address_of_the_sources_server_leads_here_after_a_repair(take, empty):
    who = "https://old.example/fhir/Patient/one"
    old = origin("v", "Patient/one", agent=[{"whoUri": who}])
    report = take(patient("one"), old, repair=True, bases=["https://old.example/fhir/"])
    assert report.kept == {}
    found = asking(empty).read("Provenance/v")["agent"][0]["who"]
    assert found["reference"] == "Patient/one"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("Binary/gone", "Binary is not here"),
        ("https://ehr.example/fhir/Binary/1", "leads to https://ehr.example/fhir/"),
        ("https://ehr.example/scans/1.pdf", "leads to another server"),
        (
            "urn:uuid:0f0e0d0c-0b0a-4908-8706-050403020101",
            "no resource of this Bundle has that address",
        ),
    ],
)
def test_the_address_of_an_attachment_that_is_not_here_is_listed(take, empty, url, why):
    report = take(patient("one"), document("d", {"url": url}))
    assert report.complete
    assert report.kept == {url: why}
    found = asking(empty).read("DocumentReference/d")["content"][0]["attachment"]["url"]
    assert found.endswith(url)


def test_a_document_without_a_patient_may_have_its_bytes_elsewhere(take):
    url = {"url": "https://ehr.example/1.pdf"}
    take(patient("one"), document("d", url))
    nobodys = document("d", url)
    del nobodys["subject"]
    assert take(nobodys).changes["DocumentReference"] == {"changed": 1}


# Both data and url


def test_the_url_beside_data_is_kept_in_an_extension_and_reported(take, empty):
    url = "https://ehr.example/scans/1.pdf"
    both = document("d", {"contentType": "text/plain", "data": "QUJD", "url": url})
    report = take(patient("one"), both)
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
    # What this server answers has the address of the Binary beside the data, not another's.
    assert not take(served).remarks
    assert fhir.read("DocumentReference/d")["content"] == served["content"]


def test_without_a_url_of_its_own_an_attachment_has_no_extension(take, empty):
    take(patient("one"), document("d", {"contentType": "text/plain", "data": "QUJD"}))
    fhir = asking(empty)
    served = fhir.read("DocumentReference/d")
    assert "extension" not in served["content"][0]["attachment"]
    assert not take(served).remarks
    assert fhir.read("DocumentReference/d")["content"] == served["content"]


# What nobody can read


def test_a_provenance_whose_targets_are_not_here_is_reported_with_what_to_do(take, empty):
    lost = origin("lost", "Patient/one", "Observation/o")
    waiting = origin("waiting", "AllergyIntolerance/a")
    report = take(patient("one"), lost, waiting, origin("seen", "Patient/one"), provenance=False)
    assert report.complete
    assert report.unreachable == {
        "Provenance/lost": "its target Observation/o is not here",
        "Provenance/waiting": "its target AllergyIntolerance/a is not here",
    }
    ((advice, count),) = report.unreachable_count.items()
    assert "import the missing" in advice
    assert count == 2
    assert "cannot be read" in report.table()
    content = json.loads(json.dumps(report.content()))
    assert content["unreachable"] == report.unreachable
    assert content["unreachableCount"] == {advice: 2}
    text = page(report)
    assert "Stored, but unreadable" in text
    assert "Provenance/waiting" in text
    fhir = asking(empty)
    assert fhir.get("Provenance/waiting").status_code == 404
    assert fhir.get("Provenance/seen").status_code == 200
    assert take(allergy("a"), provenance=False).unreachable == {}
    assert fhir.get("Provenance/waiting").status_code == 200
    assert fhir.get("Provenance/lost").status_code == 404


def test_a_binary_that_no_document_carries_is_reported_with_what_to_do(take, empty):
    report = take({**BINARY, "id": "lone"}, BINARY, document("d", {"url": "Binary/b"}))
    assert report.unreachable == {"Binary/lone": "no document links to it"}
    ((advice, count),) = report.unreachable_count.items()
    assert "DocumentReference" in advice
    assert count == 1
    fhir = asking(empty)
    assert fhir.get("Binary/lone").status_code == 404
    assert fhir.get("Binary/b").status_code == 200
    take(patient("one"), document("e", {"url": "Binary/lone"}))
    assert fhir.get("Binary/lone").status_code == 200


def test_nothing_is_reported_of_what_is_whole(take):
    whole = [
        patient("one"),
        allergy("a"),
        document("d", {"data": "QUJD"}),
        origin("v", "Patient/one"),
    ]
    report = take(*whole)
    assert not report.unreachable
    assert not report.kept
    assert {"Provenance", "Binary"} < SERVED.keys()
