"""CSV of clinics without FHIR: a table of allergies, or of documents, a row for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from fhirapp.features.imports.tables.allergies import allergy
from fhirapp.features.imports.tables.cells import Cells
from fhirapp.features.imports.tables.columns import (
    ALLERGIES,
    KINDS,
    header_line,
    is_table,
    read_header,
    start_of,
    template,
)
from fhirapp.features.imports.tables.documents import document
from fhirapp.features.imports.tables.files import TableFiles
from fhirapp.features.imports.tables.records import TableLine, lines_of, records_of

__all__ = ["KINDS", "TableRow", "header_line", "is_table", "rows_of", "template"]

# The header is one of these.
_FIRST_LINES = 50


class TableRow(NamedTuple):
    """A row, which begins at line number; resources is None where it has faults.

    text is the row as it was written, its line end included; of a line that is too long its
    beginning. resources are in the order in which they refer to each other. faults and notes are
    (column, message); the column is empty where they are about the whole row. defaults names the
    elements that have a value though no cell states one.
    """

    number: int
    text: bytes
    resources: list[dict[str, Any]] | None
    faults: list[tuple[str, str]]
    notes: list[tuple[str, str]]
    defaults: frozenset[str] = frozenset()


def rows_of(file: BinaryIO, kind: str, files: TableFiles | None) -> Iterator[TableRow]:
    """Yield the rows of a table of a kind, first its header, with no resources.

    Rows without any content are left out. A header with faults has no resources but None, and no
    rows come after it. files are those beside the table, None where there are none.
    """
    lines = lines_of(file)
    first: list[TableLine] = []
    start = None
    for line in lines:
        first.append(line)
        start = start_of(first)
        if start or len(first) == _FIRST_LINES:
            break
    if start is None:
        yield TableRow(1, b"", None, [("", "has no header")], [])
        return
    separator, skipped = start
    records = records_of(chain(first[skipped:], lines), separator, skipped + 1)
    before = b"".join(line.raw for line in first[:skipped])
    record = next(records)
    header = read_header(record, kind)
    notes = [("", record.note), *header.notes] if record.note else header.notes
    nothing = None if header.faults else list[dict[str, Any]]()
    yield TableRow(record.number, before + record.text, nothing, header.faults, notes)
    if header.faults:
        return
    for record in records:
        if record.fault:
            yield TableRow(record.number, record.text, None, [("", record.fault)], [])
            continue
        if not any(cell.strip() for cell in record.cells):
            continue
        cells = Cells(header.columns, record.cells)
        if record.note:
            cells.note("", record.note)
        resources = allergy(cells) if kind == ALLERGIES else document(cells, files)
        kept = None if cells.faults else resources
        defaults = frozenset(cells.defaults)
        yield TableRow(record.number, record.text, kept, cells.faults, cells.notes, defaults)
