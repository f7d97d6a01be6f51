"""The file of the day, to which a process appends lines."""

from __future__ import annotations

import errno
import logging
import os
from datetime import datetime
from pathlib import Path
from threading import Lock

_log = logging.getLogger(__name__)

# Of requests that came too often one a minute is noted, by each process.
_SECONDS = 60


class File:
    """The file of the day, held open by a process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""
        self._descriptor = -1
        self._pid = 0
        # Whether the last line in it has no end.
        self._is_torn = False
        # Lines that could not be written, since one could.
        self._lost = 0
        self._throttled: dict[str | None, tuple[float, int]] = {}
        # A thread that opens the next day's file closes what another may be writing to.
        self._lock = Lock()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def append(self, now: datetime, line: bytes) -> None:
        """Append a line; where that fails, the log says so, once until it works again."""
        with self._lock:
            try:
                self._append(f"{now:%Y-%m-%d}.ndjson", line)
            except OSError as error:
                self._lost += 1
                if self._lost == 1:
                    _log.error("the audit trail cannot be written: %s", error.strerror)
                return
            if self._lost:
                _log.error("the audit trail is written again; it lacks %s requests", self._lost)
                self._lost = 0

    def count_throttled(self, client_id: str | None, now: float) -> int | None:
        """Count a request of a client, or of strangers, that was refused as one of too many.

        now is in seconds of a clock. Return how many were left out since the last one that was
        noted; None where this is too.
        """
        with self._lock:
            noted_at, left_out = self._throttled.get(client_id, (now - _SECONDS, 0))
            if now - noted_at < _SECONDS:
                self._throttled[client_id] = noted_at, left_out + 1
                return None
            self._throttled[client_id] = now, 0
            return left_out

    def _append(self, name: str, line: bytes) -> None:
        # A process that was forked opens its own.
        if name != self._name or self._pid != os.getpid():
            self._open(name)
        # Not taken back: another process may have written behind it meanwhile.
        line = b"\n" + line if self._is_torn else line
        written = os.write(self._descriptor, line)
        self._is_torn = written < len(line)
        if self._is_torn:
            raise OSError(errno.ENOSPC, "there was room for a part of a line alone")

    def _open(self, name: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self._folder / name, flags, 0o600)
        # What a parent opened is its own, to be closed by it.
        if self._descriptor >= 0 and self._pid == os.getpid():
            os.close(self._descriptor)
        self._descriptor, self._name, self._pid = descriptor, name, os.getpid()
        # What was cut off before this process began.
        is_empty = os.lseek(descriptor, 0, os.SEEK_END) == 0
        self._is_torn = not is_empty and _last_byte(descriptor) != b"\n"


def _last_byte(descriptor: int) -> bytes:
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1)
