"""The files of an export: NDJSON, and the manifest that lists them.

`fhirapp export` writes them into a folder, which is complete or as it was before. `$export` puts
them where all servers reach them (fhirapp/files.py):

    exports/<export>/request.json              the checked request
    exports/<export>/<attempt>/manifest.json   what a finished attempt wrote
    exports/<export>/<attempt>/Patient.1.ndjson

Each attempt has a folder of its own, so that an abandoned attempt that is still running cannot
damage the next one. It writes a file on this machine and then puts it there, the manifest last.
File names come from manifests; no part of an HTTP request becomes a path.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.config import ConfigurationError, settings
from fhirapp.disk import open_private, sync_folder, temporary_folder
from fhirapp.features.exports.kickoff import ExportRequest
from fhirapp.fhir import json as fhir_json
from fhirapp.files import Files, orphans, shared_files
from fhirapp.rest.stream import StoredContent

_log = logging.getLogger(__name__)

OUTPUT, DELETED, ERROR = "output", "deleted", "error"
MANIFEST, _REQUEST, _EXPORTS = "manifest.json", "request.json", "exports"
# In bytes: longer content of a bulk export is split into several files.
LONGEST_FILE = 256 * 1024 * 1024
# In bytes: the disk space that a bulk export leaves free, for the database too.
RESERVE = 256 * 1024 * 1024
# In seconds beyond the time that files are kept: the age at which a folder without a row goes.
_ORPHAN_SECONDS = 86_400
_BUFFER = 1_048_576
# Allergies shrink to a tenth, as with level 9, which takes twice as long.
_LEVEL = 5


class ManifestFile(NamedTuple):
    """A file: its kind, the type of its lines, its name, and how many lines it has.

    kind is OUTPUT, DELETED or ERROR. `fhirapp export` also tells how many versions it holds, its
    size in bytes and its hash.
    """

    kind: str
    type_name: str
    url: str
    lines: int
    versions: int = 0
    size: int = 0
    sha256: str = ""


class ExportManifest(NamedTuple):
    """The files of an export, and the instant of its data."""

    transaction_time: str
    files: Sequence[ManifestFile]

    def content(self, request: str, prefix: str = "", *, needs_token: bool = False) -> Any:
        """Return the manifest of Bulk Data; the prefix makes the URLs of files absolute."""
        entries: dict[str, list[dict[str, Any]]] = {OUTPUT: [], DELETED: [], ERROR: []}
        for file in self.files:
            digest = {"sha256": file.sha256} if file.sha256 else {}
            entry = {"type": file.type_name, "url": prefix + file.url, "count": file.lines}
            entries[file.kind].append(entry | digest)
        return {
            "transactionTime": self.transaction_time,
            "request": request,
            "requiresAccessToken": needs_token,
            **entries,
        }


def deletions_bundle(names: Iterable[str]) -> bytes:
    """Return the Bundle that repeats deletions elsewhere; names are Type/id."""
    entries = [{"request": {"method": "DELETE", "url": name}} for name in names]
    return fhir_json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})


class _HashedFile(FileIO):
    """A new private file, and the hash of what was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "xb", opener=open_private)
        self.sha256 = hashlib.sha256()

    def write(self, content: Any, /) -> int:
        count: int = super().write(content)
        self.sha256.update(memoryview(content)[:count])
        return count


