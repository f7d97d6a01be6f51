"""A folder for copies of the database that are looked at and thrown away."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from fhirapp.config import ConfigurationError
from fhirapp.disk.files import because
from fhirapp.disk.flock import is_left, naming_in, take

_PREFIX = ".fhirapp-scratch-"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make a folder in a folder, which only this user may read; it is removed at the end.

    What a process left that was killed is removed by the next. Raises ConfigurationError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, descriptor = _make(folder)
    except OSError as error:
        raise ConfigurationError(
            f"The folder {folder} cannot be written ({because(error)}); run this as the server's "
            "own user, or name another in FHIRAPP_INSTANCE_PATH."
        ) from None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _make(folder: Path) -> tuple[Path, int | None]:
    """Make a folder and hold it; remove those that nobody holds any more."""
    with naming_in(folder):
        for path in folder.glob(f"{_PREFIX}*"):
            if is_left(path):
                shutil.rmtree(path, ignore_errors=True)
        made = Path(mkdtemp(prefix=_PREFIX, dir=folder))
        if sys.platform == "win32":
            return made, None
        held = os.open(made, os.O_RDONLY)
        take(held, alone=True)
        return made, held
