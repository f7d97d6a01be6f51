"""The files that a table of documents names: in a folder or an archive, by names in any form."""

from __future__ import annotations

import base64
import unicodedata
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.archives import PLACES, laid_out, zipped
from tests.support.importing import asking, load, skipped_files, write

HEADER = b"patient_id,patient_family,id,type,file\n"


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def table(*files: str, first: int = 1) -> bytes:
    """Return a table with a row for each file; the ids of the documents are numbers."""
    rows = [f'p1,Doe,d{first + place},11506-3,"{name}"\n' for place, name in enumerate(files)]
    return HEADER + "".join(rows).encode()


def content_of(app: Flask, document_id: str) -> bytes:
    """Return the bytes of a document's file."""
    response = asking(app).get(f"DocumentReference/{document_id}")
    assert response.status_code == 200
    resource: Any = response.json
    return base64.b64decode(resource["content"][0]["attachment"]["data"])


@pytest.mark.parametrize(
    ("form", "place"), [*zip(PLACES, ["", "export/", "deep/er/"], strict=True)]
)
def test_table_finds_its_files_beside_it_and_below(kept, tmp_path, form, place):
    case = f"{form} {place}".encode()
    members = {
        f"{place}documents.csv": table("a.txt", "notes/a.txt", "notes\\b.txt", "./notes/c.txt"),
        f"{place}a.txt": case + b" a",
        f"{place}notes/a.txt": case + b" notes/a",
        f"{place}notes/b.txt": case + b" notes/b",
        f"{place}notes/c.txt": case + b" notes/c",
    }
    report = load(kept, laid_out(tmp_path, form, members))
    assert (report.rejected, skipped_files(report)) == ([], {})
    contents = [content_of(kept, f"d{number}") for number in (1, 2, 3, 4)]
    assert contents == [case + end for end in (b" a", b" notes/a", b" notes/b", b" notes/c")]


@pytest.mark.parametrize("form", PLACES)
def test_names_of_files_are_compared_in_nfc(kept, tmp_path, form):
    for number, (here, named) in enumerate([("NFD", "NFC"), ("NFC", "NFD"), ("NFD", "NFD")]):
        path = "Entlaßbriefe für Müller/Müller é ệ 각.txt"
        content = f"{form} {here} {named}".encode()
        members = {
            "documents.csv": table(unicodedata.normalize(named, path)),
            unicodedata.normalize(here, path): content,
        }
        folder = tmp_path / str(number)
        folder.mkdir()
        report = load(kept, laid_out(folder, form, members))
        assert (report.rejected, skipped_files(report)) == ([], {})
        assert content_of(kept, "d1") == content


def test_archive_of_macos_does_not_say_that_its_names_are_utf_8(kept, tmp_path):
    name = unicodedata.normalize("NFD", "notes/Müller.txt")
    path = zipped(tmp_path / "mac.zip", {"documents.csv": table("notes/Müller.txt"), name: b"mac"})
    content = bytearray(path.read_bytes())
    # The flag that says so, in the member's own header and in the directory.
    headers = [content.rindex(b"PK\3\4") + 7, content.rindex(b"PK\1\2") + 9]
    for place in headers:
        assert content[place] & 8
        content[place] &= ~8
    report = load(kept, write(tmp_path, bytes(content), "mac.zip"))
    assert (report.rejected, skipped_files(report)) == ([], {})
    assert content_of(kept, "d1") == b"mac"


SIMILAR_NAMES = [
    ("notes/Visit.PDF", "notes/visit.pdf", "notes/Visit.PDF"),
    ("Notes/visit.pdf", "notes/visit.pdf", "Notes"),
    ("notes/STRASSE.txt", "notes/straße.txt", "notes/STRASSE.txt"),
    ("notes/ﬁndings.txt", "notes/findings.txt", "notes/ﬁndings.txt"),
    ("notes/a\u00a0b.txt", "notes/a b.txt", "notes/a\u00a0b.txt"),
    ("notes/Ⅳ.txt", "notes/IV.txt", "notes/Ⅳ.txt"),
]


@pytest.mark.parametrize("form", PLACES)
def test_name_in_another_case_or_form_is_suggested(kept, tmp_path, form, subtests):
    for number, (here, named, suggested) in enumerate(SIMILAR_NAMES):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = laid_out(folder, form, {"documents.csv": table(named), here: b"words"})
        with subtests.test(named):
            (fault,) = load(kept, path).faults
            assert fault.path == "file"
            assert fault.message.startswith(f"is not there; write {suggested}")


@pytest.mark.parametrize("form", PLACES)
def test_missing_file_without_a_similar_name_is_reported(kept, tmp_path, form):
    path = laid_out(tmp_path, form, {"documents.csv": table("a.txt", "no/a.txt"), "b.txt": b"x"})
    assert [fault.message for fault in load(kept, path).faults] == ["is not there"] * 2


def test_ambiguous_name_in_nfc_is_reported_unless_one_is_exact(kept, tmp_path):
    composed, other = "notes/\u1ec7.txt", "notes/e\u0323\u0302.txt"
    third = "notes/\u1eb9\u0302.txt"
    members = {"documents.csv": table(composed, third), composed: b"exact", other: b"other"}
    report = load(kept, laid_out(tmp_path, "folder", members))
    assert [fault.place.rpartition(":")[2] for fault in report.faults] == ["3"]
    assert report.faults[0].message.startswith("is the name of several files")
    assert content_of(kept, "d1") == b"exact"


OUTSIDE = [
    *("../secret.txt", "..\\secret.txt", "a/../../secret.txt", "/secret.txt", "/etc/passwd"),
    *("C:\\secret.txt", "../documents.csv", "link.txt", "notes", "empty.txt", "locked.txt", " "),
    ".",
]


def test_file_outside_of_the_tables_folder_in_an_archive_is_not_read(kept, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("export/documents.csv", table(*OUTSIDE))
        for member in ("secret.txt", "../secret.txt", "/secret.txt", "export/../secret.txt"):
            archive.writestr(member, b"secret")
        link = zipfile.ZipInfo("export/link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "../secret.txt")
        archive.writestr("export/notes/a.txt", b"words")
        archive.writestr("export/empty.txt", b"")
        archive.writestr("export/locked.txt", b"words")
    content = bytearray(path.read_bytes())
    # The flag that says that a file needs a password, in the last entry of the directory.
    entry = content.rindex(b"PK\1\2")
    assert content[entry + 46 :].startswith(b"export/locked.txt")
    content[entry + 8] |= 1
    report = load(kept, write(tmp_path, bytes(content), "x.zip"))
    faults = [fault for fault in report.faults if ".csv" in fault.place]
    assert [fault.path for fault in faults] == ["file"] * len(OUTSIDE)


def test_file_in_an_archive_that_is_too_large_is_not_read(kept, tmp_path, monkeypatch):
    monkeypatch.setattr("fhirapp.features.imports.tables.files.LARGEST", 1_000)
    members = {"documents.csv": table("a.txt", "b.txt"), "a.txt": b"x" * 1_001, "b.txt": b"x" * 999}
    report = load(kept, laid_out(tmp_path, "archive", members))
    assert [fault.message for fault in report.faults] == ["is larger than 1000 bytes"]