class NdjsonFile:
    """A new file that only its owner can read, compressed or not."""

    def __init__(self, path: Path, *, compressed: bool = False, hashed: bool = False) -> None:
        self.path = path
        self.lines = 0
        self._raw = _HashedFile(path) if hashed else FileIO(path, "xb", opener=open_private)
        self._buffered = BufferedWriter(self._raw, _BUFFER)
        # Without time and name: identical content gives identical files.
        self._file = (
            gzip.GzipFile("", "wb", _LEVEL, self._buffered, mtime=0)
            if compressed
            else self._buffered
        )

    @property
    def sha256(self) -> str:
        return self._raw.sha256.hexdigest() if isinstance(self._raw, _HashedFile) else ""

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write a line, which comes in pieces."""
        write = self._file.write
        for piece in pieces:
            write(piece)
        write(b"\n")
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


class ExportFolder:
    """The folder of an export: each file has a temporary name until all of them are written."""

    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._path = path
        self._compressed = compressed
        self._files: dict[str, NdjsonFile] = {}

    def write(
        self, kind: str, name: str, type_name: str, versions: int, lines: Iterable[Iterable[bytes]]
    ) -> ManifestFile:
        """Write a file with these lines, each of which comes in pieces."""
        url = f"{name}.ndjson{'.gz' if self._compressed else ''}"
        file = self._begin(url, compressed=self._compressed)
        for line in lines:
            file.write(line)
        file.finish()
        size = file.path.stat().st_size
        return ManifestFile(kind, type_name, url, file.lines, versions, size, file.sha256)

    def finish(self, manifest: Any) -> None:
        """Give the files their names, then write the manifest: it names complete files only."""
        for name in self._files:
            self._rename(name)
        sync_folder(self._path)
        file = self._begin(MANIFEST)
        file.write([fhir_json.dumps_indented(manifest)])
        file.finish()
        self._rename(MANIFEST)
        sync_folder(self._path)

    def discard(self) -> None:
        """Remove all files."""
        for name, file in self._files.items():
            file.abandon()
            for path in (file.path, self._path / name):
                with suppress(OSError):
                    path.unlink()

    def _begin(self, name: str, *, compressed: bool = False) -> NdjsonFile:
        path = self._path / f".{name}.part"
        file = self._files[name] = NdjsonFile(path, compressed=compressed, hashed=True)
        return file

    def _rename(self, name: str) -> None:
        self._files[name].path.rename(self._path / name)


@contextmanager
def export_folder(path: Path, *, compressed: bool) -> Iterator[ExportFolder]:
    """Yield a new or empty folder, which is as it was before after an error.

    Raises ConfigurationError.
    """
    folder, is_new = ExportFolder(path, compressed=compressed), False
    try:
        is_new = _make_folder(path)
        yield folder
    except BaseException as error:
        folder.discard()
        if is_new:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise ConfigurationError(
                f"The export cannot be written to {path} ({reason}); nothing of it was kept."
            ) from None
        raise


def _make_folder(path: Path) -> bool:
    """Return whether a folder was made; one that is there must be empty.

    Raises ConfigurationError, OSError.
    """
    if not (path.exists() or path.is_symlink()):
        path.mkdir(mode=0o700, parents=True)
        return True
    if not path.is_dir():
        raise ConfigurationError(f"{path} is not a folder; an export needs one.")
    if any(path.iterdir()):
        raise ConfigurationError(
            f"The folder {path} is not empty; an export needs a new or an empty one."
        )
    return False


def _name(*parts: str | int) -> str:
    """Return the name of a stored file or folder of a bulk export."""
    return "/".join(map(str, (_EXPORTS, *parts)))


def write_request(export_id: str, export_request: ExportRequest) -> None:
    """Keep the request of a bulk export. Raises OSError."""
    shared_files(settings()).put(_name(export_id, _REQUEST), export_request.dumps())


def read_request(export_id: str) -> ExportRequest:
    """Return the request of a bulk export. Raises OSError if it is missing."""
    return ExportRequest.loads(shared_files(settings()).read(_name(export_id, _REQUEST)))


def read_manifest(export_id: str, attempt: int) -> tuple[ExportManifest, str]:
    """Return what an attempt wrote, and the instant of its end. Raises OSError if it is missing."""
    content = json.loads(shared_files(settings()).read(_name(export_id, attempt, MANIFEST)))
    files = [ManifestFile(*columns) for columns in content["files"]]
    return ExportManifest(content["transaction_time"], files), content["ended"]


def stored(export_id: str, attempt: int, name: str) -> StoredContent:
    """Return a file of a manifest. Raises OSError if it is missing."""
    return StoredContent.of(shared_files(settings()), _name(export_id, attempt, name))


def remove(export_id: str, *attempt: int) -> None:
    """Remove the files of a bulk export, or of one attempt; those that stay go later."""
    try:
        shared_files(settings()).delete_folder(_name(export_id, *attempt))
    except OSError as error:
        _log.warning("an export's files stay for now: %s", error.strerror)


def remove_orphans(known: set[str]) -> None:
    """Remove old folders of no known bulk export."""
    before = time.time() - settings().export_hours * 3_600 - _ORPHAN_SECONDS
    for folder in orphans(shared_files(settings()), _EXPORTS, known, before):
        remove(folder.removeprefix(f"{_EXPORTS}/"))


class ExportAttempt:
    """The files that an attempt at a bulk export writes."""

    def __init__(self, store: Files, prefix: str, folder: Path) -> None:
        self._store = store
        self._prefix = prefix
        self._folder = folder
        self._files: list[ManifestFile] = []

    def write(self, kind: str, type_name: str, lines: Iterable[bytes]) -> None:
        """Write lines to as many files as they need, to none if there are none.

        Raises OSError, also before the disk is full.
        """
        stem = type_name if kind == OUTPUT else kind
        number = size = 0
        file: NdjsonFile | None = None
        try:
            for line in lines:
                if file is not None and size + len(line) >= LONGEST_FILE:
                    self._put(kind, type_name, file)
                    file = None
                if file is None:
                    if shutil.disk_usage(self._folder).free < RESERVE:
                        raise OSError(errno.ENOSPC, "the rest is for the database")
                    number, size = number + 1, 0
                    file = NdjsonFile(self._folder / f"{stem}.{number}.ndjson")
                file.write((line,))
                size += len(line) + 1
            if file is not None:
                self._put(kind, type_name, file)
        finally:
            if file is not None:
                file.abandon()

    def _put(self, kind: str, type_name: str, file: NdjsonFile) -> None:
        file.finish()
        self._store.put(self._prefix + file.path.name, file.path)
        self._files.append(ManifestFile(kind, type_name, file.path.name, file.lines))

    def end(self, transaction_time: str, ended: str) -> None:
        """Put the manifest; the files that it lists are there by then."""
        # Without what `fhirapp export` alone tells.
        listed = sorted(file[:4] for file in self._files)
        content = {"transaction_time": transaction_time, "ended": ended, "files": listed}
        self._store.put(self._prefix + MANIFEST, json.dumps(content).encode())


@contextmanager
def attempt_at(export_id: str, attempt: int) -> Iterator[ExportAttempt]:
    """Yield where an attempt writes. Raises OSError.

    The files of earlier attempts are removed, and after an error its own.
    """
    store = shared_files(settings())
    request, own = _name(export_id, _REQUEST), _name(export_id, attempt, "")
    earlier = [
        file.name
        for file in store.list(_name(export_id))
        if file.name != request and not file.name.startswith(own)
    ]
    store.delete(earlier)
    with temporary_folder(settings().instance) as folder:
        try:
            yield ExportAttempt(store, own, folder)
        except BaseException:
            remove(export_id, attempt)
            raise
