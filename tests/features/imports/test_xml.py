"""Imports of FHIR XML: the same records as from JSON, and faults with their places."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import xml, xml_reader
from tests.support.archives import zipped
from tests.support.bundles import asked, bundle, history, plain, put
from tests.support.complete import RESOURCES
from tests.support.importing import load, write
from tests.support.records import patient
from tests.support.stored import current, stored, versions

HARD = patient(
    "hard",
    active=True,
    _active={"id": "a"},
    name=[{"given": ["Ann", None, "\tB\n"], "_given": [None, {"id": "g"}, None]}],
    extension=[{"url": "urn:decimal", "valueDecimal": fhir_json.loads("1.500")}],
)


def in_xml(resource: Any) -> bytes:
    return xml.dumps(fhir_json.loads(fhir_json.dumps(resource)), pretty=True)


def test_records_from_xml_are_the_same_as_from_json(make_app, tmp_path):
    from_json, from_xml = make_app(seed=False), make_app(seed=False)
    for place, resource in enumerate([HARD, *RESOURCES]):
        write(tmp_path, fhir_json.dumps(resource), f"json/{place}.json")
        write(tmp_path, in_xml(resource), f"xml/{place}.xml")
    reports = [load(from_json, tmp_path / "json"), load(from_xml, tmp_path / "xml")]
    assert reports[0].changes == reports[1].changes
    assert stored(from_json) == stored(from_xml)
    assert reports[1].complete


def test_bundles_in_xml_are_imported_entry_by_entry(empty, tmp_path):
    changes = [put(patient("b")), asked("PUT", "Patient/a", patient("a"))]
    changes.append(asked("DELETE", "Patient/b"))
    versions_of_h = history(patient("h", active=True), patient("h", active=False))
    for content, expected in (
        (bundle("collection", plain(HARD), plain(patient("b"))), ["b", "hard"]),
        (bundle("transaction", *changes), ["a", "hard"]),
        (versions_of_h, ["a", "h", "hard"]),
    ):
        assert load(empty, write(tmp_path, in_xml(content), "b.xml")).complete
        assert current(empty, "Patient") == expected
    assert [row[2:] for row in versions(empty) if row[1] == "h"] == [(1, False), (2, False)]


def test_xml_is_read_in_archives_and_in_another_encoding(module_app, tmp_path):
    text = in_xml(patient("utf-16")).decode().replace("UTF-8", "UTF-16")
    write(tmp_path, text.encode("utf-16"), "in/a.xml")
    write(tmp_path, gzip.compress(in_xml(patient("gzip"))), "in/b.xml.gz")
    zipped(tmp_path / "in" / "c.zip", {"x/c.xml": in_xml(patient("zip"))})
    assert load(module_app, tmp_path / "in").complete
    assert {"utf-16", "gzip", "zip"} <= {*current(module_app, "Patient")}


def test_unknown_element_rejects_its_entry_alone(module_app, import_file, tmp_path):
    content = in_xml(bundle("collection", plain(patient("wrong")), plain(patient("right"))))
    wrong = b'<id value="wrong"/>'
    (fault,) = import_file(content.replace(wrong, wrong + b'<nonsense value="1"/>'), "x.xml").faults
    assert (fault.path, fault.message) == ("Patient.nonsense", "is not an element of FHIR R4 here")
    assert fault.place.startswith(f"{tmp_path}/x.xml:4, entry[0]")
    assert "right" in current(module_app, "Patient")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("<Patient {}>\n<id>", ":2", "is not well-formed XML: no element found"),
        ("<Bundle {}>\n<type>x</type></Bundle>", ":2", "has text outside of the narrative"),
        ("<!DOCTYPE x [\n<!ENTITY a 'b'>]><Bundle {}/>", ":1", "has a DOCTYPE"),
        ("<Bundle {}/>", "", "must be one of collection"),
    ],
)
def test_invalid_fhir_xml_is_rejected_with_its_line(import_file, tmp_path, content, line, message):
    content = content.format('xmlns="http://hl7.org/fhir"')
    (fault,) = import_file(content.encode(), "x.xml").faults
    assert fault.place == f"{tmp_path}/x.xml{line}"
    assert fault.message.startswith(message)


def test_rejected_xml_is_written_as_json(import_file, tmp_path):
    wrong = in_xml(patient("later")).replace(b"</Patient>", b'<nonsense value="1"/></Patient>')
    rejected = tmp_path / "rejected.ndjson"
    import_file(wrong, "x.xml", rejected=rejected)
    (line,) = rejected.read_bytes().splitlines()
    assert fhir_json.loads(line) == {"resourceType": "Patient", "id": "later", "nonsense": "1"}
    assert xml_reader.loads(wrong)["nonsense"] == "1"
