"""Binary: the bytes of attachments. decisions 2.18, §6; FHIR R4 binary."""

from __future__ import annotations

import base64

import pytest
from werkzeug.http import parse_options_header

from fhirapp.resources.binary.content import content_disposition
from tests.support.binaries import store
from tests.support.contract import delete, publish
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir, assert_outcome, token_for

PDF = "Binary/bin-p2-pathology-2023"
HTML = "Binary/bin-p13-progress-2025"
LATER = "Sun, 20 Dec 2026 00:00:00 GMT"


BYTES_WANTED = [None, "*/*", "application/pdf", "application/pdf, */*;q=0.1", "image/*, */*"]


def test_the_bytes_are_sent_unless_json_is_asked_for(fhir):
    for accept in BYTES_WANTED:
        response = fhir.get(PDF, headers={"Accept": accept} if accept else {})
        assert response.status_code == 200
        assert response.content_type == "application/pdf"
        assert response.data.startswith(b"%PDF-")


OTHER_ACCEPTED = [
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "application/*",
]


def test_json_must_be_asked_for_by_name(fhir):
    for accept in OTHER_ACCEPTED:
        assert fhir.get(PDF, headers={"Accept": accept}).content_type == "application/pdf"


JSON_WANTED = [
    ("", FHIR_JSON),
    ("", "application/json"),
    ("?_format=json", "*/*"),
    ("", "application/fhir+json, */*;q=0.1"),
    ("", "application/fhir+json; fhirVersion=4.0"),
]


def test_the_resource_is_sent_where_fhir_json_is_asked_for(fhir):
    for query, accept in JSON_WANTED:
        response = fhir.get(PDF + query, headers={"Accept": accept})
        assert response.content_type == FHIR_JSON
        resource = response.get_json(force=True)
        assert resource["resourceType"] == "Binary"
        assert resource["id"] == PDF.removeprefix("Binary/")
        assert resource["meta"]["versionId"] == "1"
        assert resource["contentType"] == "application/pdf"
        assert base64.b64decode(resource["data"]) == fhir.get(PDF).data


@pytest.mark.parametrize("path", [PDF, HTML])
def test_binary_is_sandboxed_in_a_browser(fhir, path):
    headers = fhir.get(path).headers
    assert headers["Content-Security-Policy"].partition(";")[0] == "sandbox"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment; ")
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["ETag"] == 'W/"1"'


@pytest.mark.parametrize(
    ("content_type", "extension"),
    [
        ("application/pdf", "pdf"),
        ("text/plain; charset=utf-8", "txt"),
        ("Text/HTML", "html"),
        ("application/xml", "xml"),
        ("image/jpeg", "jpg"),
        ("application/octet-stream", "bin"),
        # What a system would run keeps no name that makes it do so.
        ("application/javascript", "bin"),
        ("application/x-msdownload", "bin"),
        ('text/plain"; filename="x.exe', "bin"),
    ],
)
def test_the_bytes_are_saved_under_a_name_that_tells_what_they_are(content_type, extension):
    header = content_disposition("p1.2-b", content_type)
    assert header == f'attachment; filename="Binary-p1.2-b.{extension}"'
    assert parse_options_header(header)[1]["filename"] == f"Binary-p1.2-b.{extension}"


def test_current_bytes_are_not_sent_again(fhir):
    for held in [{"If-None-Match": 'W/"1"'}, {"If-Modified-Since": LATER}]:
        for accept in ["*/*", FHIR_JSON]:
            for method in ["GET", "HEAD"]:
                response = fhir.request(method, PDF, headers={"Accept": accept, **held})
                assert (response.status_code, response.data) == (304, b"")
                assert response.headers["ETag"] == 'W/"1"'
                assert "Content-Length" not in response.headers


def test_a_deleted_binary_is_gone(make_app):
    app = make_app(seed=False)
    store(app, "b", b"x")
    delete(app, "Binary", "b", now="2026-02-01T00:00:00.000+00:00")
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    for headers in ({}, {"Accept": FHIR_JSON}, {"Range": "bytes=7-"}, {"If-Match": '"1"'}):
        response = fhir.get("Binary/b", headers=headers)
        assert_outcome(response, 410, "deleted", "Binary/b was deleted.")


@pytest.mark.parametrize("scope", ["patient/DocumentReference", "patient/*.read"])
def test_a_patient_reads_what_an_own_document_carries(as_patient, scope):
    fhir = as_patient("p2", scope)
    assert fhir.get(PDF).status_code == 200
    assert_outcome(fhir.get(HTML), 404, "not-found", f"{HTML} is not known here.")


@pytest.mark.parametrize(
    "row_id", ["bin-p1-discharge-2024-v1", "bin-p1-discharge-2024-v2", "bin-p1-discharge-2024-v3"]
)
def test_bytes_of_an_earlier_version_stay_readable(as_patient, row_id):
    assert as_patient("p1").get(f"Binary/{row_id}").status_code == 200
    assert as_patient("p2").get(f"Binary/{row_id}").status_code == 404


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_addresses_of_every_version_lead_to_its_bytes(fhir, version):
    document = fhir.read(f"DocumentReference/doc-p1-discharge-2024/_history/{version}")
    (content,) = document["content"]
    stored = fhir.get(content["attachment"]["url"].removeprefix(BASE_URL)).data
    assert base64.b64decode(content["attachment"]["data"]) == stored


def test_a_scope_that_narrows_documents_narrows_what_they_carry(app):
    fhir = Fhir(app, token_for(app, "system/DocumentReference.rs?type=http://loinc.org|11526-1"))
    assert fhir.get(PDF).status_code == 200
    assert fhir.get("Binary/bin-p1-hp-2024").status_code == 404


def test_a_scope_to_search_documents_is_none_to_read_their_bytes(app):
    assert_outcome(
        Fhir(app, token_for(app, "system/DocumentReference.s")).get(PDF),
        403,
        "forbidden",
        "The token's scope does not cover read of Binary.",
    )


@pytest.fixture(scope="module", params=[0, 5, 32_768])
def inlining(request, make_app):
    """An app, and the size up to which it sends an attachment within its document."""
    return make_app(seed=False, inline_max=request.param), request.param


def test_bytes_that_come_with_a_document_are_kept_as_they_are(inlining):
    app, inline_max = inlining
    stored = bytes(range(256))[:6]
    document = {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [
            {
                "attachment": {
                    "contentType": "application/octet-stream",
                    "data": base64.b64encode(stored).decode(),
                }
            }
        ],
    }
    publish(app, document, now="2026-01-01T00:00:00.000+00:00")
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    attachment = fhir.read("DocumentReference/d")["content"][0]["attachment"]
    assert fhir.get(attachment["url"].removeprefix(BASE_URL)).data == stored
    assert ("data" in attachment) == (inline_max >= len(stored))
