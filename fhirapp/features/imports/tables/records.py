"""The lines, the records and the header of a CSV file. RFC 4180.

columns.csv has the columns of the two tables; the manual's tables are made of it.
Lines are decoded from UTF-8, UTF-16 with its byte order mark, or Windows-1252, each by itself.
csv reads the records; the lines that it takes are kept, to say what is wrong with a record, and to
read on after it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
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


_NEVER_CLOSED = "has a quoted cell that is never closed"
_NO_SEPARATOR = "has a quoted cell that does not end at a separator: is a quote missing?"
# More than any table has.
MOST_CELLS = 500
# Of one record, whose lines are held until it ends.
MOST_LINES = 100_000
# Lines are limited, and so are the cells in them.
csv.field_size_limit(2**31 - 1)


class TableRecord(NamedTuple):
    """A record, which begins at line number; where it has a fault it has no cells."""

    number: int
    text: bytes
    cells: list[str]
    note: str = ""
    fault: str = ""


def records_of(lines: Iterator[TableLine], separator: str, number: int) -> Iterator[TableRecord]:
    """Yield the records, the first of which begins at line number.

    A quote that is never closed spoils its own line only: the others are read as if it were none.
    """
    source = _RecordLines(lines, separator)
    reader = csv.reader(source, delimiter=separator, skipinitialspace=separator != " ", strict=True)
    while True:
        taken = source.start_record()
        try:
            cells, fault = next(reader, []), ""
        except csv.Error:
            cells, fault = [], _NEVER_CLOSED if source.is_cut else _NO_SEPARATOR
        if not taken:
            return
        if len(cells) > MOST_CELLS:
            fault = f"has more than {MOST_CELLS} cells"
        if fault := taken[0].fault or fault:
            source.repeat(taken[1:])
            yield TableRecord(number, taken[0].raw, [], fault=fault)
            number += 1
        else:
            note = next((line.note for line in taken if line.note), "")
            yield TableRecord(number, b"".join(line.raw for line in taken), cells, note)
            number += len(taken)


class _RecordLines:
    """The lines for csv, which takes those of one record after the other.

    is_cut: the last record has not ended where its lines do.
    """

    def __init__(self, lines: Iterator[TableLine], separator: str) -> None:
        self.is_cut = False
        self._lines = lines
        self._taken: list[TableLine] = []
        self._size = 0
        self._again: deque[TableLine] = deque()
        self._separator = separator
        mark = re.escape(separator)
        # A quoted cell from its opening quote, and what is of it in this line.
        self._quoted = re.compile(
            rf'((?:^|{mark}) *"[^"]*+(?:""[^"]*+)*+(?:"|\Z)) *(?={mark}|[\r\n]|\Z)'
        )

    def start_record(self) -> list[TableLine]:
        """Return the list that gets the lines of the next record."""
        self._taken, self._size = [], 0
        return self._taken

    def repeat(self, lines: list[TableLine]) -> None:
        """Have lines read again."""
        self._again.extendleft(reversed(lines))

    def __iter__(self) -> _RecordLines:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines, None)
        is_full = self._size > LONGEST or len(self._taken) >= MOST_LINES
        self.is_cut = bool(self._taken) and (line is None or bool(line.fault) or is_full)
        if line is None:
            raise StopIteration
        if self.is_cut:
            self._again.appendleft(line)
            raise StopIteration
        self._taken.append(line)
        self._size += len(line.text)
        return self._text(line.text)

    def _text(self, text: str) -> str:
        """Return a line as csv takes it."""
        is_first = len(self._taken) == 1
        if is_first and '"' not in text and text.count(self._separator) > MOST_CELLS:
            # What it has too many of need not fill the memory.
            return self._separator * (MOST_CELLS + 1)
        if '" ' not in text:
            return text
        # csv refuses spaces behind a quoted cell. A later line begins within one.
        if is_first:
            return self._quoted.sub(r"\1", text)
        return self._quoted.sub(r"\1", f'"{text}')[1:]


# The header.


ALLERGIES = "allergies"
KINDS = (ALLERGIES, "documents")

_SEPARATORS = ",;\t"
# What Excel reads, and writes, before the header.
_SEPARATOR_LINE = re.compile('"?sep=([^"])"?', re.IGNORECASE)
_GLUE = re.compile(r"[\s_-]+")
# How similar a name must be to a known one, to be taken for a misspelling of it.
SIMILAR = 0.8
_MOST_COLUMNS = 200
# How far down a header is looked for, to tell of the lines above it.
_MOST_ABOVE = 20


class ImportColumn(NamedTuple):
    """A column: its name, its meaning, when it is required, and its cells in the template.

    also names what other sources call it. lines says whether a cell may have line breaks: in any
    other column they come from a quote that is missing.
    """

    name: str
    doc: str
    required: str
    first: str
    second: str
    also: Sequence[str]
    lines: bool


def _columns() -> dict[str, list[ImportColumn]]:
    columns: dict[str, list[ImportColumn]] = {kind: [] for kind in KINDS}
    with Path(__file__).with_name("columns.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            kinds, also, lines = row.pop("tables"), row.pop("also"), row.pop("lines")
            column = ImportColumn(**row, also=also.split(), lines=bool(lines))
            for kind in kinds.split():
                columns[kind].append(column)
    return columns


COLUMNS = _columns()
_BY_NAME: Mapping[str, Mapping[str, ImportColumn]] = {
    kind: {name: column for column in columns for name in (column.name, *column.also)}
    for kind, columns in COLUMNS.items()
}


class Header(NamedTuple):
    """The column that each cell of a row belongs to, None for cells that are not read.

    faults and notes are (column, message); a table whose header has faults cannot be read.
    """

    columns: Sequence[ImportColumn | None]
    faults: list[tuple[str, str]]
    notes: list[tuple[str, str]]


def template(kind: str) -> str:
    """Return a table of a kind: its header and two rows, commas between the cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for cells in ("name", "first", "second"):
        writer.writerow([getattr(column, cells) for column in COLUMNS[kind]])
    return text.getvalue()


