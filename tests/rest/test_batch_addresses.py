"""Addresses in a batch: each spelling is answered, or refused, as the same request by itself.

What begins an export is refused, whatever its spelling: nothing is written, no job is queued.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask

from tests.support.bulk import ASYNC, Exports
from tests.support.contract import SERVED
from tests.support.fuzz import Request, send
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir

LEVELS = ("", "Patient/", "%50atient%2F", "Group/grp-allergy-clinic/")
# Ways to write $export that a server decodes.
SPELLED = ("$export", "%24export", "$ex%70ort", "%24%65%78%70%6f%72%74", "%24%65%78%70%6F%72%74")
QUERIES = ("", "?_type=Patient", "?_outputFormat=ndjson&_type=Patient", "?", "?x=$export")
# Ways to write what is no operation.
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


def entry(fhir: Fhir, url: str, method: str = "GET") -> dict[str, Any]:
    """Return the entry that answers an address in a batch."""
    content = {
        "resourceType": "Bundle",
        "type": "batch",
        "entry": [{"request": {"method": method, "url": url}}],
    }
    headers = {**ASYNC, "Authorization": f"Bearer {fhir.token}"}
    response = fhir._client.post("/fhir", json=content, headers=headers, content_type=FHIR_JSON)
    assert response.status_code == 200, response.text
    (found,) = response.get_json(force=True)["entry"]
    return dict(found)


def alone(app: Flask, fhir: Fhir, url: str) -> tuple[int, Any]:
    """Return the status and the content of the answer to the same address by itself."""
    path, _, query = url.partition("?")
    headers = {**ASYNC, "Authorization": f"Bearer {fhir.token}"}
    request = Request("GET", b"/fhir/" + path.encode(), query.encode(), headers)
    answer = send(app, request)
    return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def exports(make_app) -> Exports:
    return Exports(make_app())


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("root", ["", "/", f"{BASE_URL}/fhir/"])
def test_what_begins_an_export_is_refused_and_queues_nothing(exports, root, level, spelled, query):
    for method in ("GET", "HEAD"):
        found = entry(exports, f"{root}{level}{spelled}{query}", method)
        assert found["response"]["status"] == "400 Bad Request"
        if method == "GET":
            (issue,) = found["response"]["outcome"]["issue"]
            assert issue["diagnostics"] == "url: begins an export; ask for it by itself"
    assert exports.kept() == 0
    assert exports.work() == 0


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_transaction_that_would_begin_an_export_is_refused(exports, spelled):
    asked = [{"request": {"method": "GET", "url": url}} for url in ("Patient/p1", spelled)]
    content = {"resourceType": "Bundle", "type": "transaction", "entry": asked}
    response = exports.request("POST", "/fhir", headers=ASYNC, json=content, content_type=FHIR_JSON)
    assert response.status_code == 400
    (issue,) = response.get_json(force=True)["issue"]
    assert issue["diagnostics"] == "url: begins an export; ask for it by itself"
    assert exports.kept() == 0


@pytest.mark.parametrize("url", STRANGE)
def test_what_is_no_operation_is_answered_as_by_itself(exports, url):
    status, content = alone(exports.app, exports, url)
    found = entry(exports, url)
    assert int(found["response"]["status"][:3]) == status
    assert (found.get("resource") or found["response"]["outcome"]) == content
    assert exports.kept() == 0


OPERATIONS = [
    (definition.name, operation.name)
    for definition in SERVED.values()
    for operation in definition.operations
    if not operation.instance
]


@pytest.mark.parametrize(("type_name", "name"), OPERATIONS)
def test_each_spelling_of_an_operation_is_answered_as_by_itself(exports, type_name, name):
    encoded = "".join(f"%{ord(letter):02X}" for letter in name)
    for spelled in (f"${name}", f"%24{name}", f"%24{encoded}", f"${name.upper()}", f"%2524{name}"):
        url = f"{type_name}/{spelled}?patient=p1"
        status, content = alone(exports.app, exports, url)
        found = entry(exports, url)
        assert int(found["response"]["status"][:3]) == status, url
        assert (found.get("resource") or found["response"]["outcome"]) == content


@pytest.mark.parametrize("name", ["_format", "%5Fformat", "_%66ormat"])
def test_the_format_of_the_whole_is_that_of_each_answer(exports, name):
    found = entry(exports, f"Patient/p1?{name}=xml&_pretty=false")
    assert found["resource"]["id"] == "p1"


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("Patient/p1", "200 OK"),
        ("Patient/nobody", "404 Not Found"),
        ("Patient?birthdate=soon", "400 Bad Request"),
        ("AllergyIntolerance/al-p5-codeine", "410 Gone"),
    ],
)
def test_an_entry_by_head_has_a_status_alone(exports, url, status):
    found = entry(exports, url, "HEAD")
    assert found["response"]["status"] == status
    assert "resource" not in found
    assert "outcome" not in found["response"]
