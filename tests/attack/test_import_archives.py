"""Archives and compressed files: read where they lie, bounded, and their damage reported."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import resource
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from tests.support.archives import zipped
from tests.support.importing import lines, load, skipped_files, write
from tests.support.records import patient
from tests.support.stored import current


@pytest.fixture(scope="module")
def module_app(make_app: Callable[..., Flask]) -> Flask:
    """An app without records, for tests that use ids of their own."""
    return make_app(seed=False)


def test_archive_is_read_where_it_lies_whatever_the_names_of_its_members(empty, tmp_path):
    names = ["../../a.ndjson", "/etc/b.ndjson", "C:\\c.ndjson", "d/../../d.json", "e\0.json"]
    members = {name: lines(patient(f"m{place}")) for place, name in enumerate(names)}
    (tmp_path / "given").mkdir()
    archive = zipped(tmp_path / "given" / "x.zip", {**members, "notes.txt": b"text", "deep/": b""})
    before = {*tmp_path.rglob("*")}
    report = load(empty, archive)
    assert {*tmp_path.rglob("*")} == before
    # Names end at a null, and content decides: of "e.json" there is no suffix left.
    assert current(empty, "Patient") == ["m0", "m1", "m2", "m3", "m4"]
    assert [*skipped_files(report)] == [f"{archive}!notes.txt"]
    assert report.complete


def test_members_with_the_same_name_are_all_read(module_app, tmp_path):
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.ndjson", lines(patient("first-of-the-name")))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.ndjson", lines(patient("second-of-the-name")))
    load(module_app, path)
    assert {"first-of-the-name", "second-of-the-name"} <= {*current(module_app, "Patient")}


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_archive_of_each_compression_is_read_and_its_damage_reported(
    module_app, tmp_path, compression
):
    many = lines(*(patient(f"z{number}", str(number)) for number in range(50)))
    path = zipped(tmp_path / "x.zip", {"a.ndjson": many}, compression=compression)
    assert load(module_app, path).complete
    content = bytearray(path.read_bytes())
    for place in range(60, 200):
        content[place] ^= 0xA5
    damaged = write(tmp_path, bytes(content), "damaged.zip")
    report = load(module_app, damaged, write(tmp_path, patient("beside"), "beside.json"))
    assert report.rejected_lines
    assert "beside" in current(module_app, "Patient")


@pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.campaign)])
def test_archives_with_random_damage_do_not_stop_an_import(module_app, tmp_path, count):
    members = {"a.ndjson": lines(patient("fuzzed")), "b.json.gz": gzip.compress(b'{"a": 1}')}
    whole = zipped(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED).read_bytes()
    chance = random.Random(5)
    for number in range(count):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(4, len(content))] = chance.randrange(256)
        write(tmp_path, bytes(content), f"many/{number}.zip")
    report = load(module_app, tmp_path / "many")
    assert report.rejected_lines > count // 6
    assert all(".zip" in fault.place for fault in report.faults)


def test_archive_with_a_name_that_is_no_text_is_rejected(module_app, tmp_path):
    content = zipped(tmp_path / "x.zip", {"ä.json": b"{}"}).read_bytes()
    damaged = write(tmp_path, content.replace("ä".encode(), b"\xff\xff"), "damaged.zip")
    (fault,) = load(module_app, damaged).faults
    assert "a file name in it is not text" in fault.message


def test_encrypted_or_archived_member_is_rejected_and_the_others_are_read(module_app, tmp_path):
    inner = zipped(tmp_path / "inner.zip", {"a.ndjson": lines(patient("x"))}).read_bytes()
    members = {"a.json": b"{}", "b.ndjson": lines(patient("clear")), "inner.zip": inner}
    content = bytearray(zipped(tmp_path / "x.zip", members).read_bytes())
    # The first bit of the flags, in the member's own header and in the directory of the outer one.
    content[6] |= 1
    content[content.rindex(b"a.json") - 46 + 8] |= 1
    report = load(module_app, write(tmp_path, bytes(content), "locked.zip"))
    encrypted, archived = sorted(report.faults)
    assert encrypted.place == f"{tmp_path}/locked.zip!a.json"
    assert "encrypted" in encrypted.message
    assert archived.place == f"{tmp_path}/locked.zip!inner.zip"
    assert "clear" in current(module_app, "Patient")


@pytest.mark.parametrize("form", ["gzip", "zip"])
def test_decompression_bomb_is_rejected(module_app, tmp_path, form, monkeypatch):
    """A bomb is rejected; records before it, and the files beside it, are imported."""
    monkeypatch.setattr("fhirapp.features.imports.archives._HARMLESS", 100_000)
    first, beside = f"in-a-bomb-{form}", f"beside-a-bomb-{form}"
    bomb = lines(patient(first)) + (b" " * 10_000 + b"\n") * 1_000
    if form == "zip":
        members = {"a.ndjson": bomb, "b.ndjson": lines(patient(beside))}
        path = zipped(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED)
    else:
        path = write(tmp_path, gzip.compress(bomb), "x.ndjson.gz")
    report = load(module_app, path, write(tmp_path, patient(beside), "y.json"))
    assert report.rejected_lines == 1
    assert "fill disks" in report.faults[0].message
    assert {first, beside} <= {*current(module_app, "Patient")}


def test_archive_without_records_is_rejected(module_app, tmp_path):
    path = zipped(tmp_path / "x.zip", {"notes.txt": b"words", "deep/scan.pdf": b"%PDF-1.7"})
    report = load(module_app, path, write(tmp_path, patient("beside"), "beside.json"))
    (fault,) = report.faults
    assert fault.place == str(path)
    assert fault.message.startswith("contains no importable file")
    assert len(skipped_files(report)) == 2


def test_more_archives_are_read_than_files_may_be_open(empty, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(80):
        zipped(tmp_path / f"{number}.zip", {"a.ndjson": lines(patient(f"p{number}"))})
    opened = len([*Path("/proc/self/fd").iterdir()]) if sys.platform == "linux" else 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 40, hard))
    try:
        report = load(empty, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert report.changes["Patient"]["new"] == 80


# Compression


def test_records_before_the_end_of_truncated_gzip_are_imported(module_app, tmp_path):
    content = lines(*(patient(f"cut-{number}", os.urandom(300).hex()) for number in range(300)))
    whole = gzip.compress(content)
    report = load(module_app, write(tmp_path, whole[: len(whole) // 2], "cut.ndjson.gz"))
    assert report.faults[-1].message == "ends too early: the compressed data is cut off"
    assert 75 < report.changes["Patient"]["new"] < 225


@pytest.mark.parametrize("name", ["x.ndjson.gz", "x.json"])
def test_data_that_cannot_be_unpacked_is_rejected(module_app, tmp_path, name):
    record = lines(patient("x"))
    packed = gzip.compress(record)
    for place, content in enumerate(
        (
            b"\x1f\x8b",
            b"\x1f\x8bgarbage that is none",
            packed[:12],
            packed[:-9],
            packed[:-8] + b"\0" * 8,
            gzip.compress(os.urandom(1000)),
            gzip.compress(packed),
            bz2.compress(record),
            b"\x28\xb5\x2f\xfd zstd",
            packed + b"\0" * 512 + b"garbage",
        )
    ):
        write(tmp_path, content, f"given/{place}/{name}")
    also = write(tmp_path, patient("also"), "y.json")
    report = load(module_app, tmp_path / "given", also)
    places = {fault.place.partition(name)[0] for fault in report.faults}
    assert places == {f"{tmp_path}/given/{place}/" for place in range(10)}
    assert "also" in current(module_app, "Patient")


@pytest.mark.parametrize("zeros", [0, 1, 7, 512, 10_240, 200_000])
def test_gzip_in_several_parts_and_padded_with_zeros_is_read(module_app, tmp_path, zeros):
    """Zeros after gzip are the padding of a tape."""
    first, second = (gzip.compress(lines(patient(f"{zeros}-{part}"))) for part in range(2))
    padding = b"\0" * zeros
    path = write(tmp_path, first + padding + second + padding, "x.ndjson.gz")
    member = zipped(tmp_path / "x.zip", {"deep/y.ndjson.gz": second + padding})
    assert load(module_app, path, member).rejected == []
    assert {f"{zeros}-0", f"{zeros}-1"} <= {*current(module_app, "Patient")}
