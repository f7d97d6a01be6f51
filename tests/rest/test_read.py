"""read and vread, and what holds for every answer: HEAD, conditional requests."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.helpers import FHIR_JSON, Fhir, lasting, token_for

EGG = "AllergyIntolerance/al-p3-egg"
CHANGED = "Tue, 25 Jun 2024 13:35:50 GMT"


def test_a_version_says_what_was_known_then(fhir):
    statuses = [
        fhir.read(f"AllergyIntolerance/al-p12-penicillin/_history/{version}")["verificationStatus"]
        for version in (1, 2, 3)
    ]
    assert [status["coding"][0]["code"] for status in statuses] == [
        "unconfirmed",
        "confirmed",
        "refuted",
    ]


def test_a_read_has_the_headers_of_a_version(fhir):
    headers = fhir.get(EGG).headers
    assert headers["Content-Type"] == FHIR_JSON
    assert headers["ETag"] == 'W/"3"'
    assert headers["Last-Modified"] == CHANGED
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["Vary"] == "Accept, Authorization, Prefer"


HELD = [
    'W/"3"', "W/3", '"3"', "3", "*", " * ", 'W/"1", W/"3"', '"1","3"', "1, 3", ' W/"3" ',
    'x,,"3"',
]  # fmt: skip


def test_current_version_is_not_sent_again(fhir):
    for held in HELD:
        for path in [EGG, f"{EGG}/_history/3"]:
            for method in ["GET", "HEAD"]:
                response = fhir.request(method, path, headers={"If-None-Match": held})
                assert (response.status_code, response.data) == (304, b"")
                assert response.headers["ETag"] == 'W/"3"'
                assert response.headers["Cache-Control"] == "no-cache, private"
                # RFC 9110 §15.4.5: with an ETag no other metadata of what is not sent.
                assert "Last-Modified" not in response.headers
                assert "Content-Type" not in response.headers


CONDITIONS = [
    ({"If-None-Match": 'W/"2"'}, 200), ({"If-None-Match": 'W/"33"'}, 200),
    ({"If-None-Match": 'W/"1", W/"2"'}, 200), ({"If-None-Match": ""}, 200),
    ({"If-None-Match": '""'}, 200), ({"If-None-Match": '"*"'}, 200),
    ({"If-Modified-Since": CHANGED}, 304),
    ({"If-Modified-Since": "Wed, 26 Jun 2024 00:00:00 GMT"}, 304),
    ({"If-Modified-Since": "Tue, 25 Jun 2024 13:35:49 GMT"}, 200),
    # RFC 9110 §5.6.7: the two obsolete forms are still read
    ({"If-Modified-Since": "Tuesday, 25-Jun-24 13:35:50 GMT"}, 304),
    ({"If-Modified-Since": "Tue Jun 25 13:35:49 2024"}, 200),
    # §13.1.3: what is no date is ignored
    ({"If-Modified-Since": "yesterday"}, 200), ({"If-Modified-Since": ""}, 200),
    ({"If-Modified-Since": "2026-01-01"}, 200),
    ({"If-Modified-Since": "Tue, 25 Jun 99999999999 13:35:50 GMT"}, 200),
    ({"If-Modified-Since": "Tue, 25 Jun 2026 13:35:50 +99999999999999999999"}, 200),
    # If-None-Match wins
    ({"If-None-Match": 'W/"2"', "If-Modified-Since": CHANGED}, 200),
    ({"If-None-Match": "", "If-Modified-Since": CHANGED}, 200),
    ({"If-None-Match": 'W/"3"', "If-Modified-Since": "Sun, 01 Jan 2023 00:00:00 GMT"}, 304),
]  # fmt: skip


def test_a_condition_is_judged_by_version_and_by_time(fhir):
    for headers, status in CONDITIONS:
        for path in [EGG, f"{EGG}/_history/3"]:
            assert fhir.get(path, headers=headers).status_code == status


def test_versions_of_one_second_are_told_apart(make_app):
    """RFC 9110 §8.8.2.2: to the second, a copy of the first has the date of the second."""
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    path = "AllergyIntolerance/a"
    publish(app, allergy("a", criticality="low"), now="2026-01-01T00:00:00.100+00:00")
    held = {"If-Modified-Since": fhir.get(path).headers["Last-Modified"]}
    assert fhir.get(path, headers=held).status_code == 304
    publish(app, allergy("a", criticality="high"), now="2026-01-01T00:00:00.900+00:00")
    assert fhir.get(path, headers=held).status_code == 200
    publish(app, allergy("a", criticality="low"), now="2026-01-01T00:00:01.000+00:00")
    assert fhir.get(path, headers=held).status_code == 200
    held = {"If-Modified-Since": fhir.get(path).headers["Last-Modified"]}
    assert fhir.get(path, headers=held).status_code == 304


@pytest.mark.parametrize("part", range(4))
def test_every_address_that_answers_get_answers_head(fhir, app, part):
    """decisions §1: HEAD wherever GET."""
    values = {"resource_id": "al-p1-latex", "version_id": "1"}
    adapter = app.url_map.bind("")
    addresses = {
        adapter.build(
            rule.endpoint,
            {
                name: 1 if f"<int:{name}>" in rule.rule else values.get(name, "x")
                for name in rule.arguments
            },
        )
        for rule in app.url_map.iter_rules()
        # An export that is begun is answered with an address of its own.
        if "GET" in (rule.methods or ()) and not rule.rule.endswith("$export")
    }
    assert {"/fhir/metadata", "/health/live", f"/fhir/{EGG[:18]}/_history"} <= addresses
    for address in sorted(addresses)[part::4]:
        got, head = fhir.get(address), fhir.request("HEAD", address)
        assert (head.status_code, head.data) == (got.status_code, b"")
        # The first page gives the browser a cookie, which it has from then on.
        # What is refused is numbered.
        for name in ("Set-Cookie", "X-Request-Id"):
            got.headers.pop(name, None)
            head.headers.pop(name, None)
        assert lasting(head) == lasting(got)


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
