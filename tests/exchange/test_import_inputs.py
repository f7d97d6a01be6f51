"""What an import is given: files of every make, folders, archives, and what only looks like one."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from flask import Flask

from fhirapp.exchange.imports.archives import Broken, unpacked
from fhirapp.exchange.imports.content import Kind
from fhirapp.exchange.imports.inputs import Input, kind_of
from fhirapp.exchange.imports.reader import RecordReader
from fhirapp.exchange.imports.records import Scratch
from tests.support.archives import zipped
from tests.support.importing import bundle, current, lines, load, patient, plain, write
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


# Tables that are told as what they are.


def test_a_column_that_no_table_has_is_told(empty, tmp_path):
    table = b"patient_id,substance,Ward,note\np1,Latex,7,x\np1,Nickel,8,y\n"
    path = write(tmp_path, table, "x.csv")
    report = load(empty, path)
    assert report.changes["AllergyIntolerance"]["new"] == 2
    told = f"{path}:1: Ward: is not a column of this table, and is not read"
    assert report.remarks[told] == 1
    assert told in report.table()


def test_a_mistyped_column_is_told_with_the_one_that_is_meant(empty, tmp_path):
    report = load(empty, write(tmp_path, b"patient_id,substanse,note\np1,Latex,x\n", "x.csv"))
    assert [(one.path, one.message) for one in report.faults] == [
        ("substanse", "is not a column; is substance meant?")
    ]


# Folders.


def test_a_folder_is_searched_through_and_other_files_are_skipped(empty, tmp_path):
    write(tmp_path, lines(patient("a")), "a.NDJSON")
    write(tmp_path, lines(patient("b")), "deep/er/b.ndjson.gz")
    write(tmp_path, gzip.compress(lines(patient("c"))), "deep/c.jsonl.gz")
    write(tmp_path, patient("d"), "deep/.hidden/d.json")
    write(tmp_path, lines(patient("e")), "deep/e.txt")
    picture = write(tmp_path, b"\x89PNG", "picture.png")
    report = load(empty, tmp_path)
    assert report.complete
    assert [*report.skipped_files] == [str(picture)]
    assert current(empty, "Patient") == ["a", "b", "c", "d", "e"]


def test_links_that_lead_in_circles_or_nowhere_and_what_is_no_file_do_no_harm(empty, tmp_path):
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
    assert {Path(place).name: reason for place, reason in report.skipped_files.items()} == {
        "again": "is a link to a folder, which is not followed",
        "own.ndjson": "is a link that leads nowhere",
        "nowhere.ndjson": "is a link that leads nowhere",
        "pipe.ndjson": "is no file",
        "zero.json": "is no file",
        "socket.json": "is no file",
    }


def test_one_file_by_two_names_is_imported_once(kept, tmp_path):
    first = write(tmp_path, lines(patient("linked")), "first.ndjson")
    os.link(first, tmp_path / "second.ndjson")
    (tmp_path / "third.ndjson").symlink_to(first)
    report = load(kept, tmp_path, first, tmp_path / "third.ndjson", tmp_path / "second.ndjson")
    assert report.changes["Patient"].total() == 1


def test_a_folder_behind_a_link_is_read_when_it_is_named(kept, tmp_path):
    write(tmp_path, lines(patient("behind")), "real/x.ndjson")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert load(kept, tmp_path / "link").complete
    assert "behind" in current(kept, "Patient")


@pytest.mark.parametrize(
    "name", [b"caf\xe9.ndjson", b"tab\t.ndjson", b"bell\x07.ndjson", b" .ndjson"]
)
@pytest.mark.parametrize("given", ["file", "folder"])
def test_names_that_no_text_may_have_are_told_as_well_as_can_be(kept, tmp_path, name, given):
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(lines(patient("named"), b"{"))
    report = load(kept, path if given == "file" else tmp_path)
    assert report.rejected_lines == 1
    assert "named" in current(kept, "Patient")


# What a file holds.


@pytest.mark.parametrize("name", ["x.ndjson", "x.json", "x.gz", "x.csv", "x.xml", "x.zip", "x"])
def test_the_content_says_what_it_is_not_the_name(kept, tmp_path, name):
    content = lines(patient("by-any-name"), patient("by-any-name-2"))
    assert load(kept, write(tmp_path, content, name)).changes["Patient"].total() == 2


def large(resource_id: str) -> dict[str, Any]:
    """Return a patient of more bytes than are looked at to see what a file holds."""
    return patient(resource_id, extension=[{"url": "urn:x", "valueString": "x" * 70_000}])


@pytest.mark.parametrize("name", ["x.ndjson", "x.json", "x.json.gz", "x"])
def test_lines_are_lines_however_long_the_first_is(kept, tmp_path, name):
    content = lines(large("long-1"), patient("long-2"), large("long-3"))
    if name.endswith("gz"):
        content = gzip.compress(content)
    report = load(kept, write(tmp_path, content, name))
    assert not report.rejected
    assert {"long-1", "long-2", "long-3"} <= {*current(kept, "Patient")}


@pytest.mark.parametrize("name", ["x.ndjson", "x.json"])
@pytest.mark.parametrize("first", [b"{", b'{"resourceType": "Patient", ', b"\xff{}", b"nonsense"])
def test_a_first_line_that_is_damaged_hides_no_other(kept, tmp_path, name, first):
    report = load(kept, write(tmp_path, lines(first, patient("second"), patient("third")), name))
    assert [one.place for one in report.faults] == [f"{tmp_path}/{name}:1"]
    assert report.changes["Patient"].total() == 2


@pytest.mark.parametrize("blank", [b"\n" * 70_000, b" " * 70_000 + b"\n"])
@pytest.mark.parametrize("name", ["x.ndjson", "x.json"])
def test_what_comes_after_much_blank_space_is_read(kept, tmp_path, blank, name):
    report = load(kept, write(tmp_path, blank + lines(patient("late")), name))
    assert report.changes["Patient"].total() == 1


@pytest.mark.parametrize("space", ["", " " * 100])
def test_a_list_of_resources_is_taken_item_by_item(kept, tmp_path, space):
    content = space + json.dumps([patient("l1"), 7, patient("l2"), bundle("collection")], indent=1)
    report = load(kept, write(tmp_path, content.encode()))
    assert report.changes["Patient"].total() == 2
    assert [one.message for one in report.faults] == ["is required; each line is a resource"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_told(kept, tmp_path, encoding):
    content = json.dumps(patient("x"), indent=1).encode(encoding)
    report = load(kept, write(tmp_path, content), write(tmp_path, lines(patient("a"))[:-1], "y"))
    assert report.rejected_lines == 1
    assert "UTF-8" in report.faults[0].message or "JSON" in report.faults[0].message


@pytest.mark.parametrize("content", [b"<Patient/>", b"<html>", b"%PDF-1.7", b"\0" * 100, b"text"])
def test_what_is_none_of_what_is_imported_is_told(kept, tmp_path, content):
    report = load(kept, write(tmp_path, content))
    assert report.rejected_lines == 1
    assert report.faults[0].place == f"{tmp_path}/records.json"


def test_a_line_that_is_too_long_is_told_and_the_others_are_taken(kept, tmp_path, monkeypatch):
    for module in ("inputs", "reader"):
        monkeypatch.setattr(f"fhirapp.exchange.imports.{module}.LONGEST", 1_000)
    fits = lines(patient("fits")).rstrip(b"\n")
    content = [fits.ljust(1_000), patient("too", "9" * 2_000_000), patient("last"), b"x" * 5_000]
    report = load(kept, write(tmp_path, lines(*content), "x.ndjson"))
    assert [str(one) for one in report.faults] == [
        f"{tmp_path}/x.ndjson:{line}: is longer than 1,000 bytes" for line in (2, 4)
    ]
    assert report.changes["Patient"].total() == 2


def test_a_document_or_an_entry_that_is_too_long_is_told(kept, tmp_path, monkeypatch):
    for module in ("inputs", "reader"):
        monkeypatch.setattr(f"fhirapp.exchange.imports.{module}.LONGEST", 500_000)
    long = patient("too", "9" * 1_000_000)
    for content in (long, bundle("collection", plain(patient("x")), plain(long))):
        report = load(kept, write(tmp_path, json.dumps(content, indent=1).encode()))
        assert report.rejected_lines == 1
        assert "500,000 bytes" in report.faults[0].message


class _Failing(io.RawIOBase):
    """A disk that fails after some bytes."""

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


def test_a_disk_that_fails_while_it_is_read_is_told():
    content = lines(*(patient(str(number), "9" * 100) for number in range(2_000)))

    def opens(told: Callable[[int], None]) -> BinaryIO:
        return unpacked(io.BufferedReader(_Failing(content)), told)

    with Scratch() as scratch:
        units = list(
            RecordReader(scratch).read(Input("disk.ndjson", opens, 0), lambda _count: None)
        )
    assert units[-1].faults == [("", "cannot be read: Input/output error")]


def test_a_kind_is_found_without_reading_on(tmp_path):
    path = write(tmp_path, lines(patient("a")), "x.ndjson")
    assert kind_of(Input(str(path), lambda _told: path.open("rb"), 0)) == (Kind.LINES, "")
    with pytest.raises(Broken, match="No such file"):
        kind_of(Input("gone", lambda _told: (tmp_path / "gone").open("rb"), 0))


# Standard input, and what else is no file: by the command.


def piped(folder: Path, content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run an import whose standard input holds this."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, "import", *arguments],
        env=environment(folder),
        input=content,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "content",
    [
        lines(patient("a"), patient("b")),
        gzip.compress(lines(patient("a"), patient("b"))),
        json.dumps(
            bundle("collection", plain(patient("a")), plain(patient("b"))), indent=1
        ).encode(),
        lines(large("a"), patient("b")),
    ],
    ids=["lines", "gzip", "Bundle", "long lines"],
)
def test_standard_input_is_imported(tmp_path, content):
    done = piped(tmp_path, content, "-", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"]["Patient"]["new"] == 2


def test_an_archive_on_standard_input_is_imported_or_told(tmp_path):
    archive = zipped(tmp_path / "x.zip", {"a.ndjson": lines(patient("a"))}).read_bytes()
    done = piped(tmp_path, archive, "-", "--json")
    report = json.loads(done.stdout)
    assert report["changes"].get("Patient") or report["rejectedCount"]


def test_a_pipe_that_is_named_is_imported_or_told(tmp_path):
    """As in `fhirapp import <(zcat …)`: what was read of it does not come again."""
    path = write(tmp_path, lines(patient("a"), patient("b")), "x.ndjson")
    command = f'exec "$0" -c "{MAIN}" import --json <(cat "$1")'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, str(path)],
        env=environment(tmp_path),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode or json.loads(done.stdout)["changes"]["Patient"]["new"] == 2


def test_a_file_that_may_not_be_read_is_told(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("whoever runs this may read everything")
    path = write(tmp_path, lines(patient("x")), "x.ndjson")
    path.chmod(0)
    done = fhirapp(tmp_path, "import", str(path))
    assert done.returncode == 1
    assert "Permission denied" in done.stderr


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path):
    path = write(tmp_path, lines(patient("x")), "x.ndjson")
    done = fhirapp(tmp_path, "import", str(path), "--report", str(tmp_path / "no" / "r.json"))
    assert_not_done(done, "r.json cannot be written (No such file or directory)")
