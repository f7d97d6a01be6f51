"""Output files of an import, `--report` and `--rejected`: none may overwrite an input.

The files of rejected records can be corrected and imported again.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.features.imports.inputs import STANDARD_INPUT, path_text
from fhirapp.features.imports.records import Rejection
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


class Rejects(AbstractContextManager["Rejects"]):
    """The files of rejected records: NDJSON, and for rows of tables a CSV file beside it.

    Each is created with its first record, and complete once the context has ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._last_row = ""
        self._files: dict[Path, FileIO] = {}
        self._replacing: dict[Path, Path] = {}

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            for written, path in self._replacing.items():
                written.replace(path)

    def add(self, rejection: Rejection) -> None:
        """Write a record as a JSON line, or a row below its heading. Raises ConfigurationError."""
        try:
            if not rejection.table_kind:
                if rejection.line:
                    self._file(self.path).write(rejection.line + b"\n")
            elif rejection.place != self._last_row:
                # The other resources of the same row are not written again.
                self._last_row = rejection.place
                path = rejected_rows(self.path, rejection.table_kind)
                self._file(path, rejection.heading).write(rejection.line.rstrip(b"\r\n") + b"\n")
        except OSError as error:
            raise ConfigurationError(
                f"Rejected records cannot be kept in {self.path} ({error.strerror}); what was "
                "imported stays. Make room, or name another file with --rejected, and import again."
            ) from None

    def _file(self, path: Path, heading: bytes = b"") -> FileIO:
        file = self._files.get(path)
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # An existing file is replaced at the end: an import that is interrupted leaves it.
            written = path.with_name(f"{path.name}.part") if path.is_file() else path
            if written != path:
                self._replacing[written] = path
            # Unbuffered: a full disk is known at once.
            file = self._files[path] = written.open("wb", buffering=0)
            self.paths.append(path)
            if heading:
                file.write(heading.rstrip(b"\r\n") + b"\n")
        return file


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
