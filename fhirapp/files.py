"""Files that all servers of one database share: in a folder, or in a bucket of an S3 store.

    exports/<export>/…                   of $export (features/exports/files.py)
    tasks/<job>/made/<name>              what jobs made that were begun on pages (jobs/process.py)
    imports/<run>.rejected.…             what imports of the command line rejected
    backups/<name>                       backups taken on a page (features/backups/rotation.py)

A file is there whole or not at all, and never changes. Nothing is locked and nothing is found out
by trying to create it: file systems of a network and S3 stores differ in that. Who may do what
is decided in the database, which all servers share too.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from secrets import token_hex
from tempfile import mkstemp
from typing import Any, NamedTuple, Protocol

from fhirapp.config import ConfigurationError, Settings
from fhirapp.disk import copy_owner, need_writable, reason_of, sync, sync_folder
from fhirapp.environment import load_settings

SCHEME = "s3://"
# Bytes that are read or sent at a time: each request is answered within its time.
PIECE = 8 * 1024 * 1024
# A large file is sent in so many pieces at most.
_MOST_PIECES = 9_000
# So many files are looked at for those that nobody needs, and how often where looking costs.
_MOST_LISTED, _ORPHAN_SECONDS = 50_000, 3_600.0
# Parts of files that a killed process left; no file takes so long to be written.
_PARTS, _PART_SECONDS = ".parts", 86_400.0
# Pages ask for what is there, and wait no longer for a store that hangs; a piece may take longer.
_QUICK_SECONDS, _REQUEST_SECONDS, _RETRY_SECONDS, _RETRIES = 5.0, 30.0, 10.0, 3
_QUICK_BYTES = 64 * 1024
# What a check in a process of its own ends with where it may go well later.
_PASSES = 3


class FilesUnavailable(OSError):
    """The place of the files is away or refuses; strerror says why, passes whether for now."""

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(errno.EIO, reason)
        self.passes = passes


class UnusableFiles(ConfigurationError):
    """Files cannot be kept where the settings say; passes says whether that may be for now."""

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


class StoredFile(NamedTuple):
    """A file: its name, its bytes, when it was put there in seconds since 1970."""

    name: str
    size: int
    modified: float

    @property
    def base(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]


class Files(Protocol):
    """Where files lie. All of it raises OSError; what is not there, FileNotFoundError."""

    # As the settings name it.
    place: str
    # Whether to list and to read costs as little as on a disk.
    is_folder: bool

    def put(self, name: str, content: bytes | Path) -> None:
        """Put a file in its place, over an older one; a file on this disk is moved there."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes [start, stop) of a file, or all."""

    def stat(self, name: str) -> StoredFile:
        """Return what is known of a file."""

    def list(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below a folder; none where there is no such folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, those that are not there too."""

    def delete_folder(self, folder: str) -> None:
        """Delete all that is below a folder."""


class Folder:
    """Files in a folder of this machine or of a network."""

    is_folder = True

    def __init__(self, root: Path) -> None:
        self.place = str(root)
        self._root = root

    def put(self, name: str, content: bytes | Path) -> None:
        with self._errors():
            self._put(self._root / name, content)

    def _put(self, target: Path, content: bytes | Path) -> None:
        self._make(target.parent)
        if isinstance(content, bytes) or content.stat().st_dev != target.parent.stat().st_dev:
            part = self._part(content)
        else:
            part = content
            sync(part)
        try:
            part.replace(target)
        except BaseException:
            if part != content:
                part.unlink(missing_ok=True)
            raise
        if isinstance(content, Path) and part != content:
            content.unlink()
        sync_folder(target.parent)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Tell a file that is not there, and a full disk, from a folder that cannot be used now."""
        try:
            yield
        except FileNotFoundError:
            if self._root.is_dir():
                raise
            raise FilesUnavailable(f"there is no folder {self._root}", passes=True) from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise FilesUnavailable(reason_of(error), passes=True) from None

    def _make(self, folder: Path) -> None:
        """Make a folder below the root; never that, which another disk may be mounted on."""
        if not folder.is_dir():
            if folder == self._root:
                raise FileNotFoundError
            self._make(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            copy_owner(folder, folder.parent)

    def _part(self, content: bytes | Path) -> Path:
        """Write what will be moved to its place, on the same file system."""
        parts = self._root / _PARTS
        self._make(parts)
        descriptor, name = mkstemp(dir=parts)
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, file, PIECE)
                file.flush()
                os.fsync(file.fileno())
            copy_owner(part, self._root)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return part

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        with self._errors(), (self._root / name).open("rb") as file:
            file.seek(start)
            return file.read(-1 if stop is None else stop - start)

    def stat(self, name: str) -> StoredFile:
        with self._errors():
            found = (self._root / name).stat()
        return StoredFile(name, found.st_size, found.st_mtime)

    def list(self, folder: str) -> Iterator[StoredFile]:
        with self._errors():
            self._root.stat()
        for parent, folders, names in os.walk(self._root / folder):
            # What is being written has a dot before its name.
            folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (Path(parent, name) for name in names if not name.startswith(".")):
                # It may be removed meanwhile; a link may lead anywhere.
                with suppress(FileNotFoundError):
                    if path.is_file() and not path.is_symlink():
                        yield self.stat(path.relative_to(self._root).as_posix())

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self._root / name
            path.unlink(missing_ok=True)
            with suppress(OSError):
                # Only where it is empty.
                path.parent.rmdir()

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self._root / folder, ignore_errors=True)

    def check(self) -> None:
        """Raise ConfigurationError where files cannot be kept."""
        if not self._root.is_dir():
            raise ConfigurationError(
                f"There is no folder {self._root}, which FHIRAPP_FILES names; mount it, or make it."
            )
        need_writable(self._root)
        before = time.time() - _PART_SECONDS
        for part in (self._root / _PARTS).glob("*"):
            with suppress(OSError):
                if part.stat().st_mtime < before:
                    part.unlink()


