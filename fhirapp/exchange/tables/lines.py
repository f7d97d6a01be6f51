"""The lines of a text file, decoded: UTF-8 with or without its mark, UTF-16 with it, and line by
line Windows-1252, which Excel writes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

# A cell of 10 MB passes; a line that never ends does not fill the memory.
LONGEST = 16 * 1024 * 1024
_KEPT = 4_096
_CHUNK = 65_536
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LINE = re.compile("[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
WINDOWS = "is not UTF-8: read as Windows-1252"


class Line(NamedTuple):
    """A line with its end, and the bytes as they stood; note and fault are empty where all is well.

    Of a line that is too long, raw has only the beginning.
    """

    text: str
    raw: bytes
    note: str = ""
    fault: str = ""


def lines_of(file: BinaryIO) -> Iterator[Line]:
    """Yield the lines of a file, without the byte order mark at its start."""
    first = file.readline(LONGEST + 1)
    for mark, codec in _MARKS:
        if first.startswith(mark):
            yield from _wide(file, first, mark, codec)
            return
    while first:
        if len(first) > LONGEST:
            _skip(file, first)
            yield _too_long(first)
        else:
            yield from _split(first)
        first = file.readline(LONGEST + 1)


def _too_long(start: bytes) -> Line:
    return Line("", start[:_KEPT], fault=f"is longer than {LONGEST} bytes")


def _skip(file: BinaryIO, start: bytes) -> None:
    while start and not start.endswith(b"\n"):
        start = file.readline(_CHUNK)


def _split(raw: bytes) -> Iterator[Line]:
    """Decode what ends with a line feed; the carriage returns of old Macs end lines too."""
    mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    body = raw[len(mark) :]
    codec, note = "utf-8", ""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        codec, note = "cp1252", WINDOWS
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            yield Line("", raw, fault="is neither UTF-8 nor Windows-1252")
            return
    for part in _LINE.findall(text):
        yield Line(part, mark + part.encode(codec), note)
        mark = b""


def _wide(file: BinaryIO, start: bytes, mark: bytes, codec: str) -> Iterator[Line]:
    """Yield the lines of UTF-16, of which start was read; a broken character becomes U+FFFD."""
    held: list[str] = []
    size = 0
    for part in _parts(file, start[len(mark) :], codec):
        if size <= LONGEST:
            held.append(part)
            size += 2 * len(part)
        if part.endswith(("\r", "\n")):
            yield _joined(held, size, mark, codec)
            held, size, mark = [], 0, b""
    if held:
        yield _joined(held, size, mark, codec)


def _joined(held: list[str], size: int, mark: bytes, codec: str) -> Line:
    text = "".join(held)
    if size > LONGEST:
        return _too_long(mark + text[:_KEPT].encode(codec, "replace"))
    return Line(text, mark + text.encode(codec, "replace"))


def _parts(file: BinaryIO, chunk: bytes, codec: str) -> Iterator[str]:
    """Yield UTF-16 decoded, in parts that end where a line does or where what was read ends."""
    decoder = codecs.getincrementaldecoder(codec)("replace")
    carried = ""
    while chunk:
        text = carried + decoder.decode(chunk)
        # It may be the half of a line's end.
        carried = "\r" if text.endswith("\r") else ""
        yield from _LINE.findall(text[: len(text) - len(carried)])
        chunk = file.read(_CHUNK)
    yield from _LINE.findall(carried + decoder.decode(b"", final=True))
