"""The folder of an export: complete, or as it was before.

A file is written under a temporary name, `.Patient.ndjson.part`; when all are written they get
their names. manifest.json comes last: where it is, every file that it names is complete.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from fhirapp.config import ConfigurationError
from fhirapp.disk import sync_folder
from fhirapp.fhir import json as fhir_json

MANIFEST = "manifest.json"
_BUFFER = 1_048_576
# Allergies shrink to a tenth, as with level 9, which takes twice as long.
_LEVEL = 5


class _Hashed(FileIO):
    """A new file that only its owner can read, and the hash of what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, content: Any, /) -> int:
        count: int = super().write(content)
        self.sha256.update(memoryview(content)[:count])
        self.size += count
        return count


class File:
    """A file that is being written, compressed or not."""

    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._raw = _Hashed(path)
        self._buffered = BufferedWriter(self._raw, _BUFFER)
        # Without time and name: identical content gives identical files.
        self._file = (
            gzip.GzipFile("", "wb", _LEVEL, self._buffered, mtime=0)
            if compressed
            else self._buffered
        )
        self.write = self._file.write
        self.lines = 0

    @property
    def sha256(self) -> str:
        return self._raw.sha256.hexdigest()

    @property
    def size(self) -> int:
        return self._raw.size

    def write_line(self, pieces: Iterable[bytes]) -> None:
        """Write a line, which comes in pieces."""
        for piece in pieces:
            self.write(piece)
        self.write(b"\n")
        self.lines += 1

    def finish(self) -> None:
        """Write what is still in memory, and sync it to the disk."""
        if self._file is not self._buffered:
            self._file.close()
        self._buffered.flush()
        os.fsync(self._raw.fileno())
        self._buffered.close()

    def abandon(self) -> None:
        """Close it, whatever is lost."""
        for file in (self._file, self._buffered):
            with suppress(OSError, ValueError):
                file.close()


class ExportFolder(AbstractContextManager["ExportFolder"]):
    """The files of one export; after an error, none of them stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_new = False
        self._files: dict[str, File] = {}
        self._made: list[Path] = []

    def __enter__(self) -> ExportFolder:
        """Create the folder, or check that it is empty. Raises ConfigurationError."""
        try:
            if self._path.exists() or self._path.is_symlink():
                if not self._path.is_dir():
                    raise ConfigurationError(f"{self._path} is not a folder; an export needs one.")
                if any(self._path.iterdir()):
                    raise ConfigurationError(
                        f"The folder {self._path} is not empty; an export needs a new or an empty "
                        "one."
                    )
            else:
                self._path.mkdir(mode=0o700, parents=True)
                self._is_new = True
        except OSError as error:
            raise self._refused(error) from None
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        for file in self._files.values():
            file.abandon()
        for path in self._made:
            with suppress(OSError):
                path.unlink()
        if self._is_new:
            with suppress(OSError):
                self._path.rmdir()
        if isinstance(error, OSError):
            raise self._refused(error) from None

    def open(self, name: str, *, compressed: bool) -> File:
        """Begin a file of this name."""
        path = self._part(name)
        file = self._files[name] = File(path, compressed=compressed)
        self._made.append(path)
        return file

    def finish(self, manifest: Any) -> None:
        """Give the files their names, then write the manifest."""
        for name in self._files:
            self._rename(name)
        sync_folder(self._path)
        file = self.open(MANIFEST, compressed=False)
        file.write(fhir_json.dumps_indented(manifest) + b"\n")
        file.finish()
        self._rename(MANIFEST)
        sync_folder(self._path)

    def _rename(self, name: str) -> None:
        path = self._path / name
        self._part(name).rename(path)
        self._made.append(path)

    def _part(self, name: str) -> Path:
        return self._path / f".{name}.part"

    def _refused(self, error: OSError) -> ConfigurationError:
        reason = error.strerror or str(error)
        return ConfigurationError(
            f"The export cannot be written to {self._path} ({reason}); nothing of it was kept."
        )
