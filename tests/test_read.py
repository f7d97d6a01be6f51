"""read and vread, and what holds for every answer: formats, HEAD, conditional requests."""

from __future__ import annotations

import pytest

from tests.conftest import token_for
from tests.contract import allergy, delete, publish
from tests.helpers import FHIR_JSON, Fhir, assert_outcome

EGG = "AllergyIntolerance/al-p3-egg"
SUMMARY = "DocumentReference/doc-p1-discharge-2024"
CHANGED = "Tue, 25 Jun 2024 13:35:50 GMT"


@pytest.mark.parametrize(("path", "versions"), [(EGG, 3), (SUMMARY, 3)])
def test_each_version_is_read_as_it_was(fhir, path, versions):
    seen = []
    for version in range(1, versions + 1):
        response = fhir.get(f"{path}/_history/{version}")
        resource = response.get_json(force=True)
        assert resource["meta"]["versionId"] == str(version)
        assert response.headers["ETag"] == f'W/"{version}"'
        seen.append(resource)
    assert fhir.read(path) == seen[-1]
    assert len({repr(one) for one in seen}) == versions
    instants = [one["meta"]["lastUpdated"] for one in seen]
    assert instants == sorted(set(instants))


def test_a_version_says_what_was_known_then(fhir):
    codes = [
        fhir.read(f"AllergyIntolerance/al-p12-penicillin/_history/{version}")["verificationStatus"]
        for version in (1, 2, 3)
    ]
    assert [one["coding"][0]["code"] for one in codes] == ["unconfirmed", "confirmed", "refuted"]


def test_versions_from_before_a_deletion_stay_readable(fhir):
    for version in (1, 2):
        path = f"DocumentReference/doc-p5-misfiled/_history/{version}"
        assert fhir.read(path)["meta"]["versionId"] == str(version)


def test_a_read_has_the_headers_of_a_version(fhir):
    headers = fhir.get(EGG).headers
    assert headers["Content-Type"] == FHIR_JSON
    assert headers["ETag"] == 'W/"3"'
    assert headers["Last-Modified"] == CHANGED
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["Vary"] == "Accept, Authorization"


@pytest.mark.parametrize("held", ['W/"3"', "W/3", '"3"', "3", "*", 'W/"1", W/"3"', ' W/"3" '])
@pytest.mark.parametrize("path", [EGG, f"{EGG}/_history/3"])
def test_what_the_client_holds_is_not_sent_again(fhir, path, held):
    response = fhir.get(path, headers={"If-None-Match": held})
    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == 'W/"3"'
    assert "Content-Type" not in response.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": 'W/"2"'}, 200),
        ({"If-None-Match": 'W/"33"'}, 200),
        ({"If-None-Match": ""}, 200),
        ({"If-Modified-Since": CHANGED}, 304),
        ({"If-Modified-Since": "Wed, 26 Jun 2024 00:00:00 GMT"}, 304),
        ({"If-Modified-Since": "Tue, 25 Jun 2024 13:35:49 GMT"}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        # If-None-Match wins
        ({"If-None-Match": 'W/"2"', "If-Modified-Since": CHANGED}, 200),
        ({"If-None-Match": 'W/"3"', "If-Modified-Since": "Sun, 01 Jan 2023 00:00:00 GMT"}, 304),
    ],
)
def test_a_condition_is_judged_by_version_and_by_time(fhir, headers, status):
    assert fhir.get(EGG, headers=headers).status_code == status


@pytest.mark.parametrize(
    "path",
    [
        EGG,
        f"{EGG}/_history/2",
        f"{EGG}/_history",
        "AllergyIntolerance?patient=p1&_count=2",
        "AllergyIntolerance/_search?patient=p1",
        "/api/AllergyIntolerance",
        "Binary/bin-p1-hp-2024",
        "metadata",
        "AllergyIntolerance/nobody",
        "AllergyIntolerance?date=never",
    ],
)
def test_head_is_get_without_the_body(fhir, path):
    got, head = fhir.get(path), fhir.request("HEAD", path)
    assert head.status_code == got.status_code
    assert dict(head.headers) == dict(got.headers)
    assert head.data == b""
    assert got.data


