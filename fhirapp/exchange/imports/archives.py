"""Files out of their compression: gzip and zip, read where they lie and never unpacked to disk.

Faults of the data are told as Broken, and its growth is bounded.
"""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

# What is read at once.
CHUNK = 65_536
# Compressed data that grows by more than this, beyond so many bytes, is made to fill disks.
_MOST_GROWTH, _HARMLESS = 500, 1_000_000_000
# Archives that are open.
_AT_ONCE = 16
_GZIP, _ZIP = b"\x1f\x8b", (b"PK\x03\x04", b"PK\x05\x06")

# Told the bytes that are read of the disk.
Told = Callable[[int], None]
Opens = Callable[[Told], BinaryIO]


class Broken(Exception):
    """An input that cannot be read to its end; str() says why."""


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip archive. Raises OSError."""
    with path.open("rb") as file:
        return file.read(4) in _ZIP


class Archives:
    """The archives that are read: of many a few are open at a time."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, zipfile.ZipFile] = OrderedDict()

    def __enter__(self) -> Archives:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def members(self, path: Path) -> list[tuple[str, int, Opens]]:
        """Return the files in an archive: name, compressed size, what opens it. Raises Broken."""
        try:
            return [
                (info.filename, info.compress_size, _member(self, path, info))
                for info in self.of(path).infolist()
                if not info.is_dir()
            ]
        except _DAMAGE as error:
            raise Broken(f"cannot be read: {_said(error)}") from None

    def of(self, path: Path) -> zipfile.ZipFile:
        """Return the archive in a file, opened where it is not."""
        archive = self._open.pop(path, None) or zipfile.ZipFile(path)
        self._open[path] = archive
        if len(self._open) > _AT_ONCE:
            self._open.popitem(last=False)[1].close()
        return archive


def _member(archives: Archives, path: Path, info: zipfile.ZipInfo) -> Opens:
    def opens(told: Told) -> BinaryIO:
        try:
            member = archives.of(path).open(info)
        except _DAMAGE as error:
            raise Broken(f"cannot be read: {_said(error)}") from None
        told(info.compress_size)
        bounded = _Bounded(cast(BinaryIO, member), lambda: info.compress_size)
        return unpacked(cast(BinaryIO, _buffered(bounded)), lambda _count: None)

    return opens


def unpacked(file: BinaryIO, told: Told) -> BinaryIO:
    """Return what a file holds, out of gzip where it is in gzip."""
    counted = _Counted(file, told)
    reader = _buffered(counted)
    if reader.peek(2)[:2] != _GZIP:
        return reader
    inner = gzip.GzipFile(fileobj=reader)
    return _buffered(_Bounded(cast(BinaryIO, inner), lambda: counted.count))


def _buffered(raw: RawIOBase) -> BufferedReader:
    return BufferedReader(raw, CHUNK)


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


def _said(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the compressed data is cut off"
    if isinstance(error, UnicodeDecodeError):
        return "a name in it is no text"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class _Counted(RawIOBase):
    """A file whose bytes are counted as they are read."""

    def __init__(self, file: BinaryIO, told: Told) -> None:
        self._file = file
        self._told = told
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        try:
            chunk = self._file.read(len(buffer))
        except OSError as error:
            raise Broken(f"cannot be read: {_said(error)}") from None
        buffer[: len(chunk)] = chunk
        self.count += len(chunk)
        self._told(len(chunk))
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Bounded(RawIOBase):
    """What comes out of compressed data: its faults are told, its growth is bounded."""

    def __init__(self, file: BinaryIO, compressed: Callable[[], int]) -> None:
        self._file = file
        self._compressed = compressed
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        try:
            chunk = self._file.read(len(buffer))
        except EOFError:
            raise Broken("ends too early: the compressed data is cut off") from None
        except _DAMAGE as error:
            raise Broken(f"cannot be unpacked: {_said(error)}") from None
        self._count += len(chunk)
        if self._count > max(_HARMLESS, _MOST_GROWTH * self._compressed()):
            raise Broken(
                f"grows to more than {_MOST_GROWTH} times its size when it is unpacked: it looks "
                "made to fill disks"
            )
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()
