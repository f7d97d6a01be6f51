"""Compressed files: gzip and zip, read in place and never unpacked to disk.

Damaged data is raised as Broken, and the growth of what is unpacked is bounded.
"""

from __future__ import annotations

import gzip
import lzma
import stat
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from fhirapp.features.imports.skipped import UnreadInput

CHUNK = 65_536
# Compressed data that grows by more than this factor, beyond so many bytes, is made to fill disks.
_MAX_GROWTH, _HARMLESS = 500, 1_000_000_000
_MAX_OPEN = 16
_GZIP, ZIP = b"\x1f\x8b", (b"PK\x03\x04", b"PK\x05\x06")
# The flag of a member whose name is said to be UTF-8. APPNOTE 4.4.4
_UTF_8 = 0x800
_DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)

# Called with the number of bytes that were read from the disk.
OnRead = Callable[[int], None]
Opener = Callable[[OnRead], BinaryIO]


class Broken(UnreadInput):
    """An input that cannot be read to its end."""

    # Where it is known.
    line = 0


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip archive. Raises OSError."""
    with path.open("rb") as file:
        return file.read(4) in ZIP


class ArchiveMember(NamedTuple):
    """A file in an archive: its name, its compressed size, its opener, whether it is a link."""

    name: str
    size: int
    opens: Opener
    is_link: bool


class Archives(AbstractContextManager["Archives"]):
    """The archives that are read; a few of many are open at a time."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, zipfile.ZipFile] = OrderedDict()

    def __exit__(self, *_error: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def members(self, path: Path) -> list[ArchiveMember]:
        """Return the files in an archive. Raises Broken."""
        try:
            return [
                ArchiveMember(
                    _name_of(info),
                    info.compress_size,
                    partial(self._open_member, path, info),
                    stat.S_ISLNK(info.external_attr >> 16),
                )
                for info in self._archive(path).infolist()
                if not info.is_dir()
            ]
        except _DAMAGE as error:
            raise Broken(f"cannot be read: {_reason(error)}") from None

    def _archive(self, path: Path) -> zipfile.ZipFile:
        archive = self._open.pop(path, None) or zipfile.ZipFile(path)
        self._open[path] = archive
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        return archive

    def _open_member(self, path: Path, info: zipfile.ZipInfo, on_read: OnRead) -> BinaryIO:
        try:
            member = self._archive(path).open(info)
        except _DAMAGE as error:
            raise Broken(f"cannot be read: {_reason(error)}") from None
        on_read(info.compress_size)
        return unpacked(
            _buffered(_Unpacked(member, lambda: info.compress_size)), lambda _size: None
        )


def unpacked(file: BinaryIO, on_read: OnRead) -> BinaryIO:
    """Return a file's content, out of gzip where it is in gzip."""
    counted = _Counted(file, on_read)
    reader = _buffered(counted)
    if reader.peek(2)[:2] != _GZIP:
        return reader
    return _buffered(_Unpacked(gzip.GzipFile(fileobj=reader), lambda: counted.count))


def _name_of(info: zipfile.ZipInfo) -> str:
    """Return the name of a member; macOS writes UTF-8 without saying so."""
    if not info.flag_bits & _UTF_8:
        with suppress(UnicodeError):
            return info.filename.encode("cp437").decode()
    return info.filename


def _buffered(raw: RawIOBase) -> BufferedReader:
    return BufferedReader(raw, CHUNK)


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the compressed data is cut off"
    if isinstance(error, UnicodeDecodeError):
        return "a file name in it is not text"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class _Raw(RawIOBase):
    """A file read through another, whose bytes are counted."""

    def __init__(self, file: object) -> None:
        self._file = cast(BinaryIO, file)
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        chunk = self._read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self.count += len(chunk)
        return chunk

    def close(self) -> None:
        self._file.close()
        super().close()


class _Counted(_Raw):
    """A file on the disk."""

    def __init__(self, file: BinaryIO, on_read: OnRead) -> None:
        super().__init__(file)
        self._on_read = on_read

    def _read(self, size: int) -> bytes:
        try:
            chunk = super()._read(size)
        except OSError as error:
            raise Broken(f"cannot be read: {_reason(error)}") from None
        self._on_read(len(chunk))
        return chunk


class _Unpacked(_Raw):
    """The content of compressed data, whose growth is bounded; compressed is the size so far."""

    def __init__(self, file: object, compressed: Callable[[], int]) -> None:
        super().__init__(file)
        self._compressed = compressed

    def _read(self, size: int) -> bytes:
        try:
            chunk = super()._read(size)
        except EOFError:
            raise Broken("ends too early: the compressed data is cut off") from None
        except _DAMAGE as error:
            raise Broken(f"cannot be unpacked: {_reason(error)}") from None
        if self.count > max(_HARMLESS, _MAX_GROWTH * self._compressed()):
            raise Broken(
                f"grows to more than {_MAX_GROWTH} times its size when it is unpacked: it looks "
                "made to fill disks"
            )
        return chunk
