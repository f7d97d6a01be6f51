"""Lines of JSON, each with the digest of the one before; and the files of them.

A line is numbered, and its digest is the SHA-256 of the digest before it and of the line itself:

    {"at":"…",…,"n":4711,"hash":"9f86d081…"}

So nothing can be changed, removed, put in between or put elsewhere without all that follows being
made anew; and every thousandth line, the first of each file, and one each five minutes is a head: a
number and its digest, signed with the server's key (Ed25519). Whoever has a copy of a head
(`fhirapp audit head`) can tell a trail that was cut off or made anew with that key
(`fhirapp audit verify`).

Beside SQLite there is a file for each day (UTC) in the instance folder's `audit/`, which only the
server's user may read. All processes append to one chain: they take turns by a lock on the folder.
What a full disk or a power cut left of a line is covered by the next line's digest. table.py keeps
the lines in PostgreSQL.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, cast

from fhirapp.disk import owned_as, written_whole
from fhirapp.fhir import json as fhir_json

SUFFIX = ".ndjson"
HEAD, MISSING = "head", "missing"
# There is a head among so many lines, and after so many seconds.
HEAD_LINES, HEAD_SECONDS = 1_000, 300
_NAME = re.compile(r"\d{4}-\d\d-\d\d\.ndjson(?:\.gz)?")
_LOCK = ".lock"
_ENDS = re.compile(rb',"n":([0-9]{1,15}),"hash":"([0-9a-f]{64})"\}\n\Z')
# Bytes of a file's end that hold what _ENDS finds.
_END_BYTES = 120


class Head(NamedTuple):
    """A line of the chain: its number, from 1 on, and its digest in 64 hexadecimal digits."""

    number: int
    digest: str


NOTHING = Head(0, "0" * 64)


class Unwritable(Exception):
    """A line could not be written, so what it is of is not done; str() says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The audit trail cannot be written ({reason}), so this is not done.")
        self.reason = reason


def files(folder: Path) -> list[Path]:
    """Return the files of a trail, the oldest first; of a day that is being packed, one."""
    named = {file.name: file for file in folder.iterdir()} if folder.is_dir() else {}
    return [
        file
        for name, file in sorted(named.items())
        if _NAME.fullmatch(name) and not (name.endswith(SUFFIX) and f"{name}.gz" in named)
    ]


def following(head: Head, content: bytes) -> tuple[Head, bytes]:
    """Return the head after a JSON object, and its line."""
    number = head.number + 1
    body = b'%b,"n":%d' % (content[:-1], number)
    digest = hashlib.sha256(head.digest.encode() + body).hexdigest()
    return Head(number, digest), b'%b,"hash":"%b"}\n' % (body, digest.encode())


def split(line: bytes) -> tuple[bytes, Head] | None:
    """Return a line's JSON object without its head, and that; None where it has none."""
    match = _ENDS.search(line)
    if match is None:
        return None
    return line[: match.start()] + b"}", Head(int(match[1]), match[2].decode())


def over(head: Head, torn: bytes) -> Head:
    """Return the head that covers what was torn off after a line."""
    return Head(head.number, hashlib.sha256(head.digest.encode() + torn).hexdigest())


def signed_text(head: Head, at: str, chain: str = "", others: Mapping[str, Head] = {}) -> bytes:
    """Return what a head's signature is of: in a table also the chain, and the others' last."""
    text = f"fhirapp audit head {head.number} {head.digest} {at}"
    joined = [f"{name} {last.number} {last.digest}" for name, last in sorted(others.items())]
    return "\n".join([f"{text} {chain}" if chain else text, *joined]).encode()


class Trail(ABC):
    """The trail as one process appends to it."""

    def __init__(self) -> None:
        # What this process appended last.
        self._head = NOTHING
        self._signed_at = 0.0
        # Lines that were refused since one was written.
        self.missing = 0
        # Why the last one was, empty where it was written.
        self.failure = ""
        self._lock = Lock()

    def append(self, line: dict[str, Any]) -> None:
        """Append a line, whose at is when; raises Unwritable, and then counts it as missing."""
        with self._lock:
            try:
                with self._turn():
                    self._append(line)
            except OSError as error:
                self._forget()
                self.missing += 1
                self.failure = error.strerror or str(error)
                raise Unwritable(self.failure) from error

    def head(self) -> dict[str, Any]:
        """Append a head, and return it. Raises Unwritable."""
        with self._lock:
            try:
                with self._turn():
                    return self._write_head()
            except OSError as error:
                self._forget()
                raise Unwritable(error.strerror or str(error)) from error

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Keep a file beside the trail. Raises OSError."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return what is kept beside the trail under a name, None where nothing is."""

    @abstractmethod
    def size(self) -> int:
        """Return how many bytes the trail takes, with what is kept beside it."""

    @abstractmethod
    def why_unwritable(self) -> str:
        """Return why no line can be written, empty where one can."""

    @abstractmethod
    def _turn(self) -> AbstractContextManager[None]:
        """Be the only one who appends, and know what was appended last. Raises OSError."""

    @property
    @abstractmethod
    def _is_at_begin(self) -> bool:
        """Whether the next line must be a head."""

    @abstractmethod
    def _signed(self) -> dict[str, Any]:
        """Return the line of a head."""

    @abstractmethod
    def _store(self, head: Head, line: bytes, *, is_head: bool) -> None:
        """Write a line. Raises OSError."""

    @abstractmethod
    def _forget(self) -> None:
        """Look anew, when the next line comes: one could not be written."""

    def _append(self, line: dict[str, Any]) -> None:
        if self._is_at_begin or time.monotonic() - self._signed_at >= HEAD_SECONDS:
            self._write_head()
        if self.missing:
            self._chain({"at": line["at"], "event": MISSING, "what": str(self.missing)})
            self.missing = 0
        self._chain(line)
        self.failure = ""

    def _write_head(self) -> dict[str, Any]:
        line = self._signed()
        self._signed_at = time.monotonic()
        self._write_next(line, is_head=True)
        return line

    def _chain(self, line: dict[str, Any]) -> None:
        if (self._head.number + 1) % HEAD_LINES == 0:
            self._write_head()
        self._write_next(line)

    def _write_next(self, line: dict[str, Any], *, is_head: bool = False) -> None:
        head, written = following(self._head, fhir_json.dumps(line))
        self._store(head, written, is_head=is_head)
        self._head = head


