"""Fetch one file of an export, and check it: its length, gzip, the number of resources, its end."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO

import orjson

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull import address as addresses
from fhirapp.features.pull.address import RemoteError, TransientError
from fhirapp.features.pull.authorization import RemoteServer
from fhirapp.features.pull.connection import GZIP, blocks
from fhirapp.features.pull.state import DownloadFolder, FileState, private_file

_BLOCK = 1 << 20
# How often the free disk space is checked.
_CHECK_BYTES = 64 << 20
_LAST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"


def is_gzip(path: Path) -> bool:
    """Say whether a file is gzip'd, whatever its name: some servers do not tell."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpack(source: Path, target: BinaryIO, most: int, check_disk: Callable[[], None]) -> None:
    """Open a gzip'd file, of any number of members.

    Zeros may follow a member, as those that fill a block of a tape. check_disk is called once in a
    while. Raises TransientError where the file is damaged or ends too soon, RemoteError where it
    holds more than most bytes.
    """
    inflater, size, checked_at, rest = zlib.decompressobj(31), 0, 0, b""
    with source.open("rb") as packed:
        try:
            while block := rest or packed.read(_BLOCK):
                if inflater.eof:
                    block, rest = block.lstrip(b"\0"), b""
                    if not block:
                        continue
                    inflater = zlib.decompressobj(31)
                plain = inflater.decompress(block, _BLOCK)
                rest = inflater.unconsumed_tail or inflater.unused_data
                target.write(plain)
                size += len(plain)
                if size > most:
                    raise RemoteError(f"A gzip'd file holds more than {most} bytes; it is refused.")
                if size - checked_at >= _CHECK_BYTES:
                    checked_at = size
                    check_disk()
        except zlib.error:
            raise TransientError("the file is damaged") from None
    if not inflater.eof:
        raise TransientError("the file ends too soon")


def count_resources(path: Path) -> int:
    """Return how many lines are not blank.

    Raises TransientError where the first begins no JSON object.
    """
    count, is_begun, is_first = 0, False, True
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            if is_first:
                text = block.removeprefix(_BOM).lstrip()
                if text and not text.startswith(b"{"):
                    raise TransientError("the file is not NDJSON")
                is_first = not text
            *ended, rest = block.split(b"\n")
            for line in ended:
                count += is_begun or _has_text(line)
                is_begun = False
            is_begun = is_begun or _has_text(rest)
    return count + is_begun


def is_ended(path: Path) -> bool:
    """Say whether a file ends with a whole line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _LAST_LINE))
        end = file.read()
    if not end or end.endswith(b"\n"):
        return True
    start = end.rfind(b"\n") + 1
    if start == 0 and size > _LAST_LINE:
        return end.rstrip().endswith(b"}")
    try:
        orjson.loads(end[start:].removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return False
    return True


def _has_text(line: bytes) -> bool:
    return bool(line) and not line.isspace()


_ENCODINGS = ("", "identity", *GZIP)
_HEADERS = {"Accept": "application/fhir+ndjson, application/ndjson", "Accept-Encoding": "gzip"}


class FileGone(Exception):
    """A file is not to be had at its address, or not any more."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Fetch:
    """The attempts to fetch one file, each from its beginning."""

    def __init__(
        self, server: RemoteServer, file: FileState, place: DownloadFolder, save: Callable[[], None]
    ) -> None:
        self._server, self._file, self._save = server, file, save
        self._part, self._whole = place.part(file), place.whole(file)
        self._opened = self._part.with_name(f"{self._part.name}.opened")
        self._name = addresses.place(file.address)
        self._misfits = 0

    def attempt(self) -> None:
        """Fetch, check and store the file. Raises TransientError, FileGone, RemoteError."""
        try:
            is_packed, is_framed = self._receive()
            try:
                self._finish(is_packed=is_packed, is_framed=is_framed)
            except TransientError as failure:
                self._misfits += 1
                if self._misfits > 1:
                    raise RemoteError(f"{self._name} was not fetched: {failure}, twice.") from None
                raise
        finally:
            self._part.unlink(missing_ok=True)
            self._opened.unlink(missing_ok=True)

    def _receive(self) -> tuple[bool, bool]:
        """Store the body of an answer; say whether it is gzip'd, and whether its end was marked.

        A length or chunks mark the end. Raises TransientError, FileGone, RemoteError.
        """
        with self._server.get(self._file.address, _HEADERS) as answer:
            if answer.status != 200:
                what = f"{self._name} was not fetched"
                fault = self._server.fault(what, self._file.address, answer)
                raise FileGone(fault) if answer.status in (401, 403, 404, 410) else fault
            encoding = (answer.getheader("Content-Encoding") or "").strip().lower()
            if encoding not in _ENCODINGS:
                raise RemoteError(
                    f"{self._name} comes encoded as {sanitize(encoding, 40)}, which was not "
                    "asked for."
                )
            if (answer.getheader("Content-Type") or "").lower().startswith("text/html"):
                raise RemoteError(f"{self._name} is a web page, not NDJSON.")
            # http.client counts it down while the body is read.
            total = answer.length
            with private_file(self._part) as part:
                received = self._copy(answer, part, total)
            if total is not None and received != total:
                raise TransientError(f"the connection was lost after {received} of {total} bytes")
            return encoding in GZIP, answer.chunked or total is not None

    def _copy(self, answer: HTTPResponse, part: BinaryIO, total: int | None) -> int:
        """Copy a body, and return its size. Raises TransientError, RemoteError."""
        most, size, checked_at = self._server.bounds.file_bytes, 0, 0
        if total is not None and total > most:
            raise RemoteError(f"{self._name} is {total} bytes; more than {most} are refused.")
        self._make_room(total or 0)
        for block in blocks(answer):
            part.write(block)
            size += len(block)
            if size > most:
                raise RemoteError(f"{self._name} is larger than {most} bytes; it is refused.")
            if size - checked_at >= _CHECK_BYTES:
                checked_at = size
                self._make_room(max(0, (total or 0) - size))
        return size

    def _make_room(self, rest: int) -> None:
        """Check that the disk can take so many bytes more. Raises RemoteError."""
        free = shutil.disk_usage(self._part.parent).free
        if free < rest + self._server.bounds.free_bytes:
            raise RemoteError(
                f"{self._name} needs {rest} bytes more, and the disk of {self._part.parent} has "
                f"{free} left; make room, run this again, and it continues."
            )

    def _finish(self, *, is_packed: bool, is_framed: bool) -> None:
        """Check the file and put it where whole ones are. Raises TransientError, RemoteError."""
        file, ready = self._file, self._part
        received = ready.stat().st_size
        if is_packed or is_gzip(ready):
            ready = self._opened
            with private_file(ready) as target:
                most = self._server.bounds.file_bytes
                unpack(self._part, target, most, lambda: self._make_room(0))
        found = count_resources(ready)
        if file.resources is not None and found != file.resources:
            raise TransientError(f"{found} resources came where {file.resources} were announced")
        length = ready.stat().st_size
        if file.size is not None and file.size not in (received, length):
            raise TransientError(f"{length} bytes came where {file.size} were announced")
        if not is_framed and not is_ended(ready):
            raise TransientError("the connection was lost in the middle of a resource")
        with ready.open("r+b") as synced:
            os.fsync(synced.fileno())
        ready.replace(self._whole)
        file.length = length
        self._save()
