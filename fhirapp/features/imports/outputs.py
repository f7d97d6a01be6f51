"""Output files of an import, `--report` and `--rejected`: none may overwrite an input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fhirapp.features.imports.inputs import STANDARD_INPUT, path_text
from fhirapp.features.imports.tables import KINDS


def rejected_files(path: Path) -> list[Path]:
    """Return the files that rejected records may be written to: lines, and rows of tables."""
    return [path, *(rejected_rows(path, kind) for kind in KINDS)]


def rejected_rows(path: Path, kind: str) -> Path:
    """Return the file for rejected rows of a kind of table, beside that of rejected records."""
    return path.with_suffix(f".{kind}.csv")


def conflict(output: Path, inputs: Sequence[Path]) -> str:
    """Return why a file must not be written, "" if no input is overwritten.

    Files are compared by identity, not by name: links and spellings may lead to the same file.
    """
    place, file = output.resolve(), _file_at(output)
    for path in inputs:
        if path.is_dir() and place.is_relative_to(path.resolve()):
            return (
                f"{path_text(output)} lies in {path_text(path)}, which is read; "
                "name a file elsewhere"
            )
        is_same = path != STANDARD_INPUT and place == path.resolve()
        if is_same or (file is not None and file in _files_of(path)):
            return f"{path_text(output)} is one of the files that are read; name another file"
    return ""


def _files_of(path: Path) -> Iterator[tuple[int, int]]:
    """Yield device and number of the files that an input stands for."""
    if path == STANDARD_INPUT:
        # As in `fhirapp import - < records.ndjson`.
        state = os.fstat(sys.stdin.fileno())
        yield state.st_dev, state.st_ino
        return
    for file in path.rglob("*") if path.is_dir() else [path]:
        if found := _file_at(file):
            yield found


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return device and number of a file, None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if stat.S_ISREG(state.st_mode) else None
