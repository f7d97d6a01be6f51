"""Archives and compressed files: read where they lie, bounded, their damage told."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import resource
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from tests.support.archives import zipped
from tests.support.importing import current, lines, load, patient, write


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def test_an_archive_is_read_where_it_lies_whatever_its_members_are_called(empty, tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    names = ["../../a.ndjson", "/etc/b.ndjson", "C:\\c.ndjson", "d/../../d.json", "e\0.json"]
    members = {name: lines(patient(f"m{place}")) for place, name in enumerate(names)}
    archive = zipped(folder / "x.zip", {**members, "notes.txt": b"text", "deep/": b""})
    before = {*tmp_path.rglob("*")}
    report = load(empty, archive)
    assert {*tmp_path.rglob("*")} == before
    # Names end at a null, and content decides: of "e.json" there is no suffix left.
    assert current(empty, "Patient") == ["m0", "m1", "m2", "m3", "m4"]
    assert [*report.skipped_files] == [f"{archive}!notes.txt"]
    assert report.complete


def test_members_of_one_name_are_all_read(kept, tmp_path):
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.ndjson", lines(patient("first-of-the-name")))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.ndjson", lines(patient("second-of-the-name")))
    load(kept, path)
    assert {"first-of-the-name", "second-of-the-name"} <= {*current(kept, "Patient")}


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_an_archive_of_any_compression_is_read_and_its_damage_told(kept, tmp_path, compression):
    many = lines(*(patient(f"z{number}", str(number)) for number in range(50)))
    path = zipped(tmp_path / "x.zip", {"a.ndjson": many}, compression=compression)
    assert load(kept, path).complete
    content = bytearray(path.read_bytes())
    for place in range(60, 200):
        content[place] ^= 0xA5
    damaged = write(tmp_path, bytes(content), "damaged.zip")
    report = load(kept, damaged, write(tmp_path, lines(patient("beside")), "beside.ndjson"))
    assert report.rejected_lines
    assert "beside" in current(kept, "Patient")


def test_archives_that_are_damaged_anywhere_never_stop_an_import(kept, tmp_path):
    members = {"a.ndjson": lines(patient("fuzzed")), "b.json.gz": gzip.compress(b'{"a": 1}')}
    whole = zipped(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED).read_bytes()
    chance = random.Random(5)
    for number in range(60):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(4, len(content))] = chance.randrange(256)
        write(tmp_path, bytes(content), f"many/{number}.zip")
    report = load(kept, tmp_path / "many")
    assert report.rejected_lines > 10
    assert all(".zip" in fault.place for fault in report.faults)


def test_an_encrypted_member_is_told_and_the_others_are_read(kept, tmp_path):
    path = zipped(tmp_path / "x.zip", {"a.json": b"{}", "b.ndjson": lines(patient("clear"))})
    content = bytearray(path.read_bytes())
    # The first bit of the flags, in the member's own header and in the directory.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    report = load(kept, write(tmp_path, bytes(content), "locked.zip"))
    assert [one.place for one in report.faults] == [f"{tmp_path}/locked.zip!a.json"]
    assert "encrypted" in report.faults[0].message
    assert "clear" in current(kept, "Patient")


@pytest.mark.parametrize("compress", [gzip.compress, "zip"])
def test_what_grows_without_bound_is_told(kept, tmp_path, compress, monkeypatch):
    monkeypatch.setattr("fhirapp.exchange.imports.archives._HARMLESS", 100_000)
    bomb = lines(patient("in-a-bomb")) + (b" " * 10_000 + b"\n") * 1_000
    if compress == "zip":
        members = {"a.ndjson": bomb, "b.ndjson": lines(patient("beside-a-bomb"))}
        path = zipped(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED)
    else:
        path = write(tmp_path, gzip.compress(bomb), "x.ndjson.gz")
    report = load(kept, path)
    assert report.rejected_lines == 1
    assert "made to fill disks" in report.faults[0].message
    # What is bounded is taken: what came before, and what lies beside.
    assert "in-a-bomb" in current(kept, "Patient")


def test_an_archive_in_an_archive_is_told(kept, tmp_path):
    inner = zipped(tmp_path / "inner.zip", {"a.ndjson": lines(patient("x"))}).read_bytes()
    report = load(kept, zipped(tmp_path / "outer.zip", {"inner.zip": inner}))
    assert report.rejected_lines == 1
    assert report.faults[0].place.endswith("outer.zip!inner.zip")


def test_an_archive_with_nothing_to_import_is_told(kept, tmp_path):
    path = zipped(tmp_path / "x.zip", {"notes.txt": b"words", "deep/scan.pdf": b"%PDF-1.7"})
    report = load(kept, path, write(tmp_path, patient("beside"), "beside.json"))
    assert report.rejected == [f"{path}: contains no importable file; see the skipped files"]
    assert len(report.skipped_files) == 2


def test_an_archive_of_many_members_takes_no_longer_for_each(empty, tmp_path):
    """A directory that is read again for each member costs as much as its square."""

    def cost(members: int) -> float:
        files = {f"{number}.json": b'{"resourceType": "Basic"}' for number in range(members)}
        path = zipped(tmp_path / f"{members}.zip", files)
        began = time.process_time()
        load(empty, path, provenance=False)
        return (time.process_time() - began) / members

    # The least of several: a collection of garbage in between costs the more of one.
    assert min(map(cost, (500, 501, 502))) < 2 * min(map(cost, (50, 51, 52)))


def test_more_archives_than_files_may_be_open_are_read(empty, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(150):
        zipped(tmp_path / f"{number}.zip", {"a.ndjson": lines(patient(f"p{number}"))})
    opened = len([*Path("/proc/self/fd").iterdir()]) if sys.platform == "linux" else 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 60, hard))
    try:
        report = load(empty, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert report.changes["Patient"]["new"] == 150


# Compression.


def test_gzip_that_is_cut_off_is_told_and_what_came_before_is_taken(kept, tmp_path):
    content = lines(*(patient(f"cut-{number}", os.urandom(30).hex()) for number in range(2_000)))
    whole = gzip.compress(content)
    report = load(kept, write(tmp_path, whole[: len(whole) // 2], "cut.ndjson.gz"))
    assert report.faults[-1].message == "ends too early: the compressed data is cut off"
    assert 500 < report.changes["Patient"]["new"] < 1_500


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b",
        b"\x1f\x8bgarbage that is none",
        gzip.compress(lines(patient("x")))[:12],
        gzip.compress(lines(patient("x")))[:-9],
        gzip.compress(lines(patient("x")))[:-8] + b"\0" * 8,
        gzip.compress(os.urandom(1000)),
        gzip.compress(gzip.compress(lines(patient("x")))),
        bz2.compress(lines(patient("x"))),
        b"\x28\xb5\x2f\xfd zstd",
    ],
    ids=["head", "garbage", "no data", "cut", "sum", "noise", "twice", "bzip2", "zstd"],
)
@pytest.mark.parametrize("name", ["x.ndjson.gz", "x.json"])
def test_what_cannot_be_unpacked_is_told(kept, tmp_path, content, name):
    report = load(kept, write(tmp_path, content, name), write(tmp_path, patient("also"), "y.json"))
    assert report.rejected_lines >= 1
    assert {one.place.partition(".")[0] for one in report.faults} == {f"{tmp_path}/x"}
    assert "also" in current(kept, "Patient")


def test_gzip_in_several_parts_is_one(kept, tmp_path):
    content = b"".join(gzip.compress(lines(patient(f"part-{one}"))) for one in range(3))
    assert load(kept, write(tmp_path, content, "x.ndjson.gz")).complete
    assert {"part-0", "part-1", "part-2"} <= {*current(kept, "Patient")}


@pytest.mark.parametrize("zeros", [1, 7, 512, 10_240, 200_000])
def test_zeros_after_gzip_are_the_padding_of_a_tape(kept, tmp_path, zeros):
    first, second = (gzip.compress(lines(patient(f"{zeros}-{one}"))) for one in range(2))
    padding = b"\0" * zeros
    path = write(tmp_path, first + padding + second + padding, "x.ndjson.gz")
    member = zipped(tmp_path / "x.zip", {"deep/y.ndjson.gz": second + padding})
    assert load(kept, path, member).rejected == []
    assert {f"{zeros}-0", f"{zeros}-1"} <= {*current(kept, "Patient")}


def test_anything_else_after_gzip_is_told(kept, tmp_path):
    packed = gzip.compress(lines(patient("before-garbage")))
    report = load(kept, write(tmp_path, packed + b"\0" * 512 + b"garbage", "x.ndjson.gz"))
    assert report.rejected_lines == 1
    assert report.faults[0].place == f"{tmp_path}/x.ndjson.gz"
