"""Encryption with a passphrase: what is sealed opens with it, and with nothing else."""

from __future__ import annotations

import base64
import errno
import io

import pyrage
import pytest

from fhirapp.ops.backups import passphrase
from fhirapp.ops.backups.archive import InvalidBackup, WrongPassphrase, seal, unseal
from fhirapp.ops.backups.passphrase import LOG_N

PLAIN = bytes(range(256)) * 1_000
PASSPHRASE = "räuber & söhne"


@pytest.fixture(scope="module")
def sealed() -> bytes:
    out = io.BytesIO()
    seal(io.BytesIO(PLAIN), out, PASSPHRASE)
    return out.getvalue()


def open_(content: bytes, passphrase: str = PASSPHRASE) -> bytes:
    out = io.BytesIO()
    unseal(io.BytesIO(content), "clinic.backup", out, passphrase)
    return out.getvalue()


def test_what_is_sealed_opens_with_the_passphrase_alone(sealed):
    assert open_(sealed) == PLAIN
    assert PLAIN[:64] not in sealed
    with pytest.raises(WrongPassphrase, match=r"does not open clinic\.backup"):
        open_(sealed, PASSPHRASE + " ")


def test_a_sealed_file_that_is_cut_off_or_changed_is_refused(sealed):
    start = sealed.index(b"age-encryption.org", 1)
    damaged = [sealed[:-1], sealed[:start], sealed + b"x"]
    changed = bytearray(sealed)
    changed[len(sealed) // 2] ^= 1
    damaged.append(bytes(changed))
    for content in damaged:
        with pytest.raises(InvalidBackup, match=r"clinic\.backup is damaged"):
            open_(content)


def test_a_key_that_is_cut_off_or_changed_is_refused(sealed):
    with pytest.raises(InvalidBackup, match="is not a backup, or its beginning is damaged"):
        open_(sealed[:200])
    changed = bytearray(sealed)
    changed[300] ^= 1
    with pytest.raises(WrongPassphrase, match="or the file's beginning is damaged"):
        open_(bytes(changed))


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
def test_a_disk_that_is_full_is_told_even_for_the_last_piece(sealed, missing):
    with pytest.raises(OSError, match="No space left"):
        seal(io.BytesIO(PLAIN), Full(len(sealed) - missing), PASSPHRASE)
    with pytest.raises(OSError, match="No space left"):
        unseal(io.BytesIO(sealed), "x", Full(len(PLAIN) - missing), PASSPHRASE)


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


def test_what_is_sealed_is_streamed():
    stream = Stream(64 * 1024 * 1024)
    seal(stream, stream, PASSPHRASE)  # type: ignore[arg-type]
    assert stream.left == 0
    assert stream.most < 1024 * 1024


def test_a_key_that_the_library_sealed_opens_too():
    """Backups that were made before have one, which took four times the memory."""
    identity = pyrage.x25519.Identity.generate()
    head = pyrage.passphrase.encrypt(str(identity).encode(), PASSPHRASE, armored=True)
    assert open_(head + pyrage.encrypt(PLAIN, [identity.to_public()])) == PLAIN


def test_a_key_takes_64_megabytes_to_derive(sealed):
    lines = sealed.partition(b"-----END")[0].splitlines()[1:]
    head = base64.b64decode(b"".join(lines))
    intro, stanza = head.split(b"\n")[:2]
    assert intro == b"age-encryption.org/v1"
    name, kind, _salt, log_n = stanza.split(b" ")
    assert (name, kind, int(log_n)) == (b"->", b"scrypt", LOG_N)
    assert 128 * 8 * 2**LOG_N == 64 * 1024 * 1024


@pytest.mark.parametrize("text", [b"", b"x", bytes(range(256)) * 256])
def test_a_text_of_any_length_up_to_a_piece_is_sealed(text):
    assert pyrage.passphrase.decrypt(passphrase.sealed(text, PASSPHRASE), PASSPHRASE) == text
