"""POST /fhir: each entry is answered as if it were asked by itself, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fhirapp.audit.entries import RECORDS
from fhirapp.audit.entries import entries as lines
from fhirapp.rest import batch
from tests.support.helpers import BASE_URL, FHIR_JSON, FORMATS, Fhir, assert_outcome, token_for

PENICILLIN = "AllergyIntolerance/al-p1-penicillin"


def bundle(*asked: Any, kind: str = "batch") -> dict[str, Any]:
    """Return a Bundle of these requests: a url to GET, or a whole entry."""
    entries = [
        {"request": {"method": "GET", "url": entry}} if isinstance(entry, str) else entry
        for entry in asked
    ]
    return {"resourceType": "Bundle", "type": kind, "entry": entries}


def post(fhir: Fhir, content: Any, path: str = "/fhir", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {fhir.token}", **more.pop("headers", {})}
    return fhir._client.post(path, json=content, headers=headers, content_type=FHIR_JSON, **more)


def entries(fhir: Fhir, *asked: Any, **more: Any) -> Sequence[dict[str, Any]]:
    response = post(fhir, bundle(*asked), **more)
    assert response.status_code == 200, response.text
    content = response.get_json(force=True)
    assert content["type"] == "batch-response"
    return content.get("entry", [])


def test_reads_and_searches_are_answered_as_by_themselves(fhir):
    asked = (
        PENICILLIN,
        f"/{PENICILLIN}/_history/1",
        "AllergyIntolerance?patient=p1&_count=2",
        f"{BASE_URL}/fhir/Patient/p1",
        "Patient/p1/$everything",
        "metadata",
    )
    answered = entries(fhir, *asked)
    for url, entry in zip(asked, answered, strict=True):
        alone = fhir.get(url.removeprefix(f"{BASE_URL}/fhir").lstrip("/"))
        assert entry["resource"] == alone.get_json(force=True)
        assert entry["response"]["status"] == "200 OK"
        assert entry["response"]["etag"] == alone.headers["ETag"]
    first = answered[0]
    assert first["fullUrl"].endswith(f"/fhir/{PENICILLIN}")
    assert first["response"]["lastModified"] == first["resource"]["meta"]["lastUpdated"]
    assert "fullUrl" not in answered[2]


REFUSED = [
    ("Patient/nobody", "404 Not Found", "Patient"),
    ("Nonsense/1", "404 Not Found", "There is no such resource type"),
    ("AllergyIntolerance?date=soon", "400 Bad Request", "date: 'soon' is not a date"),
    ({"request": {"method": "POST", "url": "Patient"}}, "405 Method Not Allowed", "only reads"),
    (
        {"request": {"method": "PUT", "url": "Patient/p1"}},
        "405 Method Not Allowed",
        "only reads",
    ),
    (
        {"request": {"method": "DELETE", "url": "Patient/p1"}},
        "405 Method Not Allowed",
        "only reads",
    ),
    ({"resource": {}}, "400 Bad Request", "Bundle.entry[1].request: is missing"),
    (7, "400 Bad Request", "Bundle.entry[1].request: is missing"),
    ({"request": {"method": "GET"}}, "400 Bad Request", "needs a method and a url"),
    ("https://elsewhere.example/fhir/Patient/p1", "400 Bad Request", "is no address here"),
    ("Patient/p1#x", "400 Bad Request", "is no address here"),
    ("../oauth/jwks.json", "404 Not Found", "There is no such resource type"),
    ("Patient/$export?_type=Patient", "400 Bad Request", "begins an export"),
]


def test_an_entry_that_is_refused_leaves_the_others(fhir):
    for entry, status, told in REFUSED:
        before, refused, after = entries(fhir, PENICILLIN, entry, "Patient/p1")
        assert before["resource"]["id"] == "al-p1-penicillin"
        assert after["resource"]["id"] == "p1"
        assert refused["response"]["status"] == status
        assert "resource" not in refused
        assert told in refused["response"]["outcome"]["issue"][0]["diagnostics"]


def test_an_entry_tells_what_is_known_already(fhir):
    request = {"method": "GET", "url": PENICILLIN, "ifNoneMatch": 'W/"1"'}
    (known,) = entries(fhir, {"request": request})
    assert known == {"response": {"status": "304 Not Modified", "etag": 'W/"1"'}}
    request = {"method": "GET", "url": PENICILLIN, "ifModifiedSince": "2100-01-01T00:00:00Z"}
    assert entries(fhir, {"request": request})[0]["response"]["status"] == "304 Not Modified"


def test_each_entry_has_the_access_of_the_token(app):
    fhir = Fhir(app, token_for(app, "patient/AllergyIntolerance.rs", patient="p1"))
    own, other, type_name, search = entries(
        fhir,
        PENICILLIN,
        "AllergyIntolerance/al-p2-morphine",
        "DocumentReference?patient=p1",
        "AllergyIntolerance?patient=p2",
    )
    assert own["resource"]["id"] == "al-p1-penicillin"
    assert [entry["response"]["status"][:3] for entry in (other, type_name, search)] == [
        "404",
        "403",
        "403",
    ]


def test_batch_without_a_token_is_refused(app):
    response = app.test_client().post("/fhir", json=bundle("metadata"), content_type=FHIR_JSON)
    assert response.status_code == 401


def test_a_transaction_that_only_reads_is_answered(fhir):
    response = post(fhir, bundle(PENICILLIN, "Patient/p1", kind="transaction"))
    content = response.get_json(force=True)
    assert content["type"] == "transaction-response"
    assert [entry["response"]["status"] for entry in content["entry"]] == ["200 OK", "200 OK"]


FAILING = [
    ("Patient/nobody", 404, "Patient"),
    ({"request": {"method": "HEAD", "url": "Patient/nobody"}}, 404, "An entry failed: 404"),
    ({"request": {"method": "PUT", "url": "Patient/p1"}}, 405, "PUT is not supported here"),
]


def test_a_transaction_fails_as_a_whole(fhir):
    for failing, status, told in FAILING:
        xml = post(fhir, bundle(PENICILLIN, failing, kind="transaction"), "/fhir?_format=xml")
        assert (xml.status_code, "<OperationOutcome" in xml.text) == (status, True)
        response = post(fhir, bundle(PENICILLIN, failing, kind="transaction"))
        assert response.status_code == status
        content = response.get_json(force=True)
        assert content["resourceType"] == "OperationOutcome"
        assert told in content["issue"][0]["diagnostics"]


NO_BATCHES = [
    ([], "Bundle: is asked for here"),
    ({"resourceType": "Patient"}, "Bundle: is asked for here"),
    (bundle(kind="collection"), "Bundle.type: has to be batch or transaction"),
    ({**bundle(), "entry": {}}, "Bundle.entry: has to be a list of at most 100"),
    (bundle(*["Patient/p1"] * 101), "Bundle.entry: has to be a list of at most 100"),
]


def test_body_that_is_not_a_batch_is_refused(fhir):
    for content, told in NO_BATCHES:
        response = post(fhir, content)
        assert response.status_code == 400
        assert told in response.get_json(force=True)["issue"][0]["diagnostics"]


def test_body_that_is_not_json_is_refused(fhir):
    headers = {"Authorization": f"Bearer {fhir.token}"}
    answered = fhir._client.post("/fhir", data="{", headers=headers, content_type=FHIR_JSON)
    assert answered.status_code == 400
    assert "Bundle: is not JSON" in answered.get_json(force=True)["issue"][0]["diagnostics"]
    answered = fhir._client.post("/fhir", data="a=b", headers=headers)
    assert_outcome(answered, 415, "not-supported", f"A batch takes a body of type {FORMATS}.")


def test_answers_are_bounded(fhir, monkeypatch):
    monkeypatch.setattr(batch, "MAX_BYTES", 100)
    first, second = entries(fhir, PENICILLIN, PENICILLIN)
    assert first["response"]["status"] == "200 OK"
    assert second["response"]["status"].startswith("413")
    monkeypatch.setattr(batch, "MAX_SECONDS", -1.0)
    (late,) = entries(fhir, PENICILLIN)
    assert late["response"]["status"] == "503 Service Unavailable"


def test_each_entry_has_its_line_in_the_audit_trail(app, fhir):
    with app.app_context():
        newest = next(iter(lines(kind=RECORDS, limit=1)), None)
    entries(fhir, PENICILLIN, "Patient/nobody", "AllergyIntolerance?patient=p1")
    with app.app_context():
        found = [
            line
            for line in lines(kind=RECORDS, limit=20)
            if newest is None or line.number > newest.number
        ]
    told = [(line.method, line.path, line.status) for line in found][::-1]
    assert told == [
        ("GET", f"/fhir/{PENICILLIN}", 200),
        ("GET", "/fhir/Patient/nobody", 404),
        ("GET", "/fhir/AllergyIntolerance?patient=p1", 200),
        ("POST", "/fhir", 200),
    ]
