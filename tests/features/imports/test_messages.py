"""Files that cannot be imported: the message says what they are, and what to do."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from fhirapp.fhir.datatypes import ID_RULE
from tests.support.archives import zipped
from tests.support.bundles import asked, bundle, put
from tests.support.importing import lines, load, write
from tests.support.records import patient

ROW = b"p1,Doe,Latex\n"
HEADINGS = b"patient_id,patient_family,substance\n"
SPREADSHEET = ("is a spreadsheet", "save each of its tables as CSV")
LETTER = ("is a document of an office program", "a table of documents can name")
PAGE = ("is an HTML page", "sign-in page")
INDENTED = ("is indented JSON", "each resource on one line, or name the file .json")
TAR = ("is a tar archive", "zip")
COMPRESSED = ("compressed in a way that is not read", "gzip or zip")
HL7_V2 = ("HL7 version 2", "not imported")


def office(folder: Path, *names: str) -> bytes:
    """Return the file of an office program with these parts."""
    return zipped(folder / "office", dict.fromkeys(names, b"<x/>")).read_bytes()


def open_document(folder: Path, kind: str) -> bytes:
    media_type = f"application/vnd.oasis.opendocument.{kind}".encode()
    return zipped(folder / "office", {"mimetype": media_type, "content.xml": b"<x/>"}).read_bytes()


def assert_messages(app, folder: Path, expected: Mapping[str, tuple[bytes, tuple[str, ...]]]):
    """Assert that each file of a folder is rejected as a whole, with these words."""
    given = folder / "given"
    for name, (content, _) in expected.items():
        write(given, content, name)
    report = load(app, *(given / name for name in expected))
    assert report.rejected_lines == len(expected), report.rejected
    for fault, (name, (_, words)) in zip(
        sorted(report.faults), sorted(expected.items()), strict=True
    ):
        assert (fault.place, fault.path) == (f"{given}/{name}", "")
        assert [word for word in words if word not in fault.message] == [], fault.message


def test_office_file_is_to_be_saved_as_another(module_app, tmp_path):
    parts = ("[Content_Types].xml", "xl/workbook.xml")
    sheets = [
        office(tmp_path, *parts),
        office(tmp_path, "xl/workbook.xml", "docProps/app.xml", "[Content_Types].xml"),
        open_document(tmp_path, "spreadsheet"),
        gzip.compress(office(tmp_path, *parts)),
        b"\xd0\xcf\x11\xe0" + b"\0" * 600 + "Workbook".encode("utf-16-le") + b"\0" * 600,
    ]
    names = ("book.xlsx", "book.zip", "book", "book.csv")
    files = {
        f"{place}/{name}": (sheet, SPREADSHEET)
        for place, sheet in enumerate(sheets)
        for name in names
    }
    files["a.docx"] = (office(tmp_path, "[Content_Types].xml", "word/document.xml"), LETTER)
    files["b.docx"] = (open_document(tmp_path, "text"), LETTER)
    assert_messages(module_app, tmp_path, files)


def test_web_page_or_other_xml_in_place_of_a_file_is_recognized(module_app, tmp_path):
    pages = [
        b"<!DOCTYPE html><html><body>Login required</body></html>",
        b"\xef\xbb\xbf\r\n<!doctype HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>\n<HTML>",
        b"<html lang='en'><head><title>Sign in</title></head></html>",
        b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'/>",
        b"<!-- proxy --><HEAD></HEAD>",
        "<!DOCTYPE html><html></html>".encode("utf-16"),
    ]
    files = {
        f"{place}.{end}": (content, PAGE)
        for place, content in enumerate(pages)
        for end in ("xml", "ndjson", "csv")
    }
    data = b"<?xml version='1.0'?><!DOCTYPE HealthData [<!ELEMENT HealthData ANY>]><HealthData/>"
    files["export.xml"] = (data, ("ClinicalDocument of urn:hl7-org:v3", "HealthData"))
    named = b"<x:HealthData xmlns:x='urn:x'/>"
    files["named.xml"] = (named, ("ClinicalDocument of urn:hl7-org:v3", "HealthData"))
    assert_messages(module_app, tmp_path, files)


def test_blank_lines_and_a_separator_above_the_headings_are_read(import_file):
    assert import_file(b"\n" + b"sep=,\n" + HEADINGS + ROW, "a.csv").complete


def test_indented_json_named_as_lines_is_recognized(module_app, import_file, tmp_path):
    def indented(indent: int | str, content: object = None) -> bytes:
        return json.dumps(content or patient("pp1"), indent=indent).encode()

    contents = [
        indented(2, patient("pp1", name=[{"text": "Pretty"}])),
        indented("\t") + b"\n",
        indented(0),
        indented(2).replace(b"\n", b"\r\n"),
        (indented(2) + b"\n") * 3,
        indented(2, [patient("pp1"), patient("pp2")]),
        b"[\n" + lines(patient("pp1")).rstrip() + b"\n]\n",
        indented(2, bundle("collection", {"resource": patient("a")})),
    ]
    files = {
        f"{place}.{end}": (gzip.compress(content) if end.endswith("gz") else content, INDENTED)
        for place, content in enumerate(contents)
        for end in ("NDJSON", "ndjson.gz")
    }
    assert_messages(module_app, tmp_path, files)
    # Damaged lines are each reported.
    damaged = [b'{"resourceType": "Patient", ', b'{"a"', b'{"b": 1', patient("whole")]
    report = import_file(lines(*damaged), "a.ndjson")
    assert len(report.faults) == 3
    assert report.changes["Patient"].total() == 1


def test_other_archives_and_hl7_version_2_are_recognized(module_app, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("documents.csv"), io.BytesIO())
    tar = stream.getvalue()
    files = {"a.tar": (tar, TAR), "a.tar.gz": (gzip.compress(tar), TAR)}
    for place, magic in enumerate((b"BZh91AY&SY", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\1\0")):
        files[f"{place}.json"] = (magic, COMPRESSED)
    files["xz.json"] = (b"\xfd7zXZ\0\0", COMPRESSED)
    files["adt.hl7"] = (b"MSH|^~\\&|LAB|X\rPID|1\r", HL7_V2)
    files["framed.hl7"] = (b"\x0bMSH|^~\\&|LAB|X\rPID|1\r\x1c\r", HL7_V2)
    assert_messages(module_app, tmp_path, files)


# Ids


@pytest.mark.parametrize("own_id", ["p_1", "p" * 65])
def test_invalid_id_is_rejected_with_the_rule(module_app, tmp_path, own_id):
    """tests/fhir has the ids that are invalid."""
    report = load(
        module_app,
        write(tmp_path, lines(patient(own_id)), "a.ndjson"),
        write(tmp_path, bundle("transaction", put(patient(own_id))), "b.json"),
        write(tmp_path, HEADINGS + f'"{own_id}",Doe,Latex\n'.encode(), "c.csv"),
        write(tmp_path, bundle("transaction", asked("DELETE", f"Patient/{own_id}")), "d.json"),
        write(
            tmp_path,
            b"patient_id,patient_family,substance,encounter\np1,Doe,Latex,%s\n" % own_id.encode(),
            "e.csv",
        ),
    )
    assert len(report.faults) == 5
    assert all(ID_RULE in fault.message for fault in report.faults)
    found = {fault.place[len(str(tmp_path)) + 1 :][0]: fault.path for fault in report.faults}
    expected = {"a": "Patient.id", "b": "Patient.id", "c": "patient_id"}
    assert {name: found[name] for name in expected} == expected
