"""The files of an export, where all servers reach them (fhirapp/files.py).

    exports/<export>/request.json              the checked request
    exports/<export>/<attempt>/manifest.json   what a finished attempt wrote
    exports/<export>/<attempt>/Patient.1.ndjson

Each attempt has a folder of its own, so that an abandoned attempt that is still running cannot
damage the next one. It writes a file on this machine and then puts it there, the manifest last.
File names come from manifests; no part of an HTTP request becomes a path.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from fhirapp.config import settings
from fhirapp.disk import temporary_folder
from fhirapp.features.exports.kickoff import ExportRequest
from fhirapp.files import Files, orphans, shared_files
from fhirapp.rest.stream import StoredContent

_log = logging.getLogger(__name__)

# In bytes: longer content is split into several files.
LONGEST_FILE = 256 * 1024 * 1024
# In bytes: the disk space that an export leaves free, for the database too.
RESERVE = 256 * 1024 * 1024
# In seconds beyond the time that files are kept: the age at which a folder without a row goes.
_ORPHAN_SECONDS = 86_400
_BUFFER = 256 * 1024
_EXPORTS, _REQUEST, _MANIFEST = "exports", "request.json", "manifest.json"

OUTPUT, DELETED, ERROR = "output", "deleted", "error"


class DiskFull(Exception):
    """The disk has no room for the export."""


class ManifestFile(NamedTuple):
    """A file of an export; kind is OUTPUT, DELETED or ERROR, type is the type of its resources."""

    kind: str
    type: str
    name: str
    resources: int


class BulkManifest(NamedTuple):
    """What an attempt wrote. Both times are instants: of the data, and of the attempt's end."""

    transaction_time: str
    ended: str
    files: tuple[ManifestFile, ...]

    def find(self, name: str) -> ManifestFile | None:
        """Return the file of a name, None if there is none."""
        return next((entry for entry in self.files if entry.name == name), None)


def folder_of(export_id: str) -> str:
    """Return the folder of an export."""
    return f"{_EXPORTS}/{export_id}"


def write_request(export_id: str, export_request: ExportRequest) -> None:
    """Keep the request of an export. Raises OSError."""
    name = f"{folder_of(export_id)}/{_REQUEST}"
    shared_files(settings()).put(name, export_request.dumps())


def read_request(export_id: str) -> ExportRequest:
    """Return the request of an export. Raises OSError if it is missing."""
    content = shared_files(settings()).read(f"{folder_of(export_id)}/{_REQUEST}")
    return ExportRequest.loads(content)


def read_manifest(export_id: str, attempt: int) -> BulkManifest:
    """Return the manifest of an attempt. Raises OSError if it is missing."""
    content = json.loads(shared_files(settings()).read(_name(export_id, attempt, _MANIFEST)))
    listed = tuple(ManifestFile(*columns) for columns in content["files"])
    return BulkManifest(content["transaction_time"], content["ended"], listed)


def _name(export_id: str, attempt: int, name: str) -> str:
    return f"{folder_of(export_id)}/{attempt}/{name}"


def stored(export_id: str, attempt: int, file: ManifestFile) -> StoredContent:
    """Return a file of a manifest. Raises OSError if it is missing."""
    return StoredContent.of(shared_files(settings()), _name(export_id, attempt, file.name))


def remove(export_id: str) -> None:
    """Remove an export's files, if there are any; what stays has no row, and goes later."""
    _remove(folder_of(export_id))


def remove_attempt(export_id: str, attempt: int) -> None:
    """Remove what an attempt wrote."""
    _remove(f"{folder_of(export_id)}/{attempt}")


def _remove(folder: str) -> None:
    try:
        shared_files(settings()).delete_folder(folder)
    except OSError as error:
        _log.warning("an export's files stay for now: %s", error.strerror)


def remove_orphans(known: set[str]) -> None:
    """Remove old folders of no known export."""
    before = time.time() - settings().export_hours * 3_600 - _ORPHAN_SECONDS
    for folder in orphans(shared_files(settings()), _EXPORTS, known, before):
        _remove(folder)


@contextmanager
def attempt_at(export_id: str, attempt: int) -> Iterator[ExportAttempt]:
    """Yield where an attempt writes; earlier attempts' files are removed. Raises OSError."""
    store = shared_files(settings())
    own = _name(export_id, attempt, "")
    request = f"{folder_of(export_id)}/{_REQUEST}"
    store.delete(
        [
            file.name
            for file in store.list(folder_of(export_id))
            if file.name != request and not file.name.startswith(own)
        ]
    )
    with temporary_folder(settings().instance) as folder:
        yield ExportAttempt(store, own, folder)


class ExportAttempt:
    """The files that one attempt writes, one after the other for each kind and type."""

    def __init__(self, store: Files, prefix: str, folder: Path) -> None:
        self._store = store
        self._prefix = prefix
        self._folder = folder
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
                path = Path(file.name)
                _end(file)
                file = None
                self._store.put(self._prefix + path.name, path)
                self._files.append(ManifestFile(kind, type_name, path.name, count))

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
        """Put the manifest; the files that it lists are there by then."""
        content = {
            "transaction_time": transaction_time,
            "ended": ended,
            "files": sorted(self._files),
        }
        self._store.put(self._prefix + _MANIFEST, json.dumps(content).encode())


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
