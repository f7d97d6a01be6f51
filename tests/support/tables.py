"""Rows of CSV tables of allergies and documents, written and read as an import does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from fhirapp.features.imports.tables import TableRow, rows_of
from fhirapp.features.imports.tables.files import FolderFiles

REQUIRED = {"allergies": {"substance": "Latex"}, "documents": {"type": "Letter", "text": ""}}


def table_of(*rows: dict[str, str]) -> bytes:
    """Return a table with the columns of its rows, semicolons between the quoted cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    return "".join(";".join(line) + "\r\n" for line in quoted).encode()


def rows_in(table: bytes, kind: str = "allergies", folder: Path | None = None) -> list[TableRow]:
    """Return all rows of a table, the header first."""
    rows = list(rows_of(io.BytesIO(table), kind, FolderFiles(folder) if folder else None))
    assert all((row.resources is None) == bool(row.faults) for row in rows)
    return rows


def row_of(kind: str = "allergies", folder: Path | None = None, **cells: str) -> TableRow:
    """Return the only row of a table, which has what is required where the cells leave it out."""
    patient = {} if any(name.startswith("patient_") for name in cells) else {"patient_id": "p1"}
    header, row = rows_in(table_of({**patient, **REQUIRED[kind], **cells}), kind, folder)
    assert header.faults == []
    return row


def resource_of(row: TableRow) -> dict[str, Any]:
    """Return the allergy or document of a row without faults."""
    assert row.faults == []
    assert row.resources is not None
    return row.resources[-1]


def faulty_columns(row: TableRow) -> list[str]:
    """Return the columns that a row is rejected for."""
    return [column for column, _ in row.faults]
