"""service.md 4, 5 and 8: the two searches, their parameters and headers, and who may search."""

from __future__ import annotations

from contextlib import suppress
from http.client import HTTPConnection
from threading import Thread

import pytest
from waitress.server import create_server

from tests.support.helpers import FHIR_JSON, Fhir, assert_outcome, ids, token_for

TYPES = ("DocumentReference", "AllergyIntolerance")
LOINC = "http://loinc.org"
CATEGORY = "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category"
ED_NOTES = ["doc-p3-ed-2025", "doc-p7-ed-2024", "doc-p1-ed-2024", "doc-p2-ed-2023"]
ED_NOTES += ["doc-p14-ed-2020"]
IN_JUNE_2023 = ["doc-p2-pathology-2023", "doc-p2-discharge-2023", "doc-p2-surgery-2023"]
IN_JUNE_2023 += ["doc-p2-ed-2023"]


def test_the_accepted_media_type_is_fhir_json(fhir):
    """4 Accept: application/fhir+json."""
    for name in TYPES:
        response = fhir.get(name, headers={"Accept": "application/fhir+json"})
        assert response.status_code == 200
        assert response.content_type == "application/fhir+json"


def test_the_token_is_a_bearer_token(app, http):
    """4 Authorization: Bearer <ACCESS_TOKEN>."""
    for name in TYPES:
        token = token_for(app, f"system/{name}.rs")
        response = http.get(f"/fhir/{name}", headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == 200
        assert_outcome(
            http.get(f"/fhir/{name}", headers={"Authorization": token}),
            401,
            "login",
            "The Authorization header must be: Bearer <token>.",
        )


@pytest.fixture
def port(app):
    """The port of a real server, which adds the headers that the application leaves to it."""
    server = create_server(app, map={}, host="127.0.0.1", port=0)
    thread = Thread(target=server.run)
    thread.start()
    yield server.effective_port
    # Its loop ends once nothing is left to listen to; woken by a request, it may do so at once.
    with suppress(OSError):
        server.trigger.pull_trigger(server.close)
    thread.join()
    server.task_dispatcher.shutdown()


def test_a_search_has_the_headers_of_service_md(fhir, port):
    connection = HTTPConnection("127.0.0.1", port)
    authorization = {"Authorization": f"Bearer {fhir.token}"}
    connection.request("GET", "/fhir/AllergyIntolerance", headers=authorization)
    headers = connection.getresponse().headers
    connection.close()
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["Content-Type"] == "application/fhir+json"
    assert headers["Date"].endswith(" GMT")
    assert headers["ETag"][:3] == 'W/"'
    assert headers["ETag"][-1] == '"'


def test_get_and_post_answer_the_same(fhir):
    for name in TYPES:
        for path in ["", "/", "/_search"]:
            for root in ["/fhir", "/api"]:
                got = fhir.get(f"{root}/{name}{path}?patient=p1&_count=2")
                posted = fhir.post(f"{root}/{name}{path}", {"patient": "p1", "_count": "2"})
                assert got.status_code == posted.status_code == 200
                assert got.content_type == posted.content_type == FHIR_JSON
                assert got.data == posted.data
                assert len(ids(got.get_json(force=True))) == 2


def test_ids_are_found_in_a_list_and_count_is_the_page_size_unless_they_are_given(fhir):
    # 4.1 _id: one id or a comma-separated list.
    # 4.1 _count: the most results on a page, not honored when _id is set.
    found = fhir.ids("DocumentReference?_count=1&_id=doc-p1-scan-2023,doc-p1-progress-2023,nobody")
    assert found == ["doc-p1-progress-2023", "doc-p1-scan-2023"]
    # 4.2 _id: one id or a comma-separated list.
    # 4.2 _count: the most results on a page, not honored when _id is set.
    found = fhir.ids("AllergyIntolerance?_count=0&_id=al-p1-latex,al-p3-egg,nobody")
    assert found == ["al-p3-egg", "al-p1-latex"]
    # 8 _count: upper bound on page size; ignored when _id is given.
    for name in TYPES:
        assert len(fhir.ids(f"{name}?_count=3")) == 3
    assert len(fhir.ids("AllergyIntolerance?patient=p1&_count=50")) == 6


DOCUMENT_DATES = [
    # rule 4 (a): without prefix and time a range
    ("date=2023-06", IN_JUNE_2023),
    ("date=2023-06-15", ["doc-p2-pathology-2023"]),
    # rule 4 (b): with a time, that time
    ("date=2023-06-15T14:00:00", ["doc-p2-pathology-2023"]),
    ("date=2023-06-15T16:00:00%2B02:00", ["doc-p2-pathology-2023"]),
    ("date=2023-06-15T14:00:01", []),
    # rule 4 (c): gt and le, a closed range
    ("date=gt2023-05-31&date=le2023-06-30", IN_JUNE_2023),
    ("date=le2023-06-15T14:00:00&date=gt2023-06-13T13:05:00", ["doc-p2-pathology-2023"]),
]


def test_documents_by_date(fhir):
    """4.1 date: a date, a time, or a closed range of two."""
    for query, found in DOCUMENT_DATES:
        assert fhir.ids(f"DocumentReference?{query}") == found


ENTRY_DATES = [
    ("date=2023-06", ["al-p2-morphine", "al-p2-lidocaine", "al-p2-mariscos"]),
    ("date=2023-06-11", ["al-p2-lidocaine", "al-p2-mariscos"]),
    ("date=2023-06-11T03:40:00", ["al-p2-mariscos"]),
    ("date=gt2023-06-11&date=le2023-06-12", ["al-p2-morphine"]),
    # decisions 2.8: no recordedDate, so the onset
    ("date=1996-05", ["al-p1-latex"]),
    ("date=gt2017-01&date=le2019-12", ["al-p3-milk"]),
]


def test_entries_by_date(fhir):
    """4.2 date: a date, a time, or a closed range of two."""
    for query, found in ENTRY_DATES:
        assert fhir.ids(f"AllergyIntolerance?{query}") == found


def test_two_dates_that_form_no_closed_range_are_refused(fhir):
    """4 rule 4: the pair must form a closed range."""
    for name in TYPES:
        response = fhir.get(f"{name}?date=2023&date=2024")
        told = "two values must form a closed range: one with gt, ge or sa, one with lt, le or eb"
        assert_outcome(response, 400, "value", f"date: {told}", "date")


def test_answer_is_indented_unless_pretty_is_false(fhir):
    # 4.1 _pretty: false disables formatted output.
    # 4.2 _pretty: false disables formatted output.
    for name in TYPES:
        path = f"{name}?_count=2"
        for query in ("", "&_pretty=true"):
            assert fhir.get(path + query).text.startswith('{\n  "resourceType": "Bundle"')
        compact = fhir.get(path + "&_pretty=false")
        assert "\n" not in compact.text
        assert ids(compact.get_json(force=True)) == fhir.ids(path)


def test_documents_by_category(fhir):
    """4.1 category: a token; every document is a clinical-note."""
    everything = fhir.ids("DocumentReference")
    for token in ("clinical-note", f"{CATEGORY}|clinical-note"):
        assert fhir.ids(f"DocumentReference?category={token}") == everything
    laboratory = fhir.ids("DocumentReference?category=LAB")
    assert "doc-p9-lab-2024" in laboratory
    assert len(laboratory) < len(everything)


def test_documents_by_type_or_its_other_name_code(fhir):
    # 4.1 code: the code of the report, the same as type.
    # 4.1 type: one or a comma-separated list.
    for name in ("code", "type"):
        for token in ("34111-5", f"{LOINC}|34111-5", f"{LOINC}|34111-5,nothing"):
            assert fhir.ids(f"DocumentReference?{name}={token}") == ED_NOTES
    found = fhir.ids("DocumentReference?type=34111-5,11526-1")
    assert {*found} == {*ED_NOTES, "doc-p2-pathology-2023", "doc-p6-pathology-2024"}


def test_entries_by_patient(fhir):
    """4.2 patient: who the entry is for."""
    for value in ["p3", "Patient/p3", "https://fhir.example/fhir/Patient/p3"]:
        found = fhir.read(f"AllergyIntolerance?patient={value}")["entry"]
        assert {entry["resource"]["patient"]["reference"] for entry in found} == {"Patient/p3"}
        assert len(found) == 6


STATUSES = [
    ("resolved", ["al-p3-egg", "al-p3-milk"]),
    ("refuted", ["al-p12-penicillin", "al-p7-wasp"]),
    ("entered-in-error", ["al-p1-metformin"]),
    (
        "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical|resolved",
        ["al-p3-egg", "al-p3-milk"],
    ),
]


def test_entries_by_status(fhir):
    """4.2 status: the clinical or the verification status of the entry."""
    for token, found in STATUSES:
        assert fhir.ids(f"AllergyIntolerance?status={token}") == found


def test_entries_with_their_provenance(fhir):
    """4.2 _revinclude: once, only Provenance:target."""
    bundle = fhir.read("AllergyIntolerance?patient=p4&_revinclude=Provenance:target")
    assert ids(bundle) == ["al-p4-nkda"]
    assert ids(bundle, "include") == ["prov-p4-nkda"]
    assert_outcome(
        fhir.get("AllergyIntolerance?_revinclude=Provenance:agent"),
        400,
        "value",
        "_revinclude: 'Provenance:agent' is not supported; use Provenance:target",
        "_revinclude",
    )


def test_a_scope_of_service_md_reaches_every_patient(app):
    for name in TYPES:
        for scope in ["system/{}", "user/{}", "system/*.read", "system/*.rs"]:
            fhir = Fhir(app, token_for(app, scope.format(name)))
            bundle = fhir.read(name)
            assert bundle["total"] > 35
            first = bundle["entry"][0]["resource"]["id"]
            for path in (first, f"{first}/_history", f"{first}/_history/1"):
                assert fhir.get(f"{name}/{path}").status_code == 200


def test_a_patient_scope_of_service_md_reaches_its_patient(as_patient):
    for name in TYPES:
        fhir = as_patient("p3", f"patient/{name}")
        patients = {
            entry["resource"].get("patient", entry["resource"].get("subject"))["reference"]
            for entry in fhir.read(name)["entry"]
        }
        assert patients == {"Patient/p3"}
