"""service.md 2.2 and 3: DocumentReference, field by field, in every document that is served."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from tests.support.helpers import BASE_URL

ID = r"[A-Za-z0-9\-.]{1,64}"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?\+00:00")
DATE_TIME = re.compile(rf"\d{{4}}(-\d\d(-\d\d)?)?|{INSTANT.pattern}")
STATUS = "http://hl7.org/fhir/document-reference-status"
SCANS = "http://lakeside.example/fhir/scan-id"
CLINICAL_NOTE = {
    "coding": [
        {
            "system": "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
            "code": "clinical-note",
            "display": "Clinical Note",
        }
    ]
}


@pytest.fixture
def documents(fhir):
    """Every document that a search answers."""
    found = [entry["resource"] for entry in fhir.read("DocumentReference")["entry"]]
    assert len(found) > 50
    return found


@pytest.fixture
def attachments(documents):
    """Every attachment of these documents."""
    return [
        content["attachment"] for document in documents for content in document.get("content", ())
    ]


def test_each_document_is_named_and_versioned_as_it_is_read(documents, fhir):
    # 2.2 resourceType: DocumentReference.
    assert {document["resourceType"] for document in documents} == {"DocumentReference"}
    # 2.2 id: the id of the document.
    # 2.2 meta.versionId: the version of the resource, a string.
    versions = {document["id"]: document["meta"]["versionId"] for document in documents}
    assert len(versions) == len(documents)
    assert versions["doc-p1-discharge-2024"] == "3"
    for row_id in ("doc-p1-discharge-2024", "doc-p12-discharge-2023", "doc-p1-scan-2023"):
        response = fhir.get(f"DocumentReference/{row_id}")
        assert response.get_json(force=True)["id"] == row_id
        assert response.headers["ETag"] == f'W/"{versions[row_id]}"'
    for document in documents:
        assert re.fullmatch(ID, document["id"])
        # 2.2 meta.lastUpdated: with offset, in the +00:00 form.
        assert INSTANT.fullmatch(document["meta"]["lastUpdated"])
        # 2.2 date: when this version was made available.
        assert INSTANT.fullmatch(document["date"])


def test_a_scan_has_an_identifier_of_its_own(documents):
    """2.2 identifier: use, system and value; unique to a scan."""
    identifiers = [
        identifier for document in documents for identifier in document.get("identifier", ())
    ]
    for identifier in identifiers:
        assert identifier.keys() == {"use", "system", "value"}
    assert len({(identifier["system"], identifier["value"]) for identifier in identifiers}) == len(
        identifiers
    )
    scanned = [
        document
        for document in documents
        if any(
            content["attachment"]["contentType"].startswith("image/")
            for content in document.get("content", ())
        )
    ]
    assert len(scanned) == 2
    for one in scanned:
        assert [identifier["system"] for identifier in one["identifier"]] == [SCANS]


def test_the_status_is_of_the_value_set(documents, fhir):
    """2.2 status: bound to DocumentReferenceStatus."""
    by_status = {}
    for document in documents:
        by_status.setdefault(document["status"], set()).add(document["id"])
    assert by_status.keys() == {"current", "superseded", "entered-in-error"}
    for status, found in by_status.items():
        assert set(fhir.ids(f"DocumentReference?status={STATUS}|{status}")) == found


def test_a_document_that_holds_is_current(fhir):
    """3 DocumentReference.status: current."""
    assert fhir.read("DocumentReference/doc-p1-progress-2023")["status"] == "current"


def test_an_author_is_a_practitioner_here(documents, fhir):
    """2.2 author: of the form Practitioner/<practitioner_id>, save where none wrote it."""
    authors = {
        document["id"]: [author["reference"] for author in document["author"]]
        for document in documents
    }
    # FHIR R4 allows these too: a patient's own directive, and what came from another house.
    assert authors["doc-p5-directive-2024"].pop(0) == "Patient/p5"
    assert authors.pop("doc-p14-ed-2020") == ["Organization/org-lakeside"]
    assert authors.pop("doc-p1-scan-2023") == ["Organization/org-northgate"]
    assert authors["doc-p1-consult-2025"].pop() == "Organization/org-harbor"
    assert authors["doc-p6-pathology-2024"].pop() == "Organization/org-meridian"
    for author in {author for listed in authors.values() for author in listed}:
        assert re.fullmatch(rf"Practitioner/{ID}", author)
        fhir.read(author)


def references(document):
    """Return the references of a document, by type."""
    encounters = document.get("context", {}).get("encounter", ())
    return {
        "Patient": [document["subject"]["reference"]],
        "Organization": [document["custodian"]["reference"]],
        "Encounter": [encounter["reference"] for encounter in encounters],
    }


def test_subject_custodian_and_encounter_are_references_to_resources_here(documents, fhir):
    # 2.2 subject: of the form Patient/<patient_id>.
    # 2.2 custodian: of the form Organization/<organization_id>.
    # 2.2 context.encounter: of the form Encounter/<encounter_id>.
    for name, least in (("Patient", 10), ("Organization", 2), ("Encounter", 20)):
        found = {reference for document in documents for reference in references(document)[name]}
        assert len(found) >= least
        for reference in found:
            assert re.fullmatch(rf"{name}/{ID}", reference)
            fhir.read(reference)


def test_the_type_is_coded_in_loinc(documents):
    """2.2 type: coding with system, code and display; text where the source has one."""
    for document in documents:
        for coding in document["type"]["coding"]:
            assert coding.keys() == {"system", "code", "display"}
            assert coding["system"] == "http://loinc.org"
    assert "Consent to a procedure" in {document["type"].get("text") for document in documents}


def test_every_document_is_a_clinical_note_with_content_unless_a_result_has_none(documents):
    without = [document for document in documents if "content" not in document]
    assert {coding["code"] for document in without for coding in document["type"]["coding"]} == {
        "11502-2"
    }
    assert {document["subject"]["reference"] for document in without} == {
        "Patient/p9",
        "Patient/p10",
    }
    for document in documents:
        # 2.2 category: always the code clinical-note, display Clinical Note.
        assert document["category"].count(CLINICAL_NOTE) == 1
        for content in document.get("content", ()):
            # 2.2 content: attachment and format; absent where there is no scan or rendering.
            assert content.keys() == {"attachment", "format"}
            # 2.2 content[].format: system, code, display.
            assert content["format"].keys() == {"system", "code", "display"}


def test_attachments_are_the_bytes_of_their_binaries(attachments, fhir):
    media = {attachment["contentType"].partition(";")[0] for attachment in attachments}
    assert media == {"text/plain", "text/html", "application/pdf", "image/png"}
    for attachment in attachments:
        # 2.2 content[].attachment.url: of the form {base_url}/fhir/Binary/<binary_id>.
        assert re.fullmatch(rf"{re.escape(BASE_URL)}/fhir/Binary/{ID}", attachment["url"])
        response = fhir.get(attachment["url"].removeprefix(BASE_URL))
        # 2.2 content[].attachment.contentType: the media type of the rendering.
        assert response.content_type == attachment["contentType"]
        # 2.2 content[].attachment.data: base64 of the document.
        assert base64.b64decode(attachment["data"], validate=True) == response.data
        assert attachment["size"] == len(response.data)
        digest = hashlib.sha1(response.data, usedforsecurity=False).digest()
        assert attachment["hash"] == base64.b64encode(digest).decode()


def test_the_period_is_that_of_the_encounter(documents):
    """2.2 context.period: start and end, dateTime values."""
    periods = [
        document["context"]["period"]
        for document in documents
        if "period" in document.get("context", {})
    ]
    assert len(periods) > 40
    for period in periods:
        assert period.keys() <= {"start", "end"}
        assert period
        for value in period.values():
            assert DATE_TIME.fullmatch(value)
