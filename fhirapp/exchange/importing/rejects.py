"""The file of what was refused: to be mended, and imported again."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.exchange.importing.units import Unit


class Rejects:
    """Writes refused resources to a file, made with the first; rows of tables to one beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._last_row = ""
        self._files: dict[Path, FileIO] = {}
        self._replacing: dict[Path, Path] = {}

    def add(self, unit: Unit) -> None:
        """Keep a resource as one line of JSON, a row of a table below its headings.

        Raises ConfigurationError where that cannot be written.
        """
        try:
            self._add(unit)
        except OSError as error:
            raise ConfigurationError(
                f"What was refused cannot be kept in {self.path} ({error.strerror}); what was "
                "imported stays. Make room, or name another file with --rejected, and import again."
            ) from None

    def _add(self, unit: Unit) -> None:
        if unit.row_of:
            if unit.place == self._last_row:
                # It stood for several resources.
                return
            self._last_row = unit.place
            path = self.path.with_suffix(f".{unit.row_of}.csv")
            self._file(path, unit.heading).write(unit.text.rstrip(b"\r\n") + b"\n")
        elif content := unit.refused():
            self._file(self.path).write(content + b"\n")

    def _file(self, path: Path, heading: bytes = b"") -> FileIO:
        file = self._files.get(path)
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A file that is there may be what is read now: it is replaced at the end.
            written = path.with_name(f"{path.name}.part") if path.is_file() else path
            if written != path:
                self._replacing[written] = path
            # Unbuffered: what cannot be written is known at once.
            file = self._files[path] = written.open("wb", buffering=0)
            self.paths.append(path)
            if heading:
                file.write(heading.rstrip(b"\r\n") + b"\n")
        return file

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        for written, path in self._replacing.items():
            written.replace(path)
