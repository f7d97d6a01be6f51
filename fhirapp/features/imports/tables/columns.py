"""The columns of the two tables (columns.csv), and the header that names them.

The manual's tables are made of these columns; `fhirapp import --template` prints `template`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fhirapp.features.imports.tables.records import TableLine, TableRecord, lines_of, records_of

ALLERGIES = "allergies"
KINDS = (ALLERGIES, "documents")

_SEPARATORS = ",;\t"
# What Excel reads, and writes, before the header.
_SEPARATOR_LINE = re.compile('"?sep=(.)"?', re.IGNORECASE)
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