def is_table(head: bytes) -> str | None:
    """Return the kind of the table that begins with these bytes, None where they begin none."""
    if head.lstrip()[:1] in (b"{", b"[", b"<"):
        return None
    return _kind_at(list(islice(lines_of(io.BytesIO(head)), 3)))


def header_line(head: bytes) -> int:
    """Return the number of the line that has the headings of a table, below others; else 0."""
    lines = list(islice(lines_of(io.BytesIO(head)), _MOST_ABOVE))
    found = (number for number in range(1, len(lines)) if _kind_at(lines[number : number + 1]))
    return next(found, -1) + 1


def _kind_at(lines: Sequence[TableLine]) -> str | None:
    """Return the kind of the table that begins with these lines, None where they begin none."""
    start = start_of(lines)
    if start is None:
        return None
    separator, skipped = start
    cells = next(records_of(iter(lines[skipped:]), separator, 1)).cells
    # Misspelled names count too: the table is then refused with what is probably meant.
    names, kind = max(
        ((_probable_names(cells, kind), kind) for kind in KINDS),
        key=lambda candidate: (len(candidate[0]), candidate[1]),
    )
    has_patient = names & {"patient_id", "patient_identifier"}
    is_enough = len(names) >= 3 or not _missing(kind, names)
    return kind if has_patient and is_enough else None


def start_of(lines: Sequence[TableLine]) -> tuple[str, int] | None:
    """Return the separator and the number of lines before the header; None without a header."""
    separator = ""
    for skipped, line in enumerate(lines):
        if match := _SEPARATOR_LINE.fullmatch(line.text.strip("\r\n")):
            separator = match[1]
        elif line.text.strip():
            return separator or max(
                _SEPARATORS, key=lambda mark: _known_columns(line, mark)
            ), skipped
    return None


def _known_columns(line: TableLine, separator: str) -> int:
    """Return how many columns of one kind a header names, if this is its separator."""
    cells = next(records_of(iter([line]), separator, 1)).cells
    names = [_normal(cell) for cell in cells]
    return max(
        len({known[name].name for name in names if name in known}) for known in _BY_NAME.values()
    )


def _probable_names(cells: Sequence[str], kind: str) -> set[str]:
    """Return the columns that a header names, also those whose names are misspelled."""
    known = _BY_NAME[kind]
    return {
        known[name].name
        for cell in cells[:_MOST_COLUMNS]
        for name in get_close_matches(_normal(cell)[:64], known, 1, SIMILAR)
    }


def _normal(name: str) -> str:
    return _GLUE.sub("_", name.strip()).casefold()


def read_header(record: TableRecord, kind: str) -> Header:
    """Return what a header names."""
    if record.fault:
        return Header((), [("", record.fault)], [])
    cells = list(record.cells)
    while cells and not cells[-1].strip():
        cells.pop()
    if len(cells) > _MOST_COLUMNS:
        return Header((), [("", f"has {len(cells)} columns; {_MOST_COLUMNS} are read")], [])
    known = _BY_NAME[kind]
    columns = [known.get(_normal(cell)) for cell in cells]
    names = [column.name for column in columns if column]
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
    faults = [(name, "appears twice") for name in repeated]
    notes = []
    probable = set()
    unused = {name: column.name for name, column in known.items() if column.name not in names}
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True), 1):
        if column is not None:
            continue
        name = cell.strip() or f"column {place}"
        if similar := get_close_matches(_normal(cell)[:64], unused, 1, SIMILAR):
            meant = unused[similar[0]]
            probable.add(meant)
            faults.append((name, f"is not a column; is {meant} meant?"))
        else:
            notes.append((name, "is not a column of this table, and is not read"))
    faults += _missing(kind, {*names, *probable})
    return Header(columns, faults, notes)


def _missing(kind: str, names: set[str]) -> list[tuple[str, str]]:
    """Return the required columns that are not among these names, each with a message."""
    faults = []
    if not names & {"patient_id", "patient_identifier"}:
        faults.append(("patient_id", "is required, or patient_identifier"))
    required = "substance" if kind == ALLERGIES else "type"
    if required not in names:
        faults.append((required, "is required"))
    if kind != ALLERGIES and not names & {"file", "text"}:
        faults.append(("file", "is required, or text"))
    return faults
