"""Nothing is lost: rich resources come out of the store as they went in. decisions 2.21.

What changes on the way is what decisions name: versionId and lastUpdated are the server's (§5),
times are written +00:00 (2.17), the bytes of an attachment are in Binary (2.18), narratives are
sanitised (2.20).
"""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import given, settings

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.document_date import without_partial_date
from fhirapp.store.prepare import prepare
from tests.support.contract import SERVED, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.round_trips import NAMES, REPEATABLE, attachments, resources

# decisions 2.11, 2.19: what is said where the source says nothing.
MADE: dict[str, dict[str, Any]] = {
    "AllergyIntolerance": {
        "code": {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor",
                    "code": "NI",
                    "display": "NoInformation",
                    "userSelected": False,
                }
            ],
            "text": "No information",
        }
    },
    "DocumentReference": {
        "category": [
            {
                "coding": [
                    {
                        "system": "http://hl7.org/fhir/us/core/CodeSystem/"
                        "us-core-documentreference-category",
                        "code": "clinical-note",
                        "display": "Clinical Note",
                    }
                ]
            }
        ]
    },
}


def take_out_what_is_made(served: dict[str, Any], given: dict[str, Any]) -> None:
    """Take out what is said where the source says nothing, having looked that it is right."""
    for name, value in MADE.get(served["resourceType"], {}).items():
        if name not in given:
            assert served.pop(name) == value
        elif name == "category" and len(served[name]) > len(given[name]):
            assert served[name].pop() == value[0]


def without_what_changes(resource: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return a served resource without what the server writes itself."""
    served = copy.deepcopy(resource)
    if served["resourceType"] == "DocumentReference":
        served = without_partial_date(served)
    for name in ("versionId", "lastUpdated"):
        served["meta"].pop(name)
        if name in given.get("meta", {}):
            served["meta"][name] = given["meta"][name]
    if not served["meta"] and "meta" not in given:
        del served["meta"]
    if "text" not in given:
        assert served.pop("text")["status"] == "generated"
    take_out_what_is_made(served, given)
    for attachment, source in zip(attachments(served), attachments(given), strict=True):
        for name in ("url", "size", "hash"):
            if "data" in source:
                del attachment[name]
    return served


def stored_and_read(value: Any) -> Any:
    """Return a column's value as a JSON column gives it back."""
    return fhir_json.loads(fhir_json.text(value))


FEW, MANY = 10, pytest.param(40, marks=pytest.mark.campaign)


@pytest.mark.parametrize("examples", [FEW, MANY])
@pytest.mark.parametrize("name", NAMES)
def test_resource_is_rendered_from_its_row_as_it_was_prepared(name, examples):
    definition = SERVED[name]

    @settings(REPEATABLE, max_examples=examples)
    @given(resources(name))
    def check(resource: dict[str, Any]) -> None:
        given = copy.deepcopy(resource)
        prepared = prepare(definition, resource)
        columns = {name: stored_and_read(value) for name, value in prepared.columns.items()}
        blobs = {blob.id: blob.data for blob in prepared.blobs}
        row = {**columns, "id": prepared.id, "version_id": 1, "last_updated": "2026"}
        served = definition.schema.dump({**row, "blobs": blobs})
        kept = without_what_changes(served, given)
        # As text: a decimal keeps its trailing zeros, false is not 0.
        assert fhir_json.canonical(kept) == fhir_json.canonical(given)

    check()


@pytest.fixture(scope="module")
def empty(make_app):
    app = make_app(seed=False)
    return app, Fhir(app, token_for(app, "system/*.rs"))


@pytest.mark.databases(SQLITE, POSTGRESQL)
@pytest.mark.parametrize("examples", [3, pytest.param(15, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", NAMES)
def test_resource_is_answered_as_it_was_published(empty, name, examples):
    app, fhir = empty
    number = 0

    @settings(REPEATABLE, max_examples=examples)
    @given(resources(name))
    def check(resource: dict[str, Any]) -> None:
        nonlocal number
        number += 1
        resource["id"] = f"{name}-{examples}-{number}"
        if name == "Provenance":
            # Only what is about something that is here may be seen.
            resource["target"] = [{"reference": "Organization/o"}]
            resource.pop("_target", None)
        given = copy.deepcopy(resource)
        publish(app, resource, now="2026-02-01T00:00:00.000+00:00")
        response = fhir.get(f"{name}/{resource['id']}")
        assert response.status_code == 200, response.text
        served = fhir_json.loads(response.data)
        for attachment, source in zip(attachments(served), attachments(given), strict=True):
            if "data" in source:
                assert attachment["url"].startswith(f"{BASE_URL}/fhir/Binary/")
                content = fhir.get(attachment["url"].removeprefix(BASE_URL)).data
                assert content == base64.b64decode(source["data"])
        kept = without_what_changes(served, given)
        assert fhir_json.canonical(kept) == fhir_json.canonical(given)

    publish(
        app, {"resourceType": "Organization", "id": "o", "name": "O"},
        now="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    check()


US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"


@pytest.mark.parametrize(
    ("meta", "served"),
    [
        (
            {"profile": [US_CORE, "urn:own"], "_profile": [None, {"id": "own"}]},
            {"profile": ["urn:own"], "_profile": [{"id": "own"}]},
        ),
        ({"profile": [None, "urn:own"], "_profile": [{"id": "a"}, None]},) * 2,
    ],
)
def test_extensions_of_profiles_stay_with_them(meta, served):
    """decisions 2.12: a document without content does not claim US Core."""
    definition = SERVED["DocumentReference"]
    document = {"resourceType": "DocumentReference", "id": "d", "status": "current", "meta": meta}
    columns = prepare(definition, document).columns
    row = {**columns, "id": "d", "version_id": 1, "last_updated": "2026"}
    found = definition.schema.dump(row)["meta"]
    assert {name: found[name] for name in ("profile", "_profile")} == served
