"""The file of a backup: packed and encrypted; refused where it is damaged, truncated or forged."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import io
import json
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pyrage
import pytest

from fhirapp.config import ConfigurationError
from fhirapp.features.backups.archive import (
    DATABASE,
    FORMAT,
    KEYS,
    BackupFile,
    BackupManifest,
    InvalidBackup,
    WrongPassphrase,
    pack,
    seal,
    unpack,
    unseal,
)
from fhirapp.features.backups.passphrase import LOG_N
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


def read(content: bytes, folder: Path | None = None) -> BackupManifest:
    return unpack(io.BytesIO(content), "clinic.backup", folder)


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(DATABASE)
    info.type, info.linkname = kind, target
    return info


FILES: list[dict[str, Any]] = manifest()["files"]


def with_file(**changes: Any) -> bytes:
    """Return a backup whose manifest describes its first file otherwise."""
    return backup(manifest(files=[FILES[0] | changes, FILES[1]]))


MANIFEST = ("manifest.json", json.dumps(manifest()).encode())


FORGED = {
    "nothing": b"",
    "text": b"not a backup at all",
    "gzip of text": gzip.compress(b"x" * 2_000),
    "gzip of nothing": gzip.compress(b""),
    "no manifest": tar(*CONTENT.items()),
    "manifest alone": tar(MANIFEST),
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
    "manifest with another size": with_file(size=7),
    "manifest with a size below zero": with_file(size=-7),
    "manifest with a size that is text": with_file(size="7"),
    "manifest with another checksum": with_file(sha256=FILES[1]["sha256"]),
    "manifest with an unknown member": with_file(path="/etc/passwd"),
    "manifest with no time": backup(manifest(taken="yesterday")),
    "manifest too long": backup(MANIFEST[1] + b" " * 2_000_000),
    "a member after the last": backup(None, ("../../evil", b"x")),
    "a member elsewhere": tar(MANIFEST, ("/tmp/evil", CONTENT[DATABASE])),
    "a symbolic link": tar(MANIFEST, (link(tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "a hard link": tar(MANIFEST, (link(tarfile.LNKTYPE, "x"), b"")),
    "a name as long as the file": tar((tarfile.TarInfo("x" * 5_000), b"")),
    "something after the end": backup() + gzip.compress(b"more"),
    "noise after the end": backup() + b"noise",
}


def test_packed_files_are_unpacked(tmp_path):
    paths = {}
    for name, content in CONTENT.items():
        paths[name] = tmp_path / name
        paths[name].write_bytes(content)
    stated = BackupManifest.new(
        TAKEN, HEAD, [BackupFile.of(name, path) for name, path in paths.items()]
    )
    out = io.BytesIO()
    pack(out, stated, paths)
    folder = tmp_path / "copy"
    folder.mkdir()
    assert read(out.getvalue(), folder) == stated
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert read(backup(), None).files == stated.files


def test_forged_and_damaged_archives_are_refused_and_write_nowhere_else(tmp_path):
    for number, (name, content) in enumerate(FORGED.items()):
        folder = tmp_path / str(number) / "copy"
        folder.mkdir(parents=True)
        with pytest.raises(InvalidBackup, match=r"clinic\.backup is not a backup, or it is damag"):
            pytest.fail(f"{name}: {read(content, folder)}")
        assert {path.name for path in folder.iterdir()} <= {*CONTENT}, name
        assert not any(path.is_symlink() for path in folder.iterdir()), name
        assert [*folder.parent.iterdir()] == [folder], name
    assert len([*tmp_path.iterdir()]) == len(FORGED)


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_content_of_a_long_name_or_pax_header_is_not_read(kind):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 64 * 1024 * 1024
    bomb = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(info.size), 1)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBackup, match="is not a plain file"):
            read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("changes", [{"format": "fhirapp-backup-2"}, {"schema": "9999"}])
def test_backup_of_a_newer_release_is_reported_as_such(changes):
    with pytest.raises(InvalidBackup, match=r"was made by a newer fhirapp \(7\.0"):
        read(backup(manifest(fhirapp="7.0", **changes)))


def test_backup_of_a_schema_before_the_initial_one_is_refused(tmp_path):
    said = r"by an older fhirapp \(0\.0\.9, schema 0010\); restore it with fhirapp 0\.1\.0, which"
    with pytest.raises(InvalidBackup, match=said):
        read(backup(manifest(fhirapp="0.0.9", schema="0010")), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_backup_larger_than_the_disk_is_refused_before_it_is_written(tmp_path):
    stated = manifest(files=[{**FILES[0], "size": 10**17}, FILES[1]])
    with pytest.raises(ConfigurationError, match="There is no room for the backup's content"):
        read(backup(stated), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_truncated_backup_is_refused_at_any_length():
    whole = backup()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        with pytest.raises(InvalidBackup):
            read(whole[:length])


def test_flipped_bit_is_refused_or_changes_nothing():
    """Some bits of gzip's header say nothing of the content."""
    whole = backup()
    right = read(whole)
    refused = 0
    bits = range(0, len(whole) * 8, max(1, len(whole) * 8 // 120))
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert read(bytes(flipped)) == right
        except InvalidBackup:
            refused += 1
    assert refused > len(bits) * 0.85


PLAIN = bytes(range(256)) * 1_000


PASSPHRASE = "räuber & söhne"


@pytest.fixture(scope="module")
def encrypted() -> bytes:
    out = io.BytesIO()
    seal(io.BytesIO(PLAIN), out, PASSPHRASE)
    return out.getvalue()


def decrypted(content: bytes, passphrase: str = PASSPHRASE) -> bytes:
    out = io.BytesIO()
    unseal(io.BytesIO(content), "clinic.backup", out, passphrase)
    return out.getvalue()


def test_encrypted_backup_opens_with_its_passphrase_alone(encrypted):
    assert decrypted(encrypted) == PLAIN
    assert PLAIN[:64] not in encrypted
    with pytest.raises(WrongPassphrase, match=r"does not open clinic\.backup"):
        decrypted(encrypted, PASSPHRASE + " ")


def test_encrypted_file_that_is_truncated_or_changed_is_refused(encrypted):
    start = encrypted.index(b"age-encryption.org", 1)
    damaged = [encrypted[:-1], encrypted[:start], encrypted + b"x"]
    changed = bytearray(encrypted)
    changed[len(encrypted) // 2] ^= 1
    damaged.append(bytes(changed))
    for content in damaged:
        with pytest.raises(InvalidBackup, match=r"clinic\.backup is damaged"):
            decrypted(content)


def test_encrypted_key_that_is_truncated_or_changed_is_refused(encrypted):
    with pytest.raises(InvalidBackup, match="is not a backup, or its beginning is damaged"):
        decrypted(encrypted[:200])
    changed = bytearray(encrypted)
    changed[300] ^= 1
    with pytest.raises(WrongPassphrase, match="or the file's beginning is damaged"):
        decrypted(bytes(changed))


class Full(io.BytesIO):
    """A file on a disk that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, piece: object) -> int:
        content = bytes(piece)  # type: ignore[call-overload]
        if self.tell() + len(content) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


@pytest.mark.parametrize("missing", [1_000, 200_000])
def test_full_disk_is_reported_even_for_the_last_piece(encrypted, missing):
    with pytest.raises(OSError, match="No space left"):
        seal(io.BytesIO(PLAIN), Full(len(encrypted) - missing), PASSPHRASE)
    with pytest.raises(OSError, match="No space left"):
        unseal(io.BytesIO(encrypted), "x", Full(len(PLAIN) - missing), PASSPHRASE)


class Stream:
    """A file that is made as it is read, and knows how much of it waits to be written."""

    def __init__(self, size: int) -> None:
        self.left, self.waiting, self.most = size, 0, 0

    def read(self, size: int) -> bytes:
        piece = bytes(min(size, self.left))
        self.left -= len(piece)
        self.waiting += len(piece)
        self.most = max(self.most, self.waiting)
        return piece

    def write(self, piece: bytes) -> int:
        self.waiting -= len(piece)
        return len(piece)


def test_encryption_streams():
    stream = Stream(64 * 1024 * 1024)
    seal(stream, stream, PASSPHRASE)  # type: ignore[arg-type]
    assert stream.left == 0
    assert stream.most < 1024 * 1024


@pytest.mark.campaign
def test_key_encrypted_by_the_library_opens_too():
    """Backups that were made before have one, which took four times the memory."""
    identity = pyrage.x25519.Identity.generate()
    head = pyrage.passphrase.encrypt(str(identity).encode(), PASSPHRASE, armored=True)
    assert decrypted(head + pyrage.encrypt(PLAIN, [identity.to_public()])) == PLAIN


def test_key_takes_64_megabytes_to_derive(encrypted):
    lines = encrypted.partition(b"-----END")[0].splitlines()[1:]
    head = base64.b64decode(b"".join(lines))
    intro, stanza = head.split(b"\n")[:2]
    assert intro == b"age-encryption.org/v1"
    name, kind, _salt, log_n = stanza.split(b" ")
    assert (name, kind, int(log_n)) == (b"->", b"scrypt", LOG_N)
    assert 128 * 8 * 2**LOG_N == 64 * 1024 * 1024
