"""The records of ten synthetic patients: none is lost or changed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.features.imports.report import Report
from fhirapp.fhir.temporal import normalise_date_time
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, every_page
from tests.support.importing import asking

# Tests of 2,500 real records take seconds.
pytestmark = [pytest.mark.campaign, pytest.mark.databases(SQLITE, POSTGRESQL)]


@pytest.fixture
def synthea(synthea_loaded: tuple[Flask, Report]) -> Fhir:
    """A client that may read and search everything."""
    return asking(synthea_loaded[0])


def source(folder: Path, type_name: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a file by id."""
    text = (folder / f"{type_name}.ndjson").read_text(encoding="utf-8")
    return {resource["id"]: resource for resource in map(json.loads, text.splitlines())}


def test_every_record_is_imported(synthea_loaded):
    _, report = synthea_loaded
    assert report.rejected == []
    assert {name: counts.total() for name, counts in report.changes.items()} == {
        "Patient": 13,
        "Encounter": 1215,
        "Practitioner": 43,
        "Organization": 43,
        "AllergyIntolerance": 11,
        "DocumentReference": 1215,
    }
    assert report.skipped == {"Location": 44, "PractitionerRole": 43}
    # Only references to types that are not served stay as they were.
    assert {reference.split("?")[0] for reference in report.kept} == {"Location"}


def test_documents_have_the_content_and_the_bytes_of_the_source(synthea, synthea_folder):
    """But for what this server adds or writes in its own way: meta, narrative, addresses, bytes."""
    expected = source(synthea_folder, "DocumentReference")
    practitioners = source(synthea_folder, "Practitioner")
    organizations = source(synthea_folder, "Organization")
    pages = every_page(synthea, "DocumentReference?_count=500")
    found = {document["id"]: document for document in pages}
    assert found.keys() == expected.keys()
    for resource_id, document in found.items():
        given = expected[resource_id]
        assert synthea.read(f"DocumentReference/{resource_id}") == document
        data = base64.b64decode(given["content"][0]["attachment"]["data"])
        attachment = document["content"][0]["attachment"]
        assert attachment["size"] == len(data)
        assert base64.b64decode(attachment["data"]) == data
        binary = synthea.get(attachment["url"].removeprefix(BASE_URL))
        assert binary.data == data
        assert binary.content_type == given["content"][0]["attachment"]["contentType"]
        assert document["date"] == normalise_date_time(given["date"])
        assert document["meta"]["profile"] == given["meta"]["profile"]
        own = {"meta", "text", "date", "author", "custodian", "content", "context"}
        for name in given.keys() - own:
            assert document[name] == given[name]
        assert document["context"].keys() == given["context"].keys()
        assert document["content"][0].get("format") == given["content"][0].get("format")
        for author, of_source in zip(document["author"], given["author"], strict=True):
            assert author["display"] == of_source["display"]
            assert author["reference"].removeprefix("Practitioner/") in practitioners
        assert document["custodian"]["reference"].removeprefix("Organization/") in organizations


def test_allergies_have_the_content_of_the_source(synthea, synthea_folder):
    expected = source(synthea_folder, "AllergyIntolerance")
    assert set(synthea.ids("AllergyIntolerance")) == expected.keys()
    for resource_id, given in expected.items():
        patient = given["patient"]["reference"]
        assert resource_id in synthea.ids(f"AllergyIntolerance?patient={patient}")
        allergy = synthea.read(f"AllergyIntolerance/{resource_id}")
        assert allergy["text"]["status"] == "generated"
        assert allergy["recordedDate"] == normalise_date_time(given["recordedDate"])
        for name in given.keys() - {"meta", "recordedDate"}:
            assert allergy[name] == given[name]
