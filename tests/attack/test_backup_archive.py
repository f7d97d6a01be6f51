"""A backup's file read with suspicion: damaged, made by others, or made to do harm."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.ops.backups.archive import (
    DATABASE,
    FORMAT,
    KEYS,
    InvalidBackup,
    Manifest,
    Member,
    pack,
    unpack,
)
from fhirapp.store.migrate import HEAD

CONTENT = {DATABASE: b"records" * 5_000, KEYS[0]: b"k" * 32}
TAKEN = "2026-01-05T10:15:00.000+00:00"


def member(name: str, content: bytes = b"") -> dict[str, Any]:
    return {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def manifest(**changes: Any) -> dict[str, Any]:
    """Return a manifest as JSON has it, right but for changes."""
    files = [member(name, content) for name, content in CONTENT.items()]
    right = {"format": FORMAT, "taken": TAKEN, "schema": HEAD, "fhirapp": "0.1.0", "files": files}
    return right | changes


def tar(*members: tuple[Any, bytes]) -> bytes:
    """Return a gzipped tar of members, each a name or a TarInfo, and its content."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def backup(stated: Any = None, *more: tuple[Any, bytes]) -> bytes:
    """Return a backup's bytes with a manifest of the test's own, and members after the right."""
    content = stated if isinstance(stated, bytes) else json.dumps(stated or manifest()).encode()
    return tar(("manifest.json", content), *CONTENT.items(), *more)


def read(content: bytes, folder: Path | None = None) -> Manifest:
    return unpack(io.BytesIO(content), "clinic.backup", folder)


def test_what_is_packed_is_unpacked(tmp_path):
    paths = {}
    for name, content in CONTENT.items():
        paths[name] = tmp_path / name
        paths[name].write_bytes(content)
    stated = Manifest.new(TAKEN, HEAD, [Member.of(name, path) for name, path in paths.items()])
    out = io.BytesIO()
    pack(out, stated, paths)
    folder = tmp_path / "copy"
    folder.mkdir()
    assert read(out.getvalue(), folder) == stated
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert read(backup(), None).files == stated.files


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(DATABASE)
    info.type, info.linkname = kind, target
    return info


def long_name() -> tarfile.TarInfo:
    """Return a member whose name takes a header of its own."""
    return tarfile.TarInfo("x" * 5_000)


FILES: list[dict[str, Any]] = manifest()["files"]

BAD = {
    "nothing": b"",
    "text": b"not a backup at all",
    "gzip of text": gzip.compress(b"x" * 2_000),
    "gzip of nothing": gzip.compress(b""),
    "no manifest": tar(*CONTENT.items()),
    "manifest alone": tar(("manifest.json", json.dumps(manifest()).encode())),
    "manifest of another program": backup({"format": "else"}),
    "manifest that is a list": backup(b"[]"),
    "manifest that is no JSON": backup(b"{"),
    "manifest that is not UTF-8": backup(b"\xff"),
    "manifest without files": backup({"format": FORMAT, "schema": HEAD}),
    "manifest with a file too many": backup(manifest(files=[*FILES, member(KEYS[1])])),
    "manifest with a name elsewhere": backup(
        manifest(files=[FILES[0], {**FILES[1], "name": "../secret.key"}])
    ),
    "manifest with a file twice": backup(manifest(files=[FILES[0], FILES[1], FILES[1]])),
    "manifest with another size": backup(manifest(files=[{**FILES[0], "size": 7}, FILES[1]])),
    "manifest with a size below zero": backup(manifest(files=[{**FILES[0], "size": -7}, FILES[1]])),
    "manifest with a size that is text": backup(
        manifest(files=[{**FILES[0], "size": "7"}, FILES[1]])
    ),
    "manifest with another checksum": backup(
        manifest(files=[{**FILES[0], "sha256": FILES[1]["sha256"]}, FILES[1]])
    ),
    "manifest with a member too many": backup(
        manifest(files=[{**FILES[0], "path": "/etc/passwd"}, FILES[1]])
    ),
    "manifest with no time": backup(manifest(taken="yesterday")),
    "manifest too long": backup(json.dumps(manifest()).encode() + b" " * 2_000_000),
    "a member after the last": backup(None, ("../../evil", b"x")),
    "a member elsewhere": tar(
        ("manifest.json", json.dumps(manifest()).encode()), ("/tmp/evil", CONTENT[DATABASE])
    ),
    "a symbolic link": tar(
        ("manifest.json", json.dumps(manifest()).encode()),
        (link(tarfile.SYMTYPE, "/etc/passwd"), b""),
    ),
    "a hard link": tar(
        ("manifest.json", json.dumps(manifest()).encode()), (link(tarfile.LNKTYPE, "x"), b"")
    ),
    "a name as long as the file": tar((long_name(), b"")),
    "something after the end": backup() + gzip.compress(b"more"),
    "noise after the end": backup() + b"noise",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_what_is_no_whole_backup_is_refused_and_nothing_is_written_elsewhere(content, tmp_path):
    folder = tmp_path / "below" / "copy"
    folder.mkdir(parents=True)
    with pytest.raises(InvalidBackup, match=r"clinic\.backup is not a backup, or it is damaged"):
        read(content, folder)
    assert {path.name for path in folder.iterdir()} <= {*CONTENT}
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert [*tmp_path.iterdir()] == [tmp_path / "below"]
    assert [*folder.parent.iterdir()] == [folder]


@pytest.mark.parametrize("changes", [{"format": "fhirapp-backup-2"}, {"schema": "9999"}])
def test_a_backup_of_a_newer_release_is_told_as_such(changes):
    with pytest.raises(InvalidBackup, match=r"was made by a newer fhirapp \(7\.0"):
        read(backup(manifest(fhirapp="7.0", **changes)))


def test_a_backup_that_says_it_is_larger_than_the_disk_is_refused_before_it_is_written(tmp_path):
    stated = manifest(files=[{**FILES[0], "size": 10**17}, FILES[1]])
    with pytest.raises(ConfigurationError, match="There is no room for the backup's content"):
        read(backup(stated), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_wherever_it_is_cut_off_it_is_refused():
    whole = backup()
    for length in range(0, len(whole), max(1, len(whole) // 200)):
        with pytest.raises(InvalidBackup):
            read(whole[:length])


def test_whichever_bit_is_flipped_it_is_refused_or_is_the_same():
    """Some bits of gzip's header say nothing of the content."""
    whole = backup()
    right = read(whole)
    refused = 0
    for place in range(0, len(whole) * 8, max(1, len(whole) * 8 // 400)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        try:
            assert read(bytes(flipped)) == right
        except InvalidBackup:
            refused += 1
    assert refused > 350
