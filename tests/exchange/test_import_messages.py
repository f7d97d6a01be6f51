"""What an import says of files that it cannot read: what is wrong, and what would be right."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.fhir.datatypes import ID_RULE
from tests.support.archives import zipped
from tests.support.importing import allergy, asked, bundle, lines, load, patient, put, write

ROW = b"p1,Doe,Latex\n"
HEADINGS = b"patient_id,patient_family,substance\n"
BUNDLE = json.dumps(bundle("collection", {"resource": patient("a")}), indent=2).encode()


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def message(app: Flask, folder: Path, content: bytes, name: str) -> str:
    """Return the one fault of a file that is refused as a whole."""
    path = write(folder, content, name)
    report = load(app, path)
    (fault,) = report.faults
    assert (report.rejected_lines, fault.place, fault.path) == (1, str(path), "")
    return fault.message


def office(folder: Path, *names: str) -> bytes:
    """Return the file of an office program with these parts."""
    return zipped(folder / "office", dict.fromkeys(names, b"<x/>")).read_bytes()


def open_document(folder: Path, kind: str) -> bytes:
    media_type = f"application/vnd.oasis.opendocument.{kind}".encode()
    members = {"mimetype": media_type, "content.xml": b"<x/>"}
    return zipped(folder / "office", members).read_bytes()


@pytest.mark.parametrize("name", ["book.xlsx", "book.zip", "book", "book.csv"])
def test_a_spreadsheet_is_to_be_saved_as_csv(kept, tmp_path, name):
    old = b"\xd0\xcf\x11\xe0" + b"\0" * 600 + "Workbook".encode("utf-16-le") + b"\0" * 600
    for content in (
        office(tmp_path, "[Content_Types].xml", "xl/workbook.xml"),
        office(tmp_path, "xl/workbook.xml", "docProps/app.xml", "[Content_Types].xml"),
        open_document(tmp_path, "spreadsheet"),
        gzip.compress(office(tmp_path, "[Content_Types].xml", "xl/workbook.xml")),
        old,
    ):
        said = message(kept, tmp_path, content, name)
        assert said == "is a spreadsheet: save each of its tables as CSV"


def test_a_document_of_an_office_program_is_told(kept, tmp_path):
    for content in (
        office(tmp_path, "[Content_Types].xml", "word/document.xml"),
        open_document(tmp_path, "text"),
    ):
        said = message(kept, tmp_path, content, "letter.docx")
        assert said.startswith("is a document of an office program: a table of documents can name")


@pytest.mark.parametrize("name", ["a.xml", "a.json", "a.ndjson", "a.csv", "a.ccd"])
@pytest.mark.parametrize(
    "content",
    [
        b"<!DOCTYPE html><html><body>Login required</body></html>",
        b"\xef\xbb\xbf\r\n<!doctype HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>\n<HTML>",
        b"<html lang='en'><head><title>Sign in</title></head></html>",
        b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'/>",
        b"<!-- proxy --><HEAD></HEAD>",
        "<!DOCTYPE html><html></html>".encode("utf-16"),
    ],
)
def test_a_page_that_was_saved_in_place_of_a_file_is_told(kept, tmp_path, name, content):
    said = message(kept, tmp_path, content, name)
    assert said.startswith("is an HTML page, such as a sign-in page that was saved in place of")


def test_another_xml_is_told_with_its_first_element(kept, tmp_path):
    for content in (
        b"<?xml version='1.0'?><!DOCTYPE HealthData [<!ELEMENT HealthData ANY>]><HealthData/>",
        b"<x:HealthData xmlns:x='urn:x'/>",
    ):
        said = message(kept, tmp_path, content, "export.xml")
        assert said.endswith("(ClinicalDocument of urn:hl7-org:v3): it begins with HealthData")


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize(
    "above",
    [
        b"Allergies of our clinic;;;;\r\n",
        b"Allergies, as of 2024-03-01\n",
        b'"Allergies"\n',
        b"\n\n;;;\n",
        "Überschrift\n".encode("cp1252"),
    ],
)
def test_lines_above_the_headings_of_a_table_are_told(kept, tmp_path, above, number):
    content = above * number + HEADINGS + ROW
    line = above.count(b"\n") * number + 1
    said = message(kept, tmp_path, content, "a.csv")
    assert said == f"has the headings of a table in line {line}: remove the lines above it"


def test_lines_above_a_table_in_utf_16_are_told(kept, tmp_path):
    content = ("Titel\r\n" + (HEADINGS + ROW).decode()).encode("utf-16")
    assert "in line 2" in message(kept, tmp_path, content, "a.csv")


def test_blank_lines_and_a_separator_above_the_headings_are_read(kept, tmp_path):
    path = write(tmp_path, b"\n" + b"sep=,\n" + HEADINGS + ROW, "a.csv")
    assert load(kept, path).complete


@pytest.mark.parametrize("name", ["a.ndjson", "a.jsonl", "a.NDJSON", "a.ndjson.gz"])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(patient("pp1", name=[{"text": "Pretty"}]), indent=2).encode(),
        json.dumps(patient("pp1"), indent="\t").encode() + b"\n",
        json.dumps(patient("pp1"), indent=0).encode(),
        json.dumps(patient("pp1"), indent=2).replace("\n", "\r\n").encode(),
        (json.dumps(patient("pp1"), indent=2) + "\n").encode() * 3,
        json.dumps([patient("pp1"), patient("pp2")], indent=2).encode(),
        b"[\n" + lines(patient("pp1")).rstrip() + b"\n]\n",
        BUNDLE,
    ],
)
def test_indented_json_named_as_lines_is_told_once(kept, tmp_path, name, content):
    content = gzip.compress(content) if name.endswith("gz") else content
    said = message(kept, tmp_path, content, name)
    assert said == "is indented JSON: write each resource on one line, or name the file .json"


def test_lines_of_which_most_are_damaged_are_told_each(kept, tmp_path):
    damaged = [b'{"resourceType": "Patient", ', b'{"a"', b'{"b": 1', patient("whole")]
    report = load(kept, write(tmp_path, lines(*damaged), "a.ndjson"))
    assert len(report.faults) == 3
    assert report.changes["Patient"].total() == 1


def test_archives_that_are_not_read_are_told(kept, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("documents.csv"), io.BytesIO())
    for content, name in (
        (stream.getvalue(), "a.tar"),
        (gzip.compress(stream.getvalue()), "a.tar.gz"),
    ):
        said = message(kept, tmp_path, content, name)
        assert said == "is a tar archive: unpack it, or pack its files into a zip"
    for content in (b"BZh91AY&SY", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\1\0", b"\xfd7zXZ\0\0"):
        said = message(kept, tmp_path, content, "a.json")
        assert said == "is compressed in a way that is not read: use gzip or zip"


def test_messages_of_hl7_version_2_are_told(kept, tmp_path):
    for content in (b"MSH|^~\\&|LAB|X\rPID|1\r", b"\x0bMSH|^~\\&|LAB|X\rPID|1\r\x1c\r"):
        said = message(kept, tmp_path, content, "adt.hl7")
        assert said == "holds HL7 version 2 messages, which are not imported"


@pytest.mark.parametrize("own_id", ["p_1", "p 1", "p/1", "pä", "p" * 65, "p:1", "p@1"])
def test_an_id_that_is_none_is_told_with_the_rule(kept, tmp_path, own_id):
    rule = f"is not a valid id: {ID_RULE}"
    entry = put(patient(own_id))
    report = load(
        kept,
        write(tmp_path, lines(patient(own_id)), "a.ndjson"),
        write(tmp_path, bundle("transaction", entry), "b.json"),
        write(tmp_path, HEADINGS + f'"{own_id}",Doe,Latex\n'.encode(), "c.csv"),
    )
    assert sorted((fault.path, fault.message) for fault in report.faults) == [
        ("Patient.id", rule),
        ("Patient.id", rule),
        ("patient_id", rule),
    ]


def test_the_rule_of_ids_is_told_wherever_an_id_is_named(kept, tmp_path):
    deletion = bundle("transaction", asked("DELETE", "Patient/p_1"))
    encounter = b"patient_id,patient_family,substance,encounter\np1,Doe,Latex,e_1\n"
    report = load(
        kept,
        write(tmp_path, deletion, "a.json"),
        write(tmp_path, encounter, "b.csv"),
    )
    assert all(ID_RULE in fault.message for fault in report.faults)
    assert len(report.faults) == 2
    note = b"patient_id,patient_family,substance,id\np1,Doe,Nickel,a_1\n"
    report = load(kept, write(tmp_path, note, "c.csv"))
    assert any(ID_RULE in remark for remark in report.remarks)


def test_a_reference_with_an_id_that_is_none_is_listed(kept, tmp_path):
    report = load(kept, write(tmp_path, lines(allergy("refers", of="Patient/p_1")), "a.ndjson"))
    assert report.kept == {"Patient/p_1": f"Patient has an invalid id: {ID_RULE}"}
