"""An export's files: a folder of its own in the instance folder, readable by this user alone.

    exports/<export>/request.json              what was asked for
    exports/<export>/<attempt>/manifest.json   what an attempt wrote, once it has ended
    exports/<export>/<attempt>/Patient.1.ndjson

An attempt writes into a folder of its own, so that one that was given up, but lives, spoils
nothing. Names come from manifests: of what a request names, nothing becomes a path.
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
from fhirapp.exchange.bulk.export_request import Wanted
from fhirapp.rest.stream import Span

# In bytes: a file that is longer is followed by another.
LONGEST_FILE = 256 * 1024 * 1024
# In bytes: what an export leaves free of the disk, on which the database writes too.
RESERVE = 256 * 1024 * 1024
# In seconds: how much longer than its files are kept an export may last before a folder without a
# row is nobody's. It may be of another database that shares the instance folder: the demo's.
_LONGEST = 86_400
_BUFFER = 256 * 1024
_REQUEST, _MANIFEST = "request.json", "manifest.json"

OUTPUT, DELETED, ERROR = "output", "deleted", "error"


class DiskFull(Exception):
    """There is no room for the export."""


class Written(NamedTuple):
    """A file that an export wrote: kind is OUTPUT, DELETED or ERROR, type that of its resources."""

    kind: str
    type: str
    name: str
    resources: int


class Manifest(NamedTuple):
    """What an attempt wrote: as of which instant, when it ended (an instant too), which files."""

    transaction_time: str
    ended: str
    files: tuple[Written, ...]

    def find(self, name: str) -> Written | None:
        """Return the file of a name, None where there is none."""
        return next((one for one in self.files if one.name == name), None)


def exports() -> Path:
    """Return the folder of all exports."""
    return settings().instance / "exports"


def folder_of(export_id: str) -> Path:
    """Return the folder of an export, by the id that its row has."""
    return exports() / export_id


def write_request(export_id: str, wanted: Wanted) -> None:
    """Make an export's folder, with what was asked for."""
    folder = folder_of(export_id)
    exports().mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    with _open(folder / _REQUEST) as file:
        file.write(wanted.dumps())


def read_request(export_id: str) -> Wanted:
    """Return what was asked for. Raises OSError where the folder is not here."""
    return Wanted.loads((folder_of(export_id) / _REQUEST).read_bytes())


def read_manifest(export_id: str, attempt: int) -> Manifest:
    """Return what an attempt wrote. Raises OSError where it is not here."""
    content = json.loads((folder_of(export_id) / str(attempt) / _MANIFEST).read_bytes())
    files = tuple(Written(*one) for one in content["files"])
    return Manifest(content["transaction_time"], content["ended"], files)


def remove(export_id: str) -> None:
    """Remove an export's folder, as far as it is there."""
    shutil.rmtree(folder_of(export_id), ignore_errors=True)


def remove_attempt(export_id: str, attempt: int) -> None:
    """Remove what an attempt wrote."""
    shutil.rmtree(folder_of(export_id) / str(attempt), ignore_errors=True)


def orphans(known: set[str]) -> list[str]:
    """Return the names of old folders that belong to none of the known exports."""
    before = time.time() - settings().export_hours * 3_600 - _LONGEST
    return [
        one.name
        for one in (exports().iterdir() if exports().is_dir() else ())
        if one.name not in known and one.stat().st_mtime < before
    ]


class Attempt:
    """The files of one attempt while it writes them, one after the other for each kind and type."""

    def __init__(self, export_id: str, attempt: int) -> None:
        whole = folder_of(export_id)
        for one in whole.iterdir():
            if one.is_dir() and one.name != str(attempt):
                shutil.rmtree(one, ignore_errors=True)
        self._folder = whole / str(attempt)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._files: list[Written] = []

    @contextmanager
    def lines(self, kind: str, type_name: str) -> Iterator[Callable[[bytes], None]]:
        """Return what writes one line after the other. Raises DiskFull, OSError.

        A file is there only if a line is.
        """
        file: IO[bytes] | None = None
        size = count = 0
        stem = type_name if kind == OUTPUT else kind

        def end() -> None:
            nonlocal file
            if file is not None:
                self._files.append(Written(kind, type_name, Path(file.name).name, count))
                _end(file)
                file = None

        def write(line: bytes) -> None:
            nonlocal file, size, count
            if file is not None and size + len(line) >= LONGEST_FILE:
                end()
            if file is None:
                self._check_room()
                number = 1 + sum(one.name.startswith(f"{stem}.") for one in self._files)
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
        """Write the manifest; what stands in it is on the disk."""
        files = sorted(self._files)
        content = {"transaction_time": transaction_time, "ended": ended, "files": files}
        with _open(self._folder / _MANIFEST) as file:
            file.write(json.dumps(content).encode())
            file.flush()
            os.fsync(file.fileno())

    def check(self) -> None:
        """Raises DiskFull where little room is left."""
        self._check_room()

    def _check_room(self) -> None:
        if shutil.disk_usage(self._folder).free < RESERVE:
            raise DiskFull


class StoredFile(NamedTuple):
    """A file as rest/stream.py sends it, a piece at a time."""

    path: Path
    length: int

    @classmethod
    def of(cls, export_id: str, attempt: int, written: Written) -> StoredFile:
        """Return a file of a manifest. Raises OSError where it is not here."""
        path = folder_of(export_id) / str(attempt) / written.name
        return cls(path, path.stat().st_size)

    def piece(self, snapshot: Reader, span: Span) -> bytes:  # noqa: ARG002
        """Return the bytes of a span. Raises LookupError where the export was forgotten."""
        try:
            with self.path.open("rb") as file:
                file.seek(span.start)
                return file.read(span.stop - span.start)
        except FileNotFoundError:
            raise LookupError(f"{self.path.name} was removed while it was sent") from None


def _open(path: Path) -> IO[bytes]:
    """Open a new file that this user alone may read."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, "wb", buffering=_BUFFER, opener=opener)


def _end(file: IO[bytes]) -> None:
    """Close a file whose content is to outlive a power failure."""
    try:
        file.flush()
        os.fsync(file.fileno())
        file.close()
    except OSError:
        _abandon(file)
        raise


def _abandon(file: IO[bytes]) -> None:
    """Close a file whose last lines may have no room."""
    try:
        file.close()
    except OSError:
        file.close()