@pytest.mark.parametrize("path", [EGG, f"{EGG}/_history", "metadata", "AllergyIntolerance"])
@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("_format=json", "*/*"),
        ("_format=application/json", "text/html"),
        ("_format=application/fhir%2Bjson", "application/xml"),
        ("_format=application/fhir+json", None),
        ("_format=", None),
        ("", "application/json"),
        ("", "application/xml, application/*;q=0.5"),
        # FHIR R4 http: charset and the version of FHIR may be parameters of the media type
        ("", "application/fhir+json; fhirVersion=4.0"),
        ("", "application/fhir+json;charset=utf-8"),
    ],
)
def test_every_name_of_json_is_answered_in_fhir_json(fhir, path, query, accept):
    response = fhir.get(f"{path}?{query}", headers={"Accept": accept} if accept else {})
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON


@pytest.mark.parametrize("path", [EGG, f"{EGG}/_history/1", "metadata"])
def test_an_answer_is_indented_unless_pretty_is_false(fhir, path):
    indented, compact = fhir.get(path), fhir.get(f"{path}?_pretty=false")
    assert indented.text.startswith('{\n  "resourceType"')
    assert "\n" not in compact.text
    assert compact.get_json(force=True) == indented.get_json(force=True)


def test_a_read_refuses_a_pretty_that_is_no_boolean(fhir):
    assert_outcome(
        fhir.get(f"{EGG}?_pretty=1"),
        400,
        "value",
        "_pretty: '1' is not a boolean; use true or false",
        "_pretty",
    )


@pytest.mark.parametrize(
    ("permissions", "read", "search"), [("r", 200, 403), ("s", 403, 200), ("rs", 200, 200)]
)
def test_read_and_search_are_permitted_apart(app, permissions, read, search):
    fhir = Fhir(app, token_for(app, f"system/AllergyIntolerance.{permissions}"))
    for path in (EGG, f"{EGG}/_history/1", f"{EGG}/_history"):
        assert fhir.get(path).status_code == read
    assert fhir.get("AllergyIntolerance").status_code == search


def test_what_was_deleted_can_come_back(make_app):
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    entry = allergy("a")
    path = "AllergyIntolerance/a"
    publish(app, entry, now="2026-01-01T00:00:00.000+00:00")
    delete(app, "AllergyIntolerance", "a", now="2026-01-02T00:00:00.000+00:00")
    assert_outcome(fhir.get(path), 410, "deleted", f"{path} was deleted.")
    assert fhir.read("AllergyIntolerance")["total"] == 0
    publish(app, entry, now="2026-01-03T00:00:00.000+00:00")
    assert fhir.read(path)["meta"]["versionId"] == "3"
    assert_outcome(
        fhir.get(f"{path}/_history/2"), 410, "deleted", f"{path}/_history/2 was deleted."
    )
    assert fhir.ids("AllergyIntolerance") == ["a"]


def test_the_same_content_makes_no_new_version(make_app):
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    entry = allergy("a", criticality="low")
    publish(app, entry, now="2026-01-01T00:00:00.000+00:00")
    before = fhir.get("AllergyIntolerance/a").data
    # What the server itself writes into meta is no content.
    again = {**entry, "meta": {"versionId": "7", "lastUpdated": "2025-01-01T00:00:00Z"}}
    publish(app, dict(reversed(again.items())), now="2026-01-02T00:00:00.000+00:00")
    assert fhir.get("AllergyIntolerance/a").data == before
    publish(app, {**entry, "criticality": "high"}, now="2026-01-03T00:00:00.000+00:00")
    assert fhir.read("AllergyIntolerance/a")["meta"]["versionId"] == "2"
    assert fhir.get("AllergyIntolerance/a/_history/1").data == before
