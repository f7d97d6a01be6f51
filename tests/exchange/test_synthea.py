"""The records of ten synthetic patients, loaded whole: nothing refused, nothing lost."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.exchange.imports.report import Report
from fhirapp.fhir.temporal import normalise_date_time
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, link
from tests.support.importing import asking, load_paths

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.fixture
def synthea(synthea_loaded: tuple[Flask, Report]) -> Fhir:
    """A client that may read and search everything."""
    return asking(synthea_loaded[0])


def source(folder: Path, type_name: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a file by id."""
    text = (folder / f"{type_name}.ndjson").read_text(encoding="utf-8")
    resources = map(json.loads, text.splitlines())
    return {resource["id"]: resource for resource in resources}


def every_page(fhir: Fhir, path: str) -> Iterator[dict[str, Any]]:
    """Yield the matches of all pages."""
    following: str | None = path
    while following:
        bundle = fhir.read(following)
        yield from (entry["resource"] for entry in bundle.get("entry", ()))
        following = link(bundle, "next")


def test_every_line_is_loaded(synthea_loaded):
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
    # Only what points to types that are not served stays as it was.
    assert {one.split("?")[0] for one in report.kept} == {"Location"}


def test_every_document_is_found_by_search_and_read_and_its_bytes_are_the_sources(
    synthea, synthea_folder
):
    expected = source(synthea_folder, "DocumentReference")
    found = {one["id"]: one for one in every_page(synthea, "DocumentReference?_count=500")}
    assert found.keys() == expected.keys()
    for resource_id, document in found.items():
        assert synthea.read(f"DocumentReference/{resource_id}") == document
        given = expected[resource_id]["content"][0]["attachment"]
        attachment = document["content"][0]["attachment"]
        data = base64.b64decode(given["data"])
        assert attachment["size"] == len(data)
        assert base64.b64decode(attachment["data"]) == data
        binary = synthea.get(attachment["url"].removeprefix(BASE_URL))
        assert binary.data == data
        assert binary.content_type == given["contentType"]


def test_authors_and_custodians_are_resolved(synthea, synthea_folder):
    practitioners = source(synthea_folder, "Practitioner")
    organizations = source(synthea_folder, "Organization")
    for document in every_page(synthea, "DocumentReference?_count=500"):
        for author in document["author"]:
            type_name, _, resource_id = author["reference"].partition("/")
            assert type_name == "Practitioner"
            assert resource_id in practitioners
        assert document["custodian"]["reference"].removeprefix("Organization/") in organizations


def test_nothing_of_a_document_is_lost(synthea, synthea_folder):
    """Save what this server adds or writes its own way: meta, narrative, addresses, bytes."""
    expected = source(synthea_folder, "DocumentReference")
    for document in every_page(synthea, "DocumentReference?_count=500"):
        given = expected[document["id"]]
        assert document["date"] == normalise_date_time(given["date"])
        assert document["meta"]["profile"] == given["meta"]["profile"]
        own = {"meta", "text", "date", "author", "custodian", "content", "context"}
        for name in given.keys() - own:
            assert document[name] == given[name]
        assert [one["display"] for one in document["author"]] == [
            one["display"] for one in given["author"]
        ]
        assert document["context"].keys() == given["context"].keys()
        assert document["content"][0].get("format") == given["content"][0].get("format")


def test_every_allergy_is_found_by_its_patient_and_is_the_sources(synthea, synthea_folder):
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


def test_a_second_run_changes_nothing(synthea_loaded, synthea_folder):
    app, first = synthea_loaded
    before = asking(app).get("DocumentReference?_count=1000").data
    again = load_paths(app, synthea_folder)
    assert again.complete
    assert again.changes == {
        name: {"same": counts.total()} for name, counts in first.changes.items()
    }
    assert asking(app).get("DocumentReference?_count=1000").data == before
