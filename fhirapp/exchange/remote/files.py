"""Fetch one file of an export: continued where it stopped, and checked when it is there.

The bytes are kept as they come, so that a Range can continue them; what is gzip'd is opened when it
is whole. RFC 9110 §14 (Range), §13.1.5 (If-Range)

A complete file is checked: gzip is opened, resources are counted, the end is checked.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO

import orjson

from fhirapp.exchange.remote import address as addresses
from fhirapp.exchange.remote.address import Passing, RemoteError, shown
from fhirapp.exchange.remote.authorization import Server
from fhirapp.exchange.remote.connection import GZIP, blocks
from fhirapp.exchange.remote.state import FileState, Place

_BLOCK = 1 << 20
_LAST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"


def is_gzip(path: Path) -> bool:
    """Say whether a file is gzip'd, whatever its name: some servers do not tell."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpack(source: Path, target: Path, most: int, look: Callable[[int], None]) -> None:
    """Open a gzip'd file, of any number of members; target must be there.

    Zeros may follow a member, as those that fill a block of a tape. look is told, once in a while,
    how many bytes came of it. Raises Passing where it is damaged or ends too soon, RemoteError
    where it is larger than most.
    """
    inflater, size, rest = zlib.decompressobj(31), 0, b""
    with source.open("rb") as packed, target.open("wb") as opened:
        try:
            while block := rest or packed.read(_BLOCK):
                if inflater.eof:
                    block, rest = block.lstrip(b"\0"), b""
                    if not block:
                        continue
                    inflater = zlib.decompressobj(31)
                plain = inflater.decompress(block, _BLOCK)
                rest = inflater.unconsumed_tail or inflater.unused_data
                opened.write(plain)
                size += len(plain)
                if size > most:
                    raise RemoteError(f"A gzip'd file holds more than {most} bytes; it is refused.")
                look(size)
        except zlib.error:
            raise Passing("the file is damaged") from None
    if not inflater.eof:
        raise Passing("the file ends too soon")


def count_resources(path: Path) -> int:
    """Return how many lines are not blank. Raises Passing where the first begins no JSON object."""
    count, is_begun, is_first = 0, False, True
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            if is_first:
                text = block.removeprefix(_BOM).lstrip()
                if text and not text.startswith(b"{"):
                    raise Passing("the file is not NDJSON")
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


# So much more than ever before is progress: the attempts are counted anew.
_PROGRESS_BYTES = 1 << 20
# How often the disk is looked at.
_LOOK_BYTES = 64 << 20
_ENCODINGS = ("", "identity", *GZIP)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_HEADERS = {"Accept": "application/fhir+ndjson, application/ndjson", "Accept-Encoding": "gzip"}


