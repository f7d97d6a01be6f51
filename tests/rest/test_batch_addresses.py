"""URLs in a batch: each spelling is answered, or refused, as the same request by itself.

A URL that starts an export is refused, whatever its spelling: nothing is written, no job is queued.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from tests.support.bulk import ASYNC, Exports
from tests.support.fuzz import Request, send
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir

# Spellings of $export that a server decodes.
SPELLED = ("$export", "%24export", "$ex%70ort", "%24%65%78%70%6f%72%74", "%24%65%78%70%6F%72%74")
STARTING = (
    *(
        f"{root}{level}{SPELLED[0]}"
        for root in ("", "/", f"{BASE_URL}/fhir/")
        for level in ("", "Patient/", "%50atient%2F", "Group/grp-allergy-clinic/")
    ),
    *(f"{level}{spelled}" for level in ("", "Patient/", "%50atient%2F") for spelled in SPELLED),
    *(
        f"Patient/{spelled}{query}"
        for spelled in SPELLED[:3]
        for query in ("?_type=Patient", "?_outputFormat=ndjson&_type=Patient", "?", "?x=$export")
    ),
)
# Spellings of what is no operation.
STRANGE = (
    *("Patient//$export", "./Patient/$export", "Patient/$export/", "Patient/./$export"),
    *("Patient/x/../$export", "Patient/%2e%2e/$export", "Patient/$EXPORT", "Patient/%24EXPORT"),
    *("Patient/%2524export", "Patient/%252524export", "Patient/$export%3F_type=Patient"),
    *("Patient/$export;x=1", "Patient/$export%20", "Patient/%20$export", "Patient/$export%00"),
    *("Patient/$export%0a", "Patient/$export%2F", "Patient%252F$export"),
    *("Patient/\uff04export", "Patient/%EF%BC%84export", "Patient/$expor\u0442", "$export%2Fx"),
    *("Patient/$e\u0301xport", "patient/$export", "%50atient/$exports", "Patient/$export.json"),
    *("Patient/p1/$export", "Group/$export", "AllergyIntolerance/$export", "$export/$export"),
    *("Patient/%FF", "Patient/%24%FF", "Patient/%", "Patient/%2", "Patient/%zz", "Patient/p%31"),
    *("Patient/\u00e9", "Patient/%C3%A9", "%2e%2e/oauth/jwks.json", "..%2foauth/jwks.json"),
)
REFUSAL = "url: begins an export; ask for it by itself"


@pytest.fixture(scope="module")
def exports(make_app) -> Exports:
    return Exports(make_app())


def entries(fhir: Fhir, *urls: str, method: str = "GET") -> list[dict[str, Any]]:
    """Return the entries that answer these URLs in a batch."""
    content = {
        "resourceType": "Bundle",
        "type": "batch",
        "entry": [{"request": {"method": method, "url": url}} for url in urls],
    }
    headers = {**ASYNC, "Authorization": f"Bearer {fhir.token}"}
    response = fhir._client.post("/fhir", json=content, headers=headers, content_type=FHIR_JSON)
    assert response.status_code == 200, response.text
    return list(response.get_json(force=True)["entry"])


def assert_as_by_themselves(app: Flask, fhir: Fhir, *urls: str) -> None:
    """Assert that each URL in a batch has the status and the content that it has by itself."""
    for url, entry in zip(urls, entries(fhir, *urls), strict=True):
        path, _, query = url.partition("?")
        headers = {**ASYNC, "Authorization": f"Bearer {fhir.token}"}
        alone = send(app, Request("GET", b"/fhir/" + path.encode(), query.encode(), headers))
        assert int(entry["response"]["status"][:3]) == alone.status, url
        assert (entry.get("resource") or entry["response"]["outcome"]) == json.loads(alone.body)


def test_url_that_starts_an_export_is_refused_and_queues_nothing(exports):
    for method in ("GET", "HEAD"):
        for url, entry in zip(STARTING, entries(exports, *STARTING, method=method), strict=True):
            assert entry["response"]["status"] == "400 Bad Request", (method, url)
            if method == "GET":
                (issue,) = entry["response"]["outcome"]["issue"]
                assert issue["diagnostics"] == REFUSAL
    for spelled in SPELLED:
        urls = [{"request": {"method": "GET", "url": url}} for url in ("Patient/p1", spelled)]
        content = {"resourceType": "Bundle", "type": "transaction", "entry": urls}
        response = exports.request(
            "POST", "/fhir", headers=ASYNC, json=content, content_type=FHIR_JSON
        )
        assert response.status_code == 400
        (issue,) = response.get_json(force=True)["issue"]
        assert issue["diagnostics"] == REFUSAL
    assert (exports.kept(), exports.work()) == (0, 0)


def test_url_of_no_operation_is_answered_as_by_itself(exports):
    assert_as_by_themselves(exports.app, exports, *STRANGE)
    assert exports.kept() == 0


def test_entry_by_head_has_only_a_status(exports):
    statuses = {
        "Patient/p1": "200 OK",
        "Patient/nobody": "404 Not Found",
        "Patient?birthdate=soon": "400 Bad Request",
        "AllergyIntolerance/al-p5-codeine": "410 Gone",
    }
    found = entries(exports, *statuses, method="HEAD")
    assert [entry["response"]["status"] for entry in found] == [*statuses.values()]
    assert not any("resource" in entry or "outcome" in entry["response"] for entry in found)
