"""Files, folders and archives as inputs: each file is read by its content, or skipped by name."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from fhirapp.features.imports.archives import unpacked
from fhirapp.features.imports.inputs import Input
from fhirapp.features.imports.reader import RecordReader
from fhirapp.features.imports.skipped import (
    COPY,
    INCOMPLETE,
    OF_THE_EXPORT,
    OF_THE_PACKAGE,
    OF_THE_SYSTEM,
)
from fhirapp.features.imports.staging import Stage
from tests.support.archives import PLACES, laid_out, zipped
from tests.support.bundles import bundle, plain
from tests.support.ccda_people import RECORD, document
from tests.support.importing import lines, load, skipped_files, write
from tests.support.records import patient
from tests.support.stored import current

CDA = document("visit", (RECORD, "1"))
XML_PATIENT = b'<Patient xmlns="http://hl7.org/fhir"><id value="in-xml"/></Patient>'
TABLE = b"patient_id,patient_family,substance\nin-csv,Doe,Latex\n"
DOCUMENTS = b"patient_id,patient_family,type,file\nnamer,Doe,11506-3,%s\n"
APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02"
METADATA = b'<?xml version="1.0"?>\n<lcm:SubmitObjectsRequest xmlns:lcm="urn:x"/>'
forms = pytest.mark.parametrize("form", PLACES)


def base_names(report) -> dict[str, str]:
    """Return the reasons of the skipped files by their names alone."""
    return {
        place.replace("!", "/").rpartition("/")[2]: reason
        for place, reason in skipped_files(report).items()
    }


# Files that are read by their content


@forms
def test_file_is_read_by_its_content_whatever_its_name(empty, tmp_path, form):
    contents = {
        "visit": CDA,
        "marked": b"\xef\xbb\xbf" + document("marked", (RECORD, "2")),
        "packed": gzip.compress(document("packed", (RECORD, "3")), mtime=0),
        "xml": XML_PATIENT,
        "json": json.dumps(patient("in-json"), indent=1).encode(),
        "lines": lines(patient("in-lines"), patient("in-lines-2")),
        "table": TABLE,
    }
    for name in ("visit.ccd", "visit.CDA", "visit.ccda", "visit.hl7", "deep/visit.txt", "v.1"):
        contents[name] = document(name, (RECORD, name))
    for end in ("ndjson", "json", "gz", "csv", "xml", "zip"):
        contents[f"x.{end}"] = lines(patient(f"{end}-1"), patient(f"{end}-2"))
    report = load(empty, laid_out(tmp_path, form, contents))
    assert (report.complete, skipped_files(report)) == (True, {})
    assert len(current(empty, "DocumentReference")) == 9
    assert len(current(empty, "Patient")) == 9 + 1 + 1 + 2 + 1 + 12


def large(resource_id: str) -> dict[str, Any]:
    """Return a patient of more bytes than are read to detect what a file holds."""
    return patient(resource_id, extension=[{"url": "urn:x", "valueString": "x" * 70_000}])


@pytest.mark.parametrize("name", ["x.ndjson", "x.json", "x.json.gz", "x"])
def test_lines_are_detected_after_a_long_damaged_or_blank_beginning(empty, tmp_path, name):
    third = lines(patient("third"))
    contents = {
        "long": lines(large("long-1"), patient("long-2"), large("long-3")),
        **{
            f"damaged{place}": lines(first, patient("second")) + third
            for place, first in enumerate(
                (b"{", b'{"resourceType": "Patient", ', b"\xff{}", b"nonsense")
            )
        },
        "lines": b"\n" * 70_000 + lines(patient("late")),
        "spaces": b" " * 70_000 + b"\n" + lines(patient("later")),
    }
    for folder, content in contents.items():
        packed = gzip.compress(content) if name.endswith("gz") else content
        write(tmp_path, packed, f"{folder}/{name}")
    report = load(empty, tmp_path)
    assert [fault.place for fault in report.faults] == [
        f"{tmp_path}/damaged{place}/{name}:1" for place in range(4)
    ]
    assert current(empty, "Patient") == [
        "late", "later", "long-1", "long-2", "long-3", "second", "third",
    ]  # fmt: skip


def test_gzip_with_several_members_and_zero_padding_is_read_to_its_end(empty, tmp_path):
    """As tar and tapes write it. RFC 1952 §2.2"""
    first, second = (gzip.compress(lines(patient(own_id))) for own_id in ("first", "second"))
    write(tmp_path, first + second + bytes(100_000), "x.ndjson.gz")
    write(tmp_path, gzip.compress(lines(patient("third"))) + bytes(1), "y.ndjson.gz")
    assert load(empty, tmp_path).complete
    assert current(empty, "Patient") == ["first", "second", "third"]


def test_list_of_resources_is_imported_item_by_item(import_file):
    for space in ("", " " * 100):
        items = [patient("l1"), 7, patient("l2"), bundle("collection")]
        report = import_file((space + json.dumps(items, indent=1)).encode())
        assert report.changes["Patient"].total() == 2
        assert [fault.path for fault in report.faults] == ["resourceType"]


def test_line_document_or_entry_that_is_too_long_is_rejected(import_file, tmp_path, monkeypatch):
    def limit(size: int) -> None:
        for module in ("inputs", "reader"):
            monkeypatch.setattr(f"fhirapp.features.imports.{module}.LONGEST", size)

    limit(1_000)
    fits = lines(patient("fits")).rstrip(b"\n").ljust(1_000)
    content = lines(fits, patient("too", "9" * 2_000_000), patient("last"), b"x" * 5_000)
    report = import_file(content, "x.ndjson")
    assert [str(fault) for fault in report.faults] == [
        f"{tmp_path}/x.ndjson:{line}: is longer than 1,000 bytes" for line in (2, 4)
    ]
    assert report.changes["Patient"].total() == 2
    assert import_file(fits, "x.ndjson").complete
    limit(500_000)
    long = patient("too", "9" * 1_000_000)
    for document_ in (long, bundle("collection", plain(patient("x")), plain(long))):
        report = import_file(json.dumps(document_, indent=1).encode())
        assert report.rejected_lines == 1
        assert "500,000 bytes" in report.faults[0].message


# Files that are skipped or rejected


@forms
def test_files_without_records_are_skipped_with_a_reason(module_app, tmp_path, form):
    word = {"[Content_Types].xml": b"", "word/document.xml": b""}
    skipped = {
        "scan.pdf": b"%PDF-1.7",
        "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0",
        "style.xsl": b'<xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform"/>',
        "page.html": b"<!DOCTYPE html><html></html>",
        "settings.conf": b'{"color": "blue"}',
        "server.log": b'{"level": 1}\n{"level": 2}\n',
        "letter.docx": zipped(tmp_path / "x.docx", word).read_bytes(),
        "README": b"Read me.",
    }
    members = {"a.ndjson": lines(patient("beside-others")), **skipped}
    report = load(module_app, laid_out(tmp_path, form, members))
    assert report.complete
    assert base_names(report).keys() == skipped.keys()
    assert report.content()["fileCount"] == {"read": 1, "skipped": len(skipped), "rejected": 0}
    assert all(name in report.table() for name in skipped_files(report))


@forms
def test_files_that_systems_and_packages_add_are_skipped(module_app, tmp_path, form):
    added = {
        "._DOC0001.XML": (APPLE_DOUBLE, OF_THE_SYSTEM),
        "deep/._a.ndjson": (APPLE_DOUBLE, OF_THE_SYSTEM),
        "._a.json": (b"", OF_THE_SYSTEM),
        "__MACOSX/deep/._a.xml": (APPLE_DOUBLE, OF_THE_SYSTEM),
        "__MACOSX/a.json": (b"{", OF_THE_SYSTEM),
        ".DS_Store": (b"\0\0\0\1Bud1", OF_THE_SYSTEM),
        "deep/Thumbs.db": (b"\xd0\xcf\x11\xe0", OF_THE_SYSTEM),
        "DESKTOP.INI": (b"[.ShellClassInfo]", OF_THE_SYSTEM),
        "_SUCCESS": (b"", OF_THE_SYSTEM),
        "IHE_XDM/SUBSET01/METADATA.XML": (METADATA, OF_THE_PACKAGE),
        "metadata.xml": (METADATA, OF_THE_PACKAGE),
        "INDEX.HTM": (b"<html><body>Documents</body></html>", OF_THE_PACKAGE),
        "manifest.json": (b'{"request": "x", "output": []}', OF_THE_EXPORT),
        "Patient.ndjson.part": (lines(patient("half")), INCOMPLETE),
        "a.csv.filepart": (TABLE, INCOMPLETE),
        "b.json~": (b"{}", COPY),
        "allergies.csv.bak": (TABLE, COPY),
    }
    members = {name: content for name, (content, _) in added.items()}
    members["a.ndjson"] = lines(patient("packed"))
    report = load(module_app, laid_out(tmp_path, form, members))
    assert report.complete
    expected = {name.rpartition("/")[2]: reason for name, (_, reason) in added.items()}
    assert base_names(report) == expected
    assert "half" not in current(module_app, "Patient")


@pytest.mark.parametrize("name", ["IHE_XDM/SUBSET01/METADATA.XML", "INDEX.HTM", "manifest.json"])
def test_record_in_a_file_named_like_one_of_a_package_is_read(module_app, tmp_path, name):
    report = load(module_app, laid_out(tmp_path, "folder", {name: CDA}))
    assert report.changes["DocumentReference"].total() == 1
    resources = lines(patient("called-so"), patient("called-so-2"))
    assert load(module_app, write(tmp_path / "other", resources, name).parent).complete
    assert "called-so" in current(module_app, "Patient")


@forms
def test_empty_file_is_rejected_but_not_an_empty_file_of_lines(module_app, tmp_path, form):
    packed = gzip.compress(b"", mtime=0)
    rejected = dict.fromkeys(("a.json", "a.csv", "a.xml", "a.tsv", "a.ccd", "v", "n.txt"), b"")
    rejected |= {"b.xml": b" \r\n\t\n", "c.xml": b"\xef\xbb\xbf", "a.json.gz": packed}
    # An export without resources has such files.
    members = {**rejected, "a.ndjson": b"", "a.jsonl": b"", "a.ndjson.gz": packed}
    report = load(module_app, laid_out(tmp_path, form, members))
    assert {fault.message for fault in report.faults} == {"is empty"}
    places = {fault.place.replace("!", "/").rpartition("/")[2] for fault in report.faults}
    assert places == rejected.keys()
    assert skipped_files(report) == {}


def test_file_whose_name_promises_records_is_rejected_where_it_has_none(module_app, tmp_path):
    broken = {
        "a.xml": b"<config/>",
        "a.json": b"%PDF-1.7",
        "a.csv": b"name,colour\nx,blue\n",
        "a.ccd": b"\0\1\2\3",
        "a.hl7": b"MSH|^~\\&|LAB|\rPID|1\r",
        "hidden.bin": zipped(tmp_path / "inner.zip", {"a.json": b"{}"}).read_bytes(),
    }
    members = {**broken, "b.ndjson": lines(patient("beside-broken"))}
    report = load(module_app, laid_out(tmp_path, "archive", members))
    places = {f"{tmp_path}/given.zip!{name}" for name in broken}
    assert {fault.place for fault in report.faults} == places
    assert skipped_files(report) == {}


def test_file_without_records_is_rejected_where_it_is_named_or_alone(module_app, tmp_path):
    good = write(tmp_path, lines(patient("given")), "good/a.ndjson")
    scan = write(tmp_path, b"%PDF-1.7", "scans/scan.pdf")
    assert [fault.place for fault in load(module_app, good, scan).faults] == [str(scan)]
    report = load(module_app, good.parent, scan.parent)
    assert [fault.place for fault in report.faults] == [str(scan.parent)]
    assert report.faults[0].message.startswith("contains no importable file")


@pytest.mark.parametrize("place", ["", "notes/"])
def test_files_that_a_table_names_are_not_skipped(module_app, tmp_path, place):
    write(tmp_path, DOCUMENTS % b"notes/a.txt", "documents.csv")
    write(tmp_path, b"words", "notes/a.txt")
    # Names that promise records, as a source may have chosen.
    for name in ("page.xml", "data.json", "lab.csv"):
        write(tmp_path, DOCUMENTS % name.encode(), f"{place}{name}.of.csv")
        write(tmp_path, b"<html>words</html>", f"{place}{name}")
    write(tmp_path, b"nobody names it", "notes/b.txt")
    report = load(module_app, tmp_path)
    assert report.rejected == []
    assert base_names(report).keys() == {"b.txt"}


def test_import_does_not_delete_what_an_incomplete_file_may_hold(empty, tmp_path):
    many = write(tmp_path, lines(patient("one"), patient("two")), "old/Patient.ndjson")
    load(empty, many.parent, source="lab")
    write(tmp_path, lines(patient("one")), "new/Patient.ndjson")
    write(tmp_path, lines(patient("two")), "new/Patient-2.ndjson.part")
    report = load(empty, tmp_path / "new", source="lab", delete_missing=True, force=True)
    assert not report.complete
    assert current(empty, "Patient") == ["one", "two"]


# Links, special files and names


def test_links_in_circles_and_special_files_are_skipped(empty, tmp_path):
    write(tmp_path, lines(patient("a")), "a.ndjson")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "same.ndjson").symlink_to(tmp_path / "a.ndjson")
    (tmp_path / "own.ndjson").symlink_to(tmp_path / "own.ndjson")
    (tmp_path / "nowhere.ndjson").symlink_to(tmp_path / "missing.ndjson")
    os.mkfifo(tmp_path / "pipe.ndjson")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(tmp_path, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/socket.json")
        os.close(folder)
        report = load(empty, tmp_path)
    assert report.changes == {"Patient": {"new": 1}}
    assert report.complete
    assert {Path(place).name: reason for place, reason in skipped_files(report).items()} == {
        "again": "is a link to a folder, which is not followed",
        "own.ndjson": "is a link that leads nowhere",
        "nowhere.ndjson": "is a link that leads nowhere",
        "pipe.ndjson": "is no file",
        "zero.json": "is no file",
        "socket.json": "is no file",
    }


def test_link_in_an_archive_is_not_followed(module_app, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.ndjson", lines(patient("not-a-link")))
        link = zipfile.ZipInfo("b.ndjson")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    report = load(module_app, path)
    assert skipped_files(report) == {f"{path}!b.ndjson": "is a link, which is not followed"}


def test_file_with_several_names_is_imported_once(module_app, tmp_path):
    first = write(tmp_path, lines(patient("linked")), "first.ndjson")
    os.link(first, tmp_path / "second.ndjson")
    third = tmp_path / "third.ndjson"
    third.symlink_to(first)
    report = load(module_app, tmp_path, first, third, tmp_path / "second.ndjson")
    assert report.changes["Patient"].total() == 1
    # A link to a folder is followed where it is named.
    (tmp_path / "link").symlink_to(write(tmp_path, patient("behind"), "real/x.json").parent)
    assert load(module_app, tmp_path / "link").complete
    assert "behind" in current(module_app, "Patient")


def test_file_whose_name_is_no_text_is_imported(module_app, tmp_path):
    for number, name in enumerate((b"caf\xe9", b"tab\t", b"bell\x07", b" ")):
        path = tmp_path / os.fsdecode(b"%d/%s.ndjson" % (number, name))
        path.parent.mkdir()
        path.write_bytes(lines(patient(f"no-text-{number}"), b"{"))
        report = load(module_app, path.parent)
        assert report.rejected_lines == 1
        assert f"no-text-{number}" in current(module_app, "Patient")


# Files that cannot be read


class _FailingDisk(io.RawIOBase):
    """A file that fails after some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._content.read(len(buffer))
        if not chunk:
            raise OSError(errno.EIO, "Input/output error")
        buffer[: len(chunk)] = chunk
        return len(chunk)


def test_read_error_of_a_disk_is_reported(tmp_path):
    content = lines(*(patient(str(number), "9" * 100) for number in range(2_000)))

    def opens(on_read: Callable[[int], None]) -> BinaryIO:
        return unpacked(io.BufferedReader(_FailingDisk(content)), on_read)

    with Stage(tmp_path) as stage:
        reader = RecordReader(stage)
        records = [*reader.read(Input("disk.ndjson", opens, 0), lambda _count: None)]
    assert records[-1].faults == [("", "cannot be read: Input/output error")]
