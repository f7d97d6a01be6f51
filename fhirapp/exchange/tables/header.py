"""The header of a table: its separator, and which column each of its cells names."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from fhirapp.exchange.tables.columns import COLUMNS, KINDS, Column
from fhirapp.exchange.tables.lines import Line, lines_of
from fhirapp.exchange.tables.records import Record, records_of

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
