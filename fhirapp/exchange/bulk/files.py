"""The files of an export, in a folder that only the server's user can read.

    exports/<export>/request.json              the checked request
    exports/<export>/<attempt>/manifest.json   what a finished attempt wrote
    exports/<export>/<attempt>/Patient.1.ndjson

Each attempt has a folder of its own, so that an abandoned attempt that is still running cannot
damage the next one. File names come from manifests; no part of an HTTP request becomes a path.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from fhirapp.config import settings
from fhirapp.db import Reader
from fhirapp.exchange.bulk.export_request import ExportRequest
from fhirapp.rest.stream import Span

# In bytes: longer content is split into several files.
LONGEST_FILE = 256 * 1024 * 1024
# In bytes: the disk space that an export leaves free, for the database too.
RESERVE = 256 * 1024 * 1024
# In seconds beyond the time that files are kept: the age at which a folder without a row goes.
# A younger one may belong to another database that shares the instance folder: the demo's.
_ORPHAN_SECONDS = 86_400
_BUFFER = 256 * 1024
_REQUEST, _MANIFEST = "request.json", "manifest.json"

OUTPUT, DELETED, ERROR = "output", "deleted", "error"


class DiskFull(Exception):
    """The disk has no room for the export."""


class ManifestFile(NamedTuple):
    """A file of an export; kind is OUTPUT, DELETED or ERROR, type is the type of its resources."""

    kind: str
    type: str
    name: str
    resources: int


class Manifest(NamedTuple):
    """What an attempt wrote. Both times are instants: of the data, and of the attempt's end."""

    transaction_time: str
    ended: str
    files: tuple[ManifestFile, ...]

    def find(self, name: str) -> ManifestFile | None:
        """Return the file of a name, None if there is none."""
        return next((entry for entry in self.files if entry.name == name), None)


def exports() -> Path:
    """Return the folder of all exports."""
    return settings().instance / "exports"


def folder_of(export_id: str) -> Path:
    """Return the folder of an export."""
    return exports() / export_id


def write_request(export_id: str, export_request: ExportRequest) -> None:
    """Make an export's folder and store the request in it."""
    folder = folder_of(export_id)
    exports().mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    with _open(folder / _REQUEST) as file:
        file.write(export_request.dumps())


def read_request(export_id: str) -> ExportRequest:
    """Return the request of an export. Raises OSError if the folder is missing."""
    return ExportRequest.loads((folder_of(export_id) / _REQUEST).read_bytes())


def read_manifest(export_id: str, attempt: int) -> Manifest:
    """Return the manifest of an attempt. Raises OSError if it is missing."""
    content = json.loads((folder_of(export_id) / str(attempt) / _MANIFEST).read_bytes())
    files = tuple(ManifestFile(*columns) for columns in content["files"])
    return Manifest(content["transaction_time"], content["ended"], files)


def remove(export_id: str) -> None:
    """Remove an export's folder, if it exists."""
    shutil.rmtree(folder_of(export_id), ignore_errors=True)


def remove_attempt(export_id: str, attempt: int) -> None:
    """Remove what an attempt wrote."""
    shutil.rmtree(folder_of(export_id) / str(attempt), ignore_errors=True)


def orphans(known: set[str]) -> list[str]:
    """Return the names of old folders of no known export."""
    before = time.time() - settings().export_hours * 3_600 - _ORPHAN_SECONDS
    return [
        folder.name
        for folder in (exports().iterdir() if exports().is_dir() else ())
        if folder.name not in known and folder.stat().st_mtime < before
    ]


class Attempt:
    """The files that one attempt writes, one after the other for each kind and type."""

    def __init__(self, export_id: str, attempt: int) -> None:
        export_folder = folder_of(export_id)
        for entry in export_folder.iterdir():
            if entry.is_dir() and entry.name != str(attempt):
                shutil.rmtree(entry, ignore_errors=True)
        self._folder = export_folder / str(attempt)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._files: list[ManifestFile] = []

    @contextmanager
    def lines(self, kind: str, type_name: str) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that writes a line. Raises DiskFull, OSError.

        A file is created with its first line only.
        """
        file: IO[bytes] | None = None
        size = count = 0
        stem = type_name if kind == OUTPUT else kind

        def end() -> None:
            nonlocal file
            if file is not None:
                self._files.append(ManifestFile(kind, type_name, Path(file.name).name, count))
                _end(file)
                file = None

        def write(line: bytes) -> None:
            nonlocal file, size, count
            if file is not None and size + len(line) >= LONGEST_FILE:
                end()
            if file is None:
                if shutil.disk_usage(self._folder).free < RESERVE:
                    raise DiskFull
                number = 1 + sum(other.name.startswith(f"{stem}.") for other in self._files)
                file = _open(self._folder / f"{stem}.{number}.ndjson")
                size = count = 0
            file.write(line)
            file.write(b"\n")
            size += len(line) + 1
            count += 1

        try:
            yield write
            end()
        finally:
            if file is not None:
                _abandon(file)

    def end(self, transaction_time: str, ended: str) -> None:
        """Write the manifest; the files that it lists are on the disk by then."""
        files = sorted(self._files)
        content = {"transaction_time": transaction_time, "ended": ended, "files": files}
        with _open(self._folder / _MANIFEST) as file:
            file.write(json.dumps(content).encode())
            file.flush()
            os.fsync(file.fileno())


class StoredFile(NamedTuple):
    """A file in the form that rest/stream.py sends."""

    path: Path
    length: int

    @classmethod
    def of(cls, export_id: str, attempt: int, file: ManifestFile) -> StoredFile:
        """Return a file of a manifest. Raises OSError if it is missing."""
        path = folder_of(export_id) / str(attempt) / file.name
        return cls(path, path.stat().st_size)

    def piece(self, snapshot: Reader, span: Span) -> bytes:  # noqa: ARG002
        """Return the bytes of a span. Raises LookupError if the export was removed meanwhile."""
        try:
            with self.path.open("rb") as file:
                file.seek(span.start)
                return file.read(span.stop - span.start)
        except FileNotFoundError:
            raise LookupError(f"{self.path.name} was removed while it was sent") from None


def _open(path: Path) -> IO[bytes]:
    """Open a new file that only this user can read."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, "wb", buffering=_BUFFER, opener=opener)


def _end(file: IO[bytes]) -> None:
    """Close a file so that its content survives a power failure."""
    try:
        file.flush()
        os.fsync(file.fileno())
        file.close()
    except OSError:
        _abandon(file)
        raise


def _abandon(file: IO[bytes]) -> None:
    """Close a file whose last lines may not fit on the disk."""
    try:
        file.close()
    except OSError:
        file.close()
