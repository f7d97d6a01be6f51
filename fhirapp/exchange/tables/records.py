"""The lines, records and header of a CSV file. RFC 4180.

Lines are decoded from UTF-8, UTF-16 with its byte order mark, or Windows-1252, each by itself.
Python's csv keeps neither the text of a record nor where a quote was left open; both are needed to
say what is wrong with it, and to read on after it.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import BinaryIO, NamedTuple

from fhirapp.exchange.tables.columns import COLUMNS, KINDS, Column

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


_INSIDE = re.compile('[^"]*+(?:""[^"]*+)*+')
_OPENING = re.compile(' *"')
_SPACES = re.compile(" *")
# More than any table has: a line of nothing but separators does not fill the memory.
MOST_CELLS = 500
# Of one record, whose lines are held until it ends.
MOST_LINES = 100_000


class Record(NamedTuple):
    """A record, which begins at line number; where it has a fault it has no cells."""

    number: int
    text: bytes
    cells: list[str]
    note: str = ""
    fault: str = ""


class _Broken(ValueError):
    """A record whose quotes do not fit together."""


def records_of(lines: Iterator[Line], separator: str, number: int) -> Iterator[Record]:
    """Yield the records, the first of which begins at line number.

    A quote that is never closed spoils its own line only: the others are read as if it were none.
    """
    waiting: deque[Line] = deque()

    def following() -> Line | None:
        return waiting.popleft() if waiting else next(lines, None)

    while (line := following()) is not None:
        taken = [line]
        cells = _Cells(separator)
        size = len(line.text)
        try:
            if line.fault:
                raise _Broken(line.fault)
            while not cells.take(line.text):
                following_line = following()
                full = size > LONGEST or len(taken) >= MOST_LINES
                if following_line is None or following_line.fault or full:
                    if following_line is not None:
                        waiting.appendleft(following_line)
                    raise _Broken("has a quoted cell that is never closed")
                line = following_line
                taken.append(line)
                size += len(line.text)
        except _Broken as error:
            waiting.extendleft(reversed(taken[1:]))
            yield Record(number, taken[0].raw, [], fault=str(error))
            number += 1
            continue
        note = next((one.note for one in taken if one.note), "")
        yield Record(number, b"".join(one.raw for one in taken), cells.found, note)
        number += len(taken)


class _Cells:
    """The cells of a record, taken from one line after the other."""

    def __init__(self, separator: str) -> None:
        self.found: list[str] = []
        self._separator = separator
        # The parts of a quoted cell that is not closed yet.
        self._open: list[str] | None = None

    def take(self, line: str) -> bool:
        """Take a line; return whether the record ends with it. Raises _Broken."""
        end = len(line.rstrip("\r\n"))
        if self._open is None and '"' not in line:
            self.found = line[:end].split(self._separator, MOST_CELLS)
            return self._counted()
        place = 0
        while place <= end:
            self._counted()
            if self._open is None:
                opening = _OPENING.match(line, place)
                if opening is None:
                    place = self._plain(line, place, end)
                    continue
                self._open = []
                place = opening.end()
            inside = _INSIDE.match(line, place)
            assert inside is not None  # It matches the empty text.
            self._open.append(inside[0])
            if inside.end() == len(line):
                return False
            self.found.append("".join(self._open).replace('""', '"'))
            self._open = None
            place = self._after(line, inside.end() + 1, end)
        return self._counted()

    def _counted(self) -> bool:
        if len(self.found) > MOST_CELLS:
            raise _Broken(f"has more than {MOST_CELLS} cells")
        return True

    def _plain(self, line: str, place: int, end: int) -> int:
        """Take a cell without quotes; return where the next begins, beyond the end after the last.

        A quote inside it is a character like any other: 5" tube.
        """
        close = line.find(self._separator, place, end)
        close = end if close < 0 else close
        self.found.append(line[place:close])
        return close + 1

    def _after(self, line: str, place: int, end: int) -> int:
        """Return where the cell after a quoted one begins."""
        spaces = _SPACES.match(line, place, end)
        assert spaces is not None  # It matches the empty text.
        place = spaces.end()
        if place < end and line[place] != self._separator:
            raise _Broken("has a quoted cell that does not end at a separator: is a quote missing?")
        return place + 1


_SEPARATORS = ",;\t"
# What Excel reads, and writes, before the header.
_SEPARATOR_LINE = re.compile('"?sep=(.)"?', re.IGNORECASE)
_GLUE = re.compile(r"[\s_-]+")
# How alike a name must be to one that is not there, to be taken for a slip of the pen.
_ALIKE = 0.8
_MOST_COLUMNS = 200


class Header(NamedTuple):
    """Which column each cell of a row belongs to, None for what is not read."""

    columns: Sequence[Column | None]
    faults: list[tuple[str, str]]
    notes: list[tuple[str, str]]


def is_table(head: bytes) -> str | None:
    """Return which table begins with these bytes, "allergies" or "documents"; None for neither."""
    if head.lstrip()[:1] in (b"{", b"[", b"<"):
        return None
    lines = list(islice(lines_of(io.BytesIO(head)), 3))
    found = start_of(lines)
    if found is None:
        return None
    separator, skipped = found
    record = next(records_of(iter(lines[skipped:]), separator, 1))
    # Misspelled names count too: the table is then refused with what is probably meant.
    best, kind = max((len(_meant(record.cells, kind)), kind) for kind in KINDS)
    names = _meant(record.cells, kind)
    about_patients = names & {"patient_id", "patient_identifier"}
    is_enough = best >= 3 or not _absent(kind, names)
    return kind if about_patients and is_enough else None


def start_of(lines: Sequence[Line]) -> tuple[str, int] | None:
    """Return the separator, and how many lines stand before the header; None without a header."""
    told = ""
    for skipped, line in enumerate(lines):
        text = line.text.strip()
        separator_line = _SEPARATOR_LINE.fullmatch(line.text.strip("\r\n"))
        if separator_line:
            told = separator_line[1]
        elif text:
            return told or _likely(line), skipped
    return None


def _likely(line: Line) -> str:
    """Return the separator with which a header names the most columns."""
    return max(
        _SEPARATORS,
        key=lambda one: max(
            _known(next(records_of(iter([line]), one, 1)).cells, kind) for kind in KINDS
        ),
    )


def _known(cells: Sequence[str], kind: str) -> int:
    return len({named.name for cell in cells if (named := _column(cell, kind)) is not None})


def _meant(cells: Sequence[str], kind: str) -> set[str]:
    """Return the columns that a header names, also those whose names are misspelled."""
    known = _names(kind)
    found = set()
    for cell in cells[:_MOST_COLUMNS]:
        alike = get_close_matches(_normal(cell)[:64], known, 1, _ALIKE)
        found |= {known[name].name for name in alike}
    return found


def _normal(name: str) -> str:
    return _GLUE.sub("_", name.strip()).casefold()


def _names(kind: str) -> Mapping[str, Column]:
    return {name: column for column in COLUMNS[kind] for name in (column.name, *column.also)}


def _column(cell: str, kind: str) -> Column | None:
    return _names(kind).get(_normal(cell))


def read_header(record: Record, kind: str) -> Header:
    """Return what a header names; it has faults where its table cannot be read."""
    if record.fault:
        return Header((), [("", record.fault)], [])
    cells = list(record.cells)
    while cells and not cells[-1].strip():
        cells.pop()
    if len(cells) > _MOST_COLUMNS:
        return Header((), [("", f"has {len(cells)} columns; {_MOST_COLUMNS} are read")], [])
    known = _names(kind)
    columns = [known.get(_normal(cell)) for cell in cells]
    there = {column.name for column in columns if column}
    faults = _twice(columns)
    notes = []
    meant = set()
    missing = {name: column for name, column in known.items() if column.name not in there}
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True), 1):
        if column is not None:
            continue
        name = cell.strip() or f"column {place}"
        alike = get_close_matches(_normal(cell)[:64], missing, 1, _ALIKE)
        if alike:
            meant.add(missing[alike[0]].name)
            faults.append((name, f"is not a column; is {missing[alike[0]].name} meant?"))
        else:
            notes.append((name, "is not a column of this table, and is not read"))
    faults += _absent(kind, there | meant)
    return Header(columns, faults, notes)


def _twice(columns: Sequence[Column | None]) -> list[tuple[str, str]]:
    names = [column.name for column in columns if column]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [(name, "is there twice") for name in twice]


def _absent(kind: str, there: set[str]) -> list[tuple[str, str]]:
    """Return the columns that must be there and are not."""
    faults = []
    if not there & {"patient_id", "patient_identifier"}:
        faults.append(("patient_id", "is required, or patient_identifier"))
    if kind == "allergies" and "substance" not in there:
        faults.append(("substance", "is required"))
    if kind == "documents":
        if "type" not in there:
            faults.append(("type", "is required"))
        if not there & {"file", "text"}:
            faults.append(("file", "is required, or text"))
    return faults
