"""The lines and the records of a CSV file. RFC 4180.

Lines are decoded from UTF-8, UTF-16 with its byte order mark, or Windows-1252, each by itself.
Python's csv keeps neither the text of a record nor where a quote was left open; both are needed to
say what is wrong with it, and to read on after it.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

# A cell of 10 MB passes; a line that never ends does not fill the memory.
LONGEST = 16 * 1024 * 1024
_KEPT = 4_096
_CHUNK = 65_536
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LINE = re.compile("[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
WINDOWS = "is not UTF-8: read as Windows-1252"


class TableLine(NamedTuple):
    """A line with its line end and bytes; note and fault are empty for a valid line.

    For an overlong line, raw has only the beginning.
    """

    text: str
    raw: bytes
    note: str = ""
    fault: str = ""


def lines_of(file: BinaryIO) -> Iterator[TableLine]:
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


def _too_long(start: bytes) -> TableLine:
    return TableLine("", start[:_KEPT], fault=f"is longer than {LONGEST} bytes")


def _skip(file: BinaryIO, start: bytes) -> None:
    while start and not start.endswith(b"\n"):
        start = file.readline(_CHUNK)


def _split(raw: bytes) -> Iterator[TableLine]:
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
            yield TableLine("", raw, fault="is neither UTF-8 nor Windows-1252")
            return
    for part in _LINE.findall(text):
        yield TableLine(part, mark + part.encode(codec), note)
        mark = b""


def _wide(file: BinaryIO, start: bytes, mark: bytes, codec: str) -> Iterator[TableLine]:
    """Yield the lines of UTF-16, of which start was read; a broken character becomes U+FFFD."""
    parts: list[str] = []
    size = 0
    for part in _parts(file, start[len(mark) :], codec):
        if size <= LONGEST:
            parts.append(part)
            size += 2 * len(part)
        if part.endswith(("\r", "\n")):
            yield _joined(parts, size, mark, codec)
            parts, size, mark = [], 0, b""
    if parts:
        yield _joined(parts, size, mark, codec)


def _joined(parts: list[str], size: int, mark: bytes, codec: str) -> TableLine:
    text = "".join(parts)
    if size > LONGEST:
        return _too_long(mark + text[:_KEPT].encode(codec, "replace"))
    return TableLine(text, mark + text.encode(codec, "replace"))


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


_INSIDE = re.compile('[^"]*+(?:""[^"]*+)*+')
_OPENING = re.compile(' *"')
_SPACES = re.compile(" *")
# More than any table has: a line of nothing but separators does not fill the memory.
MOST_CELLS = 500
# Of one record, whose lines are held until it ends.
MOST_LINES = 100_000


class TableRecord(NamedTuple):
    """A record, which begins at line number; where it has a fault it has no cells."""

    number: int
    text: bytes
    cells: list[str]
    note: str = ""
    fault: str = ""


class _Broken(ValueError):
    """A record whose quotes do not fit together."""


def records_of(lines: Iterator[TableLine], separator: str, number: int) -> Iterator[TableRecord]:
    """Yield the records, the first of which begins at line number.

    A quote that is never closed spoils its own line only: the others are read as if it were none.
    """
    waiting: deque[TableLine] = deque()

    def following() -> TableLine | None:
        return waiting.popleft() if waiting else next(lines, None)

    while (first := following()) is not None:
        taken = [first]
        cells = _Cells(separator)
        size = len(first.text)
        try:
            if first.fault:
                raise _Broken(first.fault)
            while not cells.take(taken[-1].text):
                line = following()
                is_full = size > LONGEST or len(taken) >= MOST_LINES
                if line is None or line.fault or is_full:
                    if line is not None:
                        waiting.appendleft(line)
                    raise _Broken("has a quoted cell that is never closed")
                taken.append(line)
                size += len(line.text)
        except _Broken as error:
            waiting.extendleft(reversed(taken[1:]))
            yield TableRecord(number, first.raw, [], fault=str(error))
            number += 1
            continue
        note = next((line.note for line in taken if line.note), "")
        yield TableRecord(number, b"".join(line.raw for line in taken), cells.complete, note)
        number += len(taken)


class _Cells:
    """The cells of a record, taken from one line after the other."""

    def __init__(self, separator: str) -> None:
        self.complete: list[str] = []
        self._separator = separator
        # The parts of a quoted cell that is not closed yet.
        self._open: list[str] | None = None

    def take(self, line: str) -> bool:
        """Take a line; return whether the record ends with it. Raises _Broken."""
        end = len(line.rstrip("\r\n"))
        if self._open is None and '"' not in line:
            self.complete = line[:end].split(self._separator, MOST_CELLS)
            self._check_number()
            return True
        place = 0
        while place <= end:
            self._check_number()
            if self._open is None:
                opening = _OPENING.match(line, place)
                if opening is None:
                    # A quote inside a cell without quotes is a character like any other: 5" tube.
                    close = line.find(self._separator, place, end)
                    close = end if close < 0 else close
                    self.complete.append(line[place:close])
                    place = close + 1
                    continue
                self._open = []
                place = opening.end()
            inside = _INSIDE.match(line, place)
            assert inside is not None  # It matches the empty text.
            self._open.append(inside[0])
            if inside.end() == len(line):
                return False
            self.complete.append("".join(self._open).replace('""', '"'))
            self._open = None
            place = self._after(line, inside.end() + 1, end)
        self._check_number()
        return True

    def _check_number(self) -> None:
        if len(self.complete) > MOST_CELLS:
            raise _Broken(f"has more than {MOST_CELLS} cells")

    def _after(self, line: str, place: int, end: int) -> int:
        """Return where the cell after a quoted one begins."""
        spaces = _SPACES.match(line, place, end)
        assert spaces is not None  # It matches the empty text.
        place = spaces.end()
        if place < end and line[place] != self._separator:
            raise _Broken("has a quoted cell that does not end at a separator: is a quote missing?")
        return place + 1