class FileTrail(Trail):
    """The trail in the files of a folder; sign returns the line that a head is."""

    def __init__(self, folder: Path, sign: Callable[[Head], dict[str, Any]]) -> None:
        super().__init__()
        self._folder, self._sign = folder, sign
        self._name, self._descriptor, self._lock_descriptor, self._pid = "", -1, -1, 0
        # Where the file ended when this process appended last.
        self._end = -1

    def __del__(self) -> None:
        self._close()

    def put(self, name: str, content: bytes) -> None:
        """Write a file whole, or nothing."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owned_as(self._folder, self._folder.parent)
        with written_whole(self._folder / name, like=self._folder) as file:
            file.write(content)

    def get(self, name: str) -> bytes | None:
        """Read a file."""
        try:
            return (self._folder / Path(name).name).read_bytes()
        except OSError:
            return None

    def size(self) -> int:
        """Count the files' bytes."""
        try:
            return sum(path.stat().st_size for path in self._folder.iterdir() if path.is_file())
        except OSError:
            # Nothing has been asked yet; or a file was removed meanwhile.
            return 0

    def why_unwritable(self) -> str:
        """Look at the last line that could not be written, and at the rights."""
        right = "" if writable(self._folder) else f"no right to write {self._folder}"
        return self.failure or right

    @property
    def _is_at_begin(self) -> bool:
        return self._end == 0

    def _signed(self) -> dict[str, Any]:
        return self._sign(self._head)

    def _forget(self) -> None:
        self._end = -1

    def _store(self, _head: Head, line: bytes, *, is_head: bool) -> None:  # noqa: ARG002
        self._write(line)

    def _write(self, content: bytes) -> None:
        # Not taken back where it is cut off: nothing in the trail is ever changed.
        written = os.write(self._descriptor, content)
        if written < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end += written

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._pid != os.getpid():
            self._begin()
        if sys.platform == "win32":
            self._open()
            self._look()
            yield
            return
        import fcntl

        try:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX)
            is_locked = True
        except OSError:
            # A file system without locks.
            is_locked = False
        try:
            self._open()
            self._look()
            yield
        finally:
            if is_locked:
                fcntl.flock(self._lock_descriptor, fcntl.LOCK_UN)

    def _begin(self) -> None:
        """Open the lock in this process: a process that was forked has its parent's."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owned_as(self._folder, self._folder.parent)
        path = self._folder / _LOCK
        self._lock_descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
        self._descriptor, self._name, self._end = -1, "", -1
        self._pid = os.getpid()

    def _open(self) -> None:
        """Open the day's file; never one before the newest that is there."""
        name = f"{datetime.now(UTC):%Y-%m-%d}{SUFFIX}"
        if name <= self._name:
            return
        found = [file.name for file in files(self._folder)]
        if found and found[-1] > name:
            # The clock was set back.
            name = found[-1].removesuffix(".gz")
        descriptor = _opened(self._folder / name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._name, self._end = descriptor, name, -1

    def _look(self) -> None:
        """Find the head, where another process appended since."""
        size = os.fstat(self._descriptor).st_size
        if size == self._end:
            return
        found = split(os.pread(self._descriptor, _END_BYTES, max(0, size - _END_BYTES)))
        self._end = size
        if found is not None:
            self._head = found[1]
            return
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            self._write(b"\n")
        self._head = _last(self._folder)

    def _close(self) -> None:
        if self._pid == os.getpid():
            for descriptor in (self._descriptor, self._lock_descriptor):
                if descriptor >= 0:
                    os.close(descriptor)


def writable(folder: Path) -> bool:
    """Say whether this process may append to a folder's trail, or begin one."""
    if not folder.exists():
        return os.access(folder.parent, os.W_OK)
    return os.access(folder, os.W_OK) and all(
        os.access(file, os.W_OK) for file in files(folder)[-1:]
    )


def _opened(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    # The server's user appends too to what the administrator of the machine began.
    owned_as(path, path.parent)
    return descriptor


def _last(folder: Path) -> Head:
    """Return the head that the next line follows: what is torn off after a line is covered."""
    torn = b""
    for file in reversed(files(folder)):
        lines = content(file).split(b"\n")
        for place in range(len(lines) - 2, -1, -1):
            if found := split(lines[place] + b"\n"):
                torn = b"\n".join(lines[place + 1 :]) + torn
                return over(found[1], torn) if torn else found[1]
        torn = b"\n".join(lines) + torn
    # Lines of the first edition have no digests.
    return NOTHING


def opened(file: Path) -> IO[bytes]:
    """Return a file, packed or not, open to be read. Raises OSError."""
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def content(file: Path) -> bytes:
    """Return the whole of a file, packed or not. Raises OSError."""
    with opened(file) as lines:
        return lines.read()


def size_of(file: Path) -> int:
    """Return how many bytes a file has unpacked; of what is packed, modulo 2^32 (RFC 1952)."""
    if file.suffix != ".gz":
        return file.stat().st_size
    with file.open("rb") as packed:
        packed.seek(-4, os.SEEK_END)
        return int.from_bytes(packed.read(4), "little")