class Gone(Exception):
    """A file is not to be had at its address, or not any more."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Fetch:
    """The attempts to fetch one file."""

    def __init__(
        self, server: Server, file: FileState, place: Place, save: Callable[[], None]
    ) -> None:
        self._server, self._file, self._save = server, file, save
        self._part, self._whole = place.part(file), place.whole(file)
        self._name = addresses.place(file.address)
        self._best = self._have()
        # Not after an answer that did not fit what was asked for.
        self._may_continue = True
        self._misfits = 0
        self._looked_at = 0

    def attempt(self) -> None:
        """Bring the file here. Raises Passing, Gone, RemoteError."""
        file = self._file
        if not self._have() or self._have() != file.total:
            before = self._best
            try:
                self._receive()
            except Passing as failure:
                self._best = max(before, self._have())
                failure.progress = self._best - before >= _PROGRESS_BYTES
                raise
        try:
            self._finish()
        except Passing as failure:
            # What is not what it should be is no beginning either.
            self._drop()
            self._misfits += 1
            if self._misfits > 1:
                raise RemoteError(f"{self._name} was not fetched: {failure}, twice.") from None
            raise

    def _have(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _drop(self) -> None:
        self._part.unlink(missing_ok=True)
        self._file.validator = self._file.total = None
        self._may_continue = False

    def _receive(self) -> None:
        file, have = self._file, self._have()
        headers = dict(_HEADERS)
        if have and file.validator and self._may_continue:
            headers |= {"Range": f"bytes={have}-", "If-Range": file.validator}
        with self._server.get(file.address, headers) as answer:
            have = self._start_of(answer, have, is_continued="Range" in headers)
            if have != file.total or not have:
                with beginning(self._part, have) as part:
                    self._copy(answer, part, have)
        if file.total is not None and self._have() != file.total:
            raise Passing(f"the connection was lost after {self._have()} of {file.total} bytes")

    def _start_of(self, answer: HTTPResponse, have: int, *, is_continued: bool) -> int:
        """Return where in the file an answer begins. Raises Passing, Gone, RemoteError."""
        if is_continued and answer.status in (206, 416):
            if not self._fits(answer, have):
                self._drop()
                raise Passing("what the server sends does not continue what is here")
            return have
        if answer.status != 200:
            fault = self._server.fault(f"{self._name} was not fetched", self._file.address, answer)
            raise Gone(fault) if answer.status in (401, 403, 404, 410) else fault
        self._begin(answer)
        return 0

    def _begin(self, answer: HTTPResponse) -> None:
        """Take up what an answer says of the whole file. Raises RemoteError."""
        file, encoding = self._file, _encoding(answer)
        if encoding not in _ENCODINGS:
            raise RemoteError(
                f"{self._name} comes encoded as {shown(encoding, 40)}, which was not asked for."
            )
        if (answer.getheader("Content-Type") or "").lower().startswith("text/html"):
            raise RemoteError(f"{self._name} is a web page, not NDJSON.")
        # First: what is here must never be taken for the beginning of this one.
        self._part.unlink(missing_ok=True)
        file.encoding, file.validator = encoding, _validator(answer)
        file.total, file.is_framed = answer.length, answer.chunked or answer.length is not None
        self._make_room(0)
        self._save()

    def _fits(self, answer: HTTPResponse, have: int) -> bool:
        """Say whether an answer begins where the bytes that are here end, or says that all are."""
        file, sent_range = self._file, (answer.getheader("Content-Range") or "").strip()
        if answer.status == 416:
            is_all = sent_range == f"bytes */{have}" and file.total in (None, have)
            file.total = have
            return is_all
        found = _CONTENT_RANGE.fullmatch(sent_range)
        if found is None:
            return False
        first, last, total = map(int, found.groups())
        if file.total is None:
            file.total, file.is_framed = total, True
        return (
            first == have
            and last + 1 == total == file.total
            and answer.length in (None, last + 1 - first)
            and _encoding(answer) == file.encoding
        )

    def _copy(self, answer: HTTPResponse, part: BinaryIO, have: int) -> None:
        most, looked_at = self._server.bounds.file_bytes, have
        for block in blocks(answer):
            part.write(block)
            have += len(block)
            if have > most:
                raise RemoteError(f"{self._name} is larger than {most} bytes; it is refused.")
            if have - looked_at >= _LOOK_BYTES:
                looked_at = have
                self._make_room(have)

    def _make_room(self, have: int) -> None:
        """Make sure that the disk can take the rest. Raises RemoteError."""
        bounds, total = self._server.bounds, self._file.total
        if total is not None and total > bounds.file_bytes:
            raise RemoteError(
                f"{self._name} is {total} bytes; more than {bounds.file_bytes} are refused."
            )
        rest = max(0, (total or 0) - have)
        free = shutil.disk_usage(self._part.parent).free
        if free < rest + bounds.free_bytes:
            raise RemoteError(
                f"{self._name} needs {rest} bytes more, and the disk of {self._part.parent} has "
                f"{free} left; make room, run this again, and it goes on where it stopped."
            )

    def _finish(self) -> None:
        """Check the file and put it where whole ones are. Raises Passing, RemoteError."""
        file, part = self._file, self._part
        received = self._have()
        if file.encoding in GZIP or is_gzip(part):
            ready = part.with_name(f"{part.name}.opened")
            beginning(ready, 0).close()
            unpack(part, ready, self._server.bounds.file_bytes, self._look)
        else:
            ready = part
        found = count_resources(ready)
        if file.resources is not None and found != file.resources:
            raise Passing(f"{found} resources came where {file.resources} were announced")
        length = ready.stat().st_size
        if file.size is not None and file.size not in (received, length):
            raise Passing(f"{length} bytes came where {file.size} were announced")
        if not file.is_framed and not is_ended(ready):
            raise Passing("the connection was lost in the middle of a resource")
        with ready.open("r+b") as synced:
            os.fsync(synced.fileno())
        ready.replace(self._whole)
        file.length = length
        self._save()
        part.unlink(missing_ok=True)

    def _look(self, size: int) -> None:
        if size - self._looked_at >= _LOOK_BYTES:
            self._looked_at = size
            self._make_room(self._have())


def _encoding(answer: HTTPResponse) -> str:
    return (answer.getheader("Content-Encoding") or "").strip().lower()


def _validator(answer: HTTPResponse) -> str | None:
    """Return what If-Range may hold: a strong ETag, or else the time of the last change."""
    tag = (answer.getheader("ETag") or "").strip()
    if tag.startswith('"') and tag.isascii() and tag.isprintable():
        return tag
    changed = (answer.getheader("Last-Modified") or "").strip()
    return changed if changed.isascii() and changed.isprintable() and changed else None


def beginning(path: Path, have: int) -> BinaryIO:
    """Open a file, which only this user may read, to be written on after so many bytes."""
    if have == 0:
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
    file = path.open("r+b")
    file.truncate(have)
    file.seek(have)
    return file
