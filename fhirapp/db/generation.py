"""Says in every process of this server, at once, that something was written.

Eight bytes of a file that all of them map: whoever writes changes them after the commit, whoever
keeps something that was read compares them, which costs no system call. So what is kept from a
request to the next is never older than the last commit.
"""

from __future__ import annotations

import mmap
import os
from functools import cached_property
from pathlib import Path

from flask import current_app

from fhirapp.config import ConfigurationError

_SIZE = 8
_NAME = "generation"
EXTENSION = "fhirapp.generation"


class Generation:
    """A value that is another one after each write, whichever process writes."""

    def __init__(self, instance: Path) -> None:
        self._path = instance / _NAME

    def now(self) -> bytes:
        """Return the value; read it before what is kept with it."""
        return self._shared[:]

    def change(self) -> None:
        """Say that something was committed."""
        self._shared[:] = os.urandom(_SIZE)

    @cached_property
    def _shared(self) -> mmap.mmap:
        """The file in memory, made at first. Raises ConfigurationError."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The file {self._path} cannot be written ({error.strerror}); give this user the "
                "right to, or name another folder in FHIRAPP_INSTANCE_PATH."
            ) from None
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            return mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)


def generation() -> Generation:
    """Return the running app's."""
    found: Generation = current_app.extensions[EXTENSION]
    return found
