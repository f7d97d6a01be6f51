"""Every file of a folder or an archive is read, or named as skipped with a reason."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.exchange.imports.skipped import (
    COPY,
    INCOMPLETE,
    OF_THE_EXPORT,
    OF_THE_PACKAGE,
    OF_THE_SYSTEM,
)
from tests.support.archives import zipped
from tests.support.importing import current, lines, load, patient, write
from tests.support.shell import fhirapp

CCD = (Path(__file__).parents[1] / "ccda" / "ccd.xml").read_bytes()
XML_PATIENT = b'<Patient xmlns="http://hl7.org/fhir"><id value="in-xml"/></Patient>'
TABLE = b"patient_id,patient_family,substance\nin-csv,Doe,Latex\n"
DOCUMENTS = b"patient_id,patient_family,type,file\nnamer,Doe,11506-3,%s\n"
APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02"
METADATA = b'<?xml version="1.0"?>\n<lcm:SubmitObjectsRequest xmlns:lcm="urn:x"/>'


FORMS = ["folder", "archive", "archive in a folder"]


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def laid_out(folder: Path, form: str, members: dict[str, bytes]) -> Path:
    """Write files into a folder, or into an archive; return what to import."""
    home = folder / "given"
    home.mkdir()
    if form == "archive":
        return zipped(folder / "given.zip", members)
    for name, content in members.items():
        write(home, content, name)
    if form == "archive in a folder":
        for name in members:
            (home / name).unlink()
        zipped(home / "inner.zip", members)
    return home


def base_names(report) -> dict[str, str]:
    """Return the reasons of the skipped files by their names alone."""
    return {
        place.replace("!", "/").rpartition("/")[2]: reason
        for place, reason in report.skipped_files.items()
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("content", "type_name"),
    [
        (CCD, "DocumentReference"),
        (b"\xef\xbb\xbf" + CCD, "DocumentReference"),
        (gzip.compress(CCD, mtime=0), "DocumentReference"),
        (XML_PATIENT, "Patient"),
        (json.dumps(patient("in-json"), indent=1).encode(), "Patient"),
        (lines(patient("in-lines"), patient("in-lines-2")), "Patient"),
        (TABLE, "AllergyIntolerance"),
    ],
    ids=["C-CDA", "with a mark", "gzip", "FHIR XML", "JSON", "NDJSON", "table"],
)
def test_a_file_without_a_suffix_is_read_by_its_content(kept, tmp_path, form, content, type_name):
    report = load(kept, laid_out(tmp_path, form, {"visit": content}))
    assert (report.complete, report.skipped_files) == (True, {})
    assert report.changes[type_name].total() >= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["visit.ccd", "visit.CDA", "visit.ccda", "visit.hl7", "deep/visit.txt", "v.1"]
)
def test_a_clinical_document_of_any_name_is_read(kept, tmp_path, form, name):
    report = load(kept, laid_out(tmp_path, form, {name: CCD}))
    assert (report.complete, report.skipped_files) == (True, {})
    assert report.changes["DocumentReference"].total() == 1


@pytest.mark.parametrize("form", FORMS)
def test_files_without_records_are_named_with_the_reason(kept, tmp_path, form):
    members = {
        "a.ndjson": lines(patient("beside-others")),
        "scan.pdf": b"%PDF-1.7",
        "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0",
        "style.xsl": b'<xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform"/>',
        "page.html": b"<!DOCTYPE html><html></html>",
        "settings.conf": b'{"color": "blue"}',
        "server.log": b'{"level": 1}\n{"level": 2}\n',
        "letter.docx": zipped(
            tmp_path / "x.docx", {"[Content_Types].xml": b"", "word/document.xml": b""}
        ).read_bytes(),
        "README": b"Read me.",
    }
    report = load(kept, laid_out(tmp_path, form, members))
    assert report.complete
    assert sorted(base_names(report)) == sorted({*members} - {"a.ndjson"})
    content = report.content()
    assert content["skippedFiles"] == report.skipped_files
    assert sum(content["skippedFileCount"].values()) == len(members) - 1
    assert all(name in report.table() for name in report.skipped_files)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, b"") for name in ("a.json", "a.csv", "a.xml", "a.tsv", "a.ccd", "visit", "n.txt")),
        *(("a.xml", content) for content in (b" \r\n\t\n", b"\xef\xbb\xbf")),
        ("a.json.gz", gzip.compress(b"", mtime=0)),
    ],
)
def test_an_empty_file_is_rejected(kept, tmp_path, form, name, content):
    members = {name: content, "b.ndjson": lines(patient("beside-nothing"))}
    report = load(kept, laid_out(tmp_path, form, members))
    assert [fault.message for fault in report.faults] == ["is empty"]
    assert report.faults[0].place.endswith(name)


@pytest.mark.parametrize("name", ["a.ndjson", "a.jsonl", "a.ndjson.gz"])
def test_ndjson_without_lines_is_an_export_without_resources(kept, tmp_path, name):
    content = gzip.compress(b"", mtime=0) if name.endswith(".gz") else b""
    report = load(kept, write(tmp_path, content, name))
    assert (report.complete, report.skipped_files) == (True, {})


@pytest.mark.parametrize("given", ["a.json", "-"])
def test_an_empty_input_of_the_command_ends_with_1(tmp_path, given):
    path = write(tmp_path, b"", "a.json")
    done = fhirapp(tmp_path, "import", str(path) if given == "a.json" else "-")
    assert done.returncode == 1
    assert "is empty" in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xml", b"<config/>"),
        ("a.json", b"%PDF-1.7"),
        ("a.csv", b"name,colour\nx,blue\n"),
        ("a.ccd", b"\0\1\2\3"),
        ("a.hl7", b"MSH|^~\\&|LAB|\rPID|1\r"),
        ("hidden.bin", zipped),
    ],
)
def test_a_file_that_promises_records_and_has_none_is_rejected(kept, tmp_path, name, content):
    if content is zipped:
        content = zipped(tmp_path / "inner.zip", {"a.json": b"{}"}).read_bytes()
    members = {name: content, "b.ndjson": lines(patient("beside-broken"))}
    report = load(kept, laid_out(tmp_path, "archive", members))
    assert [fault.place for fault in report.faults] == [f"{tmp_path}/given.zip!{name}"]
    assert report.skipped_files == {}


def test_a_file_that_is_given_by_its_path_is_rejected_whatever_its_name(kept, tmp_path):
    good = write(tmp_path, lines(patient("given")), "a.ndjson")
    report = load(kept, good, write(tmp_path, b"%PDF-1.7", "scan.pdf"))
    assert [fault.place for fault in report.faults] == [f"{tmp_path}/scan.pdf"]


def test_a_folder_in_which_all_files_are_skipped_is_rejected(kept, tmp_path):
    good = write(tmp_path, lines(patient("elsewhere")), "good/a.ndjson")
    write(tmp_path, b"%PDF-1.7", "scans/scan.pdf")
    report = load(kept, good.parent, tmp_path / "scans")
    assert report.rejected == [
        f"{tmp_path}/scans: contains no importable file; see the skipped files"
    ]


@pytest.mark.parametrize("place", ["", "notes/"])
def test_files_that_a_table_names_are_not_listed_as_skipped(kept, tmp_path, place):
    write(tmp_path, DOCUMENTS % b"notes/a.txt", "documents.csv")
    write(tmp_path, b"words", "notes/a.txt")
    # Names that promise records, as a source may have chosen.
    for name in ("page.xml", "data.json", "lab.csv"):
        write(tmp_path, DOCUMENTS % name.encode(), f"{place}{name}.of.csv")
        write(tmp_path, b"<html>words</html>", f"{place}{name}")
    write(tmp_path, b"nobody names it", "notes/b.txt")
    report = load(kept, tmp_path)
    assert report.rejected == []
    assert base_names(report).keys() == {"b.txt"}


def test_a_file_of_a_row_that_is_rejected_is_named_by_the_row_alone(kept, tmp_path):
    write(tmp_path, DOCUMENTS.replace(b"11506-3", b"11506-4") % b"a.txt", "documents.csv")
    write(tmp_path, b"words", "a.txt")
    report = load(kept, tmp_path)
    assert [fault.path for fault in report.faults] == ["type"]
    assert report.skipped_files == {}


# Names that are reasons of their own.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("._DOC0001.XML", APPLE_DOUBLE, OF_THE_SYSTEM),
        ("deep/._a.ndjson", APPLE_DOUBLE, OF_THE_SYSTEM),
        ("._a.json", b"", OF_THE_SYSTEM),
        ("__MACOSX/deep/._a.xml", APPLE_DOUBLE, OF_THE_SYSTEM),
        ("__MACOSX/a.json", b"{", OF_THE_SYSTEM),
        (".DS_Store", b"\0\0\0\1Bud1", OF_THE_SYSTEM),
        ("deep/Thumbs.db", b"\xd0\xcf\x11\xe0", OF_THE_SYSTEM),
        ("DESKTOP.INI", b"[.ShellClassInfo]", OF_THE_SYSTEM),
        ("_SUCCESS", b"", OF_THE_SYSTEM),
        ("IHE_XDM/SUBSET01/METADATA.XML", METADATA, OF_THE_PACKAGE),
        ("metadata.xml", METADATA, OF_THE_PACKAGE),
        ("INDEX.HTM", b"<html><body>Documents</body></html>", OF_THE_PACKAGE),
        ("manifest.json", b'{"request": "x", "output": []}', OF_THE_EXPORT),
        ("Patient.ndjson.part", lines(patient("half")), INCOMPLETE),
        ("a.csv.filepart", TABLE, INCOMPLETE),
        ("a.json~", b"{}", COPY),
        ("allergies.csv.bak", TABLE, COPY),
    ],
)
def test_what_systems_and_packages_add_is_skipped(kept, tmp_path, form, name, content, reason):
    members = {"a.ndjson": lines(patient("packed")), name: content}
    report = load(kept, laid_out(tmp_path, form, members))
    assert report.complete
    assert base_names(report) == {name.rpartition("/")[2]: reason}
    assert "half" not in current(kept, "Patient")


@pytest.mark.parametrize("name", ["IHE_XDM/SUBSET01/METADATA.XML", "INDEX.HTM", "manifest.json"])
def test_a_record_is_read_whatever_package_its_name_is_of(kept, tmp_path, name):
    report = load(kept, laid_out(tmp_path, "folder", {name: CCD}))
    assert report.changes["DocumentReference"].total() == 1
    resource = lines(patient("called-so"), patient("called-so-2"))
    assert load(kept, write(tmp_path / "other", resource, name).parents[0]).complete
    assert "called-so" in current(kept, "Patient")


def test_a_package_is_imported_with_exit_code_0(tmp_path):
    members = {
        "INDEX.HTM": b"<html></html>",
        "README.TXT": b"Read me",
        "IHE_XDM/SUBSET01/METADATA.XML": METADATA,
        "IHE_XDM/SUBSET01/DOC0001.XML": CCD,
        "IHE_XDM/SUBSET01/STYLE.XSL": b"<xsl:stylesheet xmlns:xsl='x'/>",
        "__MACOSX/IHE_XDM/SUBSET01/._DOC0001.XML": APPLE_DOUBLE,
    }
    done = fhirapp(tmp_path, "import", str(zipped(tmp_path / "xdm.zip", members)))
    assert done.returncode == 0, done.stderr
    for name in members.keys() - {"IHE_XDM/SUBSET01/DOC0001.XML"}:
        assert name in done.stdout


def test_a_link_in_an_archive_is_not_followed(kept, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.ndjson", lines(patient("not-a-link")))
        link = zipfile.ZipInfo("b.ndjson")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    report = load(kept, path)
    assert report.skipped_files == {f"{path}!b.ndjson": "is a link, which is not followed"}


def test_an_import_that_deletes_keeps_all_beside_an_incomplete_file(empty, tmp_path):
    many = write(tmp_path, lines(patient("one"), patient("two")), "old/Patient.ndjson")
    load(empty, many.parent, source="lab")
    write(tmp_path, lines(patient("one")), "new/Patient.ndjson")
    write(tmp_path, lines(patient("two")), "new/Patient-2.ndjson.part")
    report = load(empty, tmp_path / "new", source="lab", delete_missing=True, force=True)
    assert not report.complete
    assert current(empty, "Patient") == ["one", "two"]
