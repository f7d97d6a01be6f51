"""FHIR XML is imported as the same in JSON is: files, Bundles, archives, and what is wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import xml, xml_reader
from tests.support.archives import zipped
from tests.support.complete import RESOURCES
from tests.support.importing import (
    asked,
    bundle,
    current,
    load,
    patient,
    plain,
    put,
    stored,
    versions,
    write,
)

HARD = patient(
    "hard",
    active=True,
    _active={"id": "a"},
    text={
        "status": "generated",
        "div": '<div xmlns="http://www.w3.org/1999/xhtml"><b></b>a &amp; <i>ä</i></div>',
    },
    contained=[
        {"resourceType": "Observation", "id": "o", "status": "final", "code": {"text": "x"}}
    ],
    name=[
        {"given": ["Ann", None, "\tB\n"], "_given": [None, {"extension": [{"url": "urn:x"}]}, None]}
    ],
    extension=[
        {"url": "urn:decimal", "valueDecimal": fhir_json.loads("1.500")},
        {"url": "urn:no-value", "_valueDate": {"id": "d"}},
    ],
)


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def in_xml(resource: Any) -> bytes:
    return xml.dumps(fhir_json.loads(fhir_json.dumps(resource)), pretty=True)


def test_what_xml_brings_is_what_json_brings(make_app, tmp_path):
    resources = [HARD, *RESOURCES]
    from_json, from_xml = make_app(seed=False), make_app(seed=False)
    for place, resource in enumerate(resources):
        write(tmp_path, fhir_json.dumps(resource), f"json/{place}.json")
        write(tmp_path, in_xml(resource), f"xml/{place}.xml")
    reports = [load(from_json, tmp_path / "json"), load(from_xml, tmp_path / "xml")]
    assert reports[0].changes == reports[1].changes
    assert stored(from_json) == stored(from_xml)
    assert reports[1].complete


@pytest.mark.parametrize("kind", ["collection", "transaction"])
def test_a_bundle_in_xml_is_imported_entry_by_entry(empty, tmp_path, kind):
    entries = [plain(HARD), plain(patient("b"))]
    if kind == "transaction":
        entries = [put(patient("b")), asked("PUT", "Patient/a", patient("a"))]
        entries.append(asked("DELETE", "Patient/b"))
    report = load(empty, write(tmp_path, in_xml(bundle(kind, *entries)), "b.xml"))
    assert report.complete
    assert current(empty, "Patient") == (["a"] if kind == "transaction" else ["b", "hard"])


def test_a_history_in_xml_brings_every_version(empty, tmp_path):
    def version(number: int, active: bool) -> dict[str, Any]:
        meta = {"versionId": str(number), "lastUpdated": f"2024-01-0{number}T00:00:00+00:00"}
        entry = asked("PUT", "Patient/h", patient("h", meta=meta, active=active))
        response = {"status": "200", "lastModified": meta["lastUpdated"]}
        return {"fullUrl": "Patient/h", "response": response, **entry}

    history = bundle("history", version(2, active=False), version(1, active=True))
    assert load(empty, write(tmp_path, in_xml(history), "h.xml")).complete
    assert versions(empty) == [("Patient", "h", 1, False), ("Patient", "h", 2, False)]


def test_xml_in_archives_and_in_another_encoding_is_read(kept, tmp_path):
    text = in_xml(patient("utf-16")).decode().replace("UTF-8", "UTF-16")
    write(tmp_path, text.encode("utf-16"), "in/a.xml")
    write(tmp_path, gzip.compress(in_xml(patient("gzip"))), "in/b.xml.gz")
    zipped(tmp_path / "in" / "c.zip", {"x/c.xml": in_xml(patient("zip"))})
    assert load(kept, tmp_path / "in").complete
    assert {"utf-16", "gzip", "zip"} <= {*current(kept, "Patient")}


def test_what_fhir_has_not_is_told_with_its_path_and_stops_no_other_entry(kept, tmp_path):
    document = in_xml(bundle("collection", plain(patient("wrong")), plain(patient("right"))))
    document = document.replace(b'<id value="wrong"/>', b'<id value="wrong"/><nonsense value="1"/>')
    path = write(tmp_path, document, "x.xml")
    report = load(kept, path)
    assert [(one.path, one.message) for one in report.faults] == [
        ("Patient.nonsense", "is not an element of FHIR R4 here")
    ]
    assert report.faults[0].place.startswith(f"{path}:4, entry[0]")
    assert "right" in current(kept, "Patient")


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ('<identifier value="1"/>', "Patient.identifier[0].@value"),
        ('<active value="yes"/>', "Patient.active"),
        ('<gender value="male"/><gender value="male"/>', "Patient.gender"),
        ('<name><family><nonsense value="1"/></family></name>', "Patient.name[0]._family.nonsense"),
    ],
)
def test_what_is_wrong_in_a_resource_is_told_as_in_json(kept, tmp_path, inside, fault):
    document = f'<Patient xmlns="http://hl7.org/fhir"><id value="w"/>{inside}</Patient>'
    report = load(kept, write(tmp_path, document.encode(), "x.xml"))
    assert [one.path for one in report.faults] == [fault]


@pytest.mark.parametrize(
    ("document", "line", "message"),
    [
        ("<Patient {}>\n<id>", 2, "is not well-formed XML: no element found"),
        ("<Bundle {}>\n<type>x</type></Bundle>", 2, "has text outside of the narrative"),
        ("<!DOCTYPE x [\n<!ENTITY a 'b'>]><Bundle {}/>", 1, "has a DOCTYPE"),
        ("<Bundle {}/>", None, "must be one of collection"),
    ],
)
def test_a_document_that_is_no_fhir_xml_is_told(kept, tmp_path, document, line, message):
    document = document.format('xmlns="http://hl7.org/fhir"')
    path = write(tmp_path, document.encode(), "x.xml")
    (fault,) = load(kept, path).faults
    assert fault.place == (f"{path}:{line}" if line else str(path))
    assert fault.message.startswith(message)


def test_rejected_xml_can_be_corrected_in_json(kept, tmp_path):
    wrong = in_xml(patient("later")).replace(b"</Patient>", b'<nonsense value="1"/></Patient>')
    rejected = tmp_path / "rejected.ndjson"
    load(kept, write(tmp_path, wrong, "x.xml"), rejected=rejected)
    (line,) = rejected.read_bytes().splitlines()
    assert fhir_json.loads(line) == {"resourceType": "Patient", "id": "later", "nonsense": "1"}
    assert xml_reader.loads(wrong)["nonsense"] == "1"


def test_a_clinical_document_that_names_fhirs_namespace_stays_one(kept, tmp_path):
    ccd = Path(__file__).parent.parent / "ccda" / "ccd.xml"
    document = ccd.read_bytes().replace(
        b"<ClinicalDocument", b'<!-- <Patient xmlns="http://hl7.org/fhir"/> --><ClinicalDocument', 1
    )
    report = load(kept, write(tmp_path, document, "x.xml"))
    assert report.changes["DocumentReference"]["new"] == 1