class Bucket:
    """Files in a bucket of an S3-compatible store, through obstore.

    Keys and address are in the variables of AWS's own tools: AWS_ACCESS_KEY_ID and so on. A
    process that used it must not fork: the threads that talk to the store stay behind.
    """

    is_folder = False

    def __init__(self, url: str) -> None:
        try:
            from obstore.store import S3Store
        except ImportError:
            raise ConfigurationError(
                "FHIRAPP_FILES=s3://… needs an extra package: pip install 'fhirapp[s3]'."
            ) from None
        self.place = url
        self._bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        if endpoint and not re.match("https?://[^/]", endpoint):
            # obstore panics at a request.
            raise UnusableFiles(
                f"FHIRAPP_FILES={url} cannot be used: AWS_ENDPOINT_URL is no address that begins "
                "with https:// or http://."
            )

        def store(seconds: float) -> Any:
            return S3Store(
                self._bucket,
                prefix=prefix.strip("/") or None,
                client_options={
                    # Only where its operator names such an address.
                    "allow_http": endpoint.startswith("http://"),
                    "timeout": timedelta(seconds=seconds),
                    "connect_timeout": timedelta(seconds=_QUICK_SECONDS),
                },
                retry_config={
                    "max_retries": _RETRIES,
                    "retry_timeout": timedelta(seconds=min(seconds, _RETRY_SECONDS)),
                },
            )

        with self._errors():
            self._store, self._quick = store(_REQUEST_SECONDS), store(_QUICK_SECONDS)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what obstore raises as FilesUnavailable: its own text may have a key's id in it."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise FilesUnavailable(f"there is no bucket {self._bucket}") from None
            raise FileNotFoundError(errno.ENOENT, "no such file in the store") from None
        except (BaseError, ValueError) as error:
            raise _unavailable(str(error), self._bucket) from None

    def put(self, name: str, content: bytes | Path) -> None:
        if isinstance(content, bytes):
            of_size = self._quick if len(content) <= _QUICK_BYTES else self._store
            with self._errors():
                of_size.put(name, content, use_multipart=False)
            return
        size = max(PIECE, content.stat().st_size // _MOST_PIECES)
        with self._errors():
            self._store.put(name, content, chunk_size=size, max_concurrency=3)
        content.unlink()

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        with self._errors():
            if stop is None and not start:
                return bytes(self._store.get(name).bytes())
            end = self._quick.head(name)["size"] if stop is None else stop
            of_size = self._quick if end - start <= _QUICK_BYTES else self._store
            return bytes(of_size.get_range(name, start=start, end=end)) if end > start else b""

    def stat(self, name: str) -> StoredFile:
        with self._errors():
            return _stored(self._quick.head(name))

    def list(self, folder: str) -> Iterator[StoredFile]:
        with self._errors():
            for page in self._quick.list(folder, chunk_size=1_000):
                yield from map(_stored, page)

    def delete(self, names: Iterable[str]) -> None:
        with self._errors():
            self._quick.delete([*names])

    def delete_folder(self, folder: str) -> None:
        self.delete([file.name for file in self.list(folder)])

    def check(self) -> None:
        """Raise ConfigurationError where files cannot be put, listed, read and deleted."""
        folder, content = f"probe-{token_hex(8)}", b"fhirapp"
        try:
            self.put(f"{folder}/file", content)
            found = [self.read(file.name, 0, file.size) for file in self.list(folder)]
            self.delete([f"{folder}/file"])
        except OSError as error:
            raise UnusableFiles(
                f"FHIRAPP_FILES={self.place} cannot be used: {reason_of(error)}; look at "
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL.",
                passes=isinstance(error, FilesUnavailable) and error.passes,
            ) from None
        if found != [content]:
            raise UnusableFiles(
                f"FHIRAPP_FILES={self.place} cannot be used: it does not return what was put there."
            )


def _stored(found: Any) -> StoredFile:
    return StoredFile(found["path"], found["size"], found["last_modified"].timestamp())


def _unavailable(text: str, bucket: str) -> FilesUnavailable:
    """Return why a store did not do it, of what obstore says: a status, and S3's name of that."""
    code = re.search(r"<Code>(\w{1,60})</Code>", text)
    status = re.search(r"status code: (\d{3})", text)
    name = code[1] if code else status[1] if status else ""
    if name == "NoSuchBucket":
        return FilesUnavailable(f"there is no bucket {bucket}")
    if "169.254.169.254" in text:
        return FilesUnavailable("there is no key for it")
    if status and status[1] in ("401", "403"):
        return FilesUnavailable(f"the store refuses the key ({name})")
    if name:
        return FilesUnavailable(f"the store answers {name}", passes=True)
    return FilesUnavailable("the store cannot be reached", passes=True)


def shared_files(settings: Settings) -> Folder | Bucket:
    """Return where files lie. Raises ConfigurationError."""
    return _files_at(settings.files or str(settings.instance), os.getpid())


# Of a process: one that was forked has none of its parent's connections.
@lru_cache(maxsize=8)
def _files_at(place: str, _process: int) -> Folder | Bucket:
    return Bucket(place) if place.startswith(SCHEME) else Folder(Path(place))


def fetch(files: Files, name: str, target: Path) -> None:
    """Copy a file to this disk, piece by piece."""
    with target.open("wb") as file:
        for piece in pieces(files, name, 0, files.stat(name).size):
            file.write(piece)


def pieces(files: Files, name: str, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes [start, stop) of a file, piece by piece."""
    for at in range(start, stop, PIECE):
        yield files.read(name, at, min(at + PIECE, stop))


_looked_at: dict[tuple[str, str], float] = {}


def orphans(files: Files, folder: str, known: Collection[str], before: float) -> list[str]:
    """Return the folders in a folder that are not known, where nothing was put since a moment.

    Where listing is slow and has its price, none is found for an hour after the last look.
    """
    key, now = (files.place, folder), time.monotonic()
    if not files.is_folder and now - _looked_at.get(key, -_ORPHAN_SECONDS) < _ORPHAN_SECONDS:
        return []
    _looked_at[key] = now
    newest: dict[str, float] = {}
    for file in islice(files.list(folder), _MOST_LISTED):
        name = file.name.removeprefix(f"{folder}/").partition("/")[0]
        if name not in known:
            newest[name] = max(newest.get(name, 0.0), file.modified)
    return [f"{folder}/{name}" for name, modified in newest.items() if modified < before]


def check_before_fork(environment: Mapping[str, str]) -> None:
    """Check the files' place as Bucket.check() does, in a process of its own.

    A process that forks must not have talked to a store before. environment holds the settings.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fhirapp.files"],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["The check of FHIRAPP_FILES failed."])[-1]
        raise UnusableFiles(reason, passes=done.returncode == _PASSES)


if __name__ == "__main__":
    try:
        shared_files(load_settings()).check()
    except ConfigurationError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(_PASSES if getattr(problem, "passes", False) else 2)
